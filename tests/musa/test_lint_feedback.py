"""Portability is checked before compiling, and what it finds reaches the verdict and the model."""

import sys
from pathlib import Path

from musaagent.tools.candidate import Candidate
from musaagent.tools.feedback import repair_feedback
from musaagent.tools.host.target import HostTarget
from musaagent.tools.port.checked_build import warnings_of
from musaagent.tools.results import Status, Verdict
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import load_task

sys.path.insert(0, str(Path(__file__).parent))
from warp32 import candidate, op

OP = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x + {value}


def get_inputs():
    return [torch.randn(64)]


def get_init_inputs():
    return []
"""
CANDIDATE = '''import torch
import torch.nn as nn
from torch_musa.utils.musa_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <musa_runtime.h>
__global__ void k(const float* x, float* y) {{
  float add = 0.f;
{body}
  y[threadIdx.x] = x[threadIdx.x] + add;
}}
at::Tensor run(at::Tensor x) {{
  auto y = at::empty_like(x);
  k<<<1, 64>>>(x.data_ptr<float>(), y.data_ptr<float>());
  return y;
}}
"""
m = load_inline(name="k", cpp_sources="at::Tensor run(at::Tensor x);", musa_sources=source,
                functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return m.run(x)
'''


def judged(host: HostTarget, op_text: str, text: str, folder: Path, arch: str) -> Verdict:
    path = folder / "op.py"
    path.write_text(op_text)
    task = load_task(path)
    options = VerifyOptions(seed=3, trials=1, arch=arch, warp_size=128, timeout_s=20)
    try:
        return host.verify(task, Candidate(text), options)
    finally:
        host.forget(task)


def test_what_the_card_lacks_is_a_compile_error_before_any_compiler(
    host: HostTarget, tmp_path: Path
) -> None:
    body = "  __mt_bfloat16 half = __float2bfloat16(add);\n  add = __bfloat162float(half);"
    text = CANDIDATE.format(body=body)
    verdict = judged(host, OP.format(value=0), text, tmp_path, "mp_21")
    assert verdict.status is Status.COMPILE_ERROR
    assert verdict.build is not None
    first = verdict.build.diagnostics[0]
    assert (first.tool, first.source, first.line) == ("portability", "cuda_sources[0]", 6)
    assert verdict.build.compiler_seconds == 0
    assert "mp_21 has no bfloat16" in repair_feedback(verdict)


def test_a_warp_bug_is_told_with_its_line_beside_the_wrong_values(
    host: HostTarget, tmp_path: Path
) -> None:
    name = "total_from_lane_31"
    verdict = judged(host, op(name), candidate(name), tmp_path, "mp_22")
    assert verdict.status is Status.MISMATCH
    assert warnings_of(verdict.build)
    assert any(flag.startswith("portability to mp_22: ") for flag in verdict.flags)
    told = repair_feedback(verdict)
    assert "Not portable to this card" in told
    assert "`& 31` of a thread's number" in told


def test_sources_see_the_number_of_the_card(host: HostTarget, tmp_path: Path) -> None:
    body = (
        "#if __MUSA_ARCH__ == 220\n  add = 5.f;\n#elif __MUSA_ARCH__ == 310\n  add = 7.f;\n#endif"
    )
    text = CANDIDATE.format(body=body)
    for arch, value in (("mp_22", 5), ("mp_31", 7)):
        verdict = judged(host, OP.format(value=value), text, tmp_path, arch)
        assert verdict.status is Status.PASSED, (arch, verdict.message)
