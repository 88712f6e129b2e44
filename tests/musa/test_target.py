"""The musa target over a stand-in for mcc: it compiles for real, and says that nothing ran."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from musaagent.errors import ToolchainMissing
from musaagent.tools.candidate import Candidate
from musaagent.tools.host.target import HostTarget
from musaagent.tools.musa import toolchain
from musaagent.tools.musa.target import MusaTarget
from musaagent.tools.results import Status
from musaagent.tools.target import Target, VerifyOptions
from musaagent.tools.task import load_task

STAND_IN = Path(__file__).parent / "standin"
CANDIDATES = Path(__file__).parents[1] / "candidates"
needs_clang = pytest.mark.skipif(
    shutil.which("clang++") is None, reason="no clang++: the stand-in for mcc is made of it"
)
SPELLINGS = {
    "musa": (
        "from torch_musa.utils.musa_extension import load_inline",
        'load_inline(name="k", cpp_sources=CPP, musa_sources=SOURCE, functions=["run"])',
    ),
    "stock": (
        "from torch.utils.cpp_extension import load_inline",
        'load_inline(name="k", cpp_sources=CPP, cuda_sources=SOURCE, functions=["run"])',
    ),
    "torchada": (
        "import torchada\nfrom torchada.utils.cpp_extension import load_inline",
        'load_inline(name="k", cpp_sources=CPP, cuda_sources=SOURCE, functions=["run"])',
    ),
}
_TEXT = """import torch
import torch.nn as nn
{imports}

CPP = "at::Tensor run(at::Tensor x);"
SOURCE = r'''
#include <torch/extension.h>
#include <{runtime}>
__global__ void twice(const float* x, float* y, int n) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = {expression};
}}
at::Tensor run(at::Tensor x) {{
  auto y = at::empty_like(x);
  twice<<<(x.numel() + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  TORCH_CHECK({prefix}GetLastError() == {prefix}Success, "launch");
  return y;
}}
'''
m = {call}


class ModelNew(nn.Module):
    def forward(self, x):
        return m.run(x)
"""
OP = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return 2 * x


def get_inputs():
    return [torch.randn(100)]


def get_init_inputs():
    return []
"""


def text(spelling: str, names: str = "musa", expression: str = "2.f * x[i]") -> str:
    imports, call = SPELLINGS[spelling]
    return _TEXT.format(
        imports=imports,
        call=call,
        runtime=f"{names}_runtime.h",
        prefix=names,
        expression=expression,
    )


@pytest.fixture(scope="module")
def op(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("op") / "op.py"
    path.write_text(OP)
    return path


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusaTarget]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUSA_HOME", str(STAND_IN))
        patch.delenv("PYTORCH_MCC", raising=False)
        with MusaTarget(tmp_path_factory.mktemp("musa")) as made:
            yield made


@needs_clang
@pytest.mark.parametrize(
    ("spelling", "names"),
    # Stock and torchada hand over the same sources; units of the others: test_commands.py.
    [("musa", "musa"), ("stock", "cuda"), ("torchada", "cuda")],
)
def test_every_spelling_compiles_here_and_is_right_on_the_host(
    target: MusaTarget, host: HostTarget, op: Path, spelling: str, names: str
) -> None:
    task, candidate = load_task(op), Candidate(text(spelling, names))
    verdict = target.verify(task, candidate, VerifyOptions(arch="mp_22"))
    assert verdict.status is Status.INFRA_ERROR
    assert verdict.message.startswith("compile-only: compiled for mp_22; there is no Moore Threads")
    assert verdict.build is not None
    assert verdict.build.ok
    assert "stand-in" in verdict.build.real_compile
    options = VerifyOptions(seed=1, trials=1, arch="mp_22", warp_size=128, probes=False)
    assert host.verify(task, candidate, options).status is Status.PASSED


@needs_clang
def test_an_error_of_mcc_is_at_the_candidates_own_line(target: MusaTarget, op: Path) -> None:
    candidate = Candidate(text("stock", "cuda", expression="2.f * z[i]"))
    verdict = target.verify(load_task(op), candidate, VerifyOptions(arch="mp_31"))
    assert verdict.status is Status.COMPILE_ERROR
    assert verdict.build is not None
    (first,) = verdict.build.diagnostics
    assert (first.tool, first.source, first.line) == ("mcc", "cuda_sources[0]", 6)
    assert first.message == "use of undeclared identifier 'z'"
    assert first.text == "if (i < n) y[i] = 2.f * z[i];"


@needs_clang
def test_host_code_called_on_the_device_is_refused(target: MusaTarget, op: Path) -> None:
    """What the device pass of a clang knows and a host compiler does not."""
    candidate = Candidate(text("musa", expression='strtof("2", nullptr) * x[i]'))
    verdict = target.verify(load_task(op), candidate, VerifyOptions(arch="mp_22"))
    assert verdict.status is Status.COMPILE_ERROR
    assert "no matching function for call to 'strtof'" in verdict.message


def test_portability_comes_before_any_compiler(target: MusaTarget, op: Path) -> None:
    ptx = 'asm volatile("bar.sync 0;"); y[i] = x[i]'
    candidate = Candidate(text("stock", "cuda", expression="0.f").replace("y[i] = 0.f", ptx))
    build = target.build(load_task(op), candidate, VerifyOptions(arch="mp_22"))
    assert not build.ok
    assert build.compiler_seconds == 0
    assert build.diagnostics[0].message == "inline PTX is NVIDIA's assembly: write it in C++"


def test_without_mcc_it_says_what_to_do(op: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from musaagent.app import open_target

    monkeypatch.setattr(toolchain, "DEFAULT_HOME", Path("/nonexistent"))
    monkeypatch.delenv("MUSA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(ToolchainMissing, match=r"target musa cannot run here.*--target host"):
        open_target("musa", compiles_only=True)


# ---- what every target promises (tools/target.py), for the host's and this one


@pytest.fixture(params=["host", "musa"])
def any_target(request: pytest.FixtureRequest) -> Target:
    if request.param == "musa" and shutil.which("clang++") is None:
        pytest.skip("no clang++: the stand-in for mcc is made of it")
    found: Target = request.getfixturevalue("target" if request.param == "musa" else "host")
    assert found.name == request.param
    return found


WRONG = text("stock", "cuda", expression="2.f * z[i]")


def test_capabilities_say_what_to_do(any_target: Target) -> None:
    found = any_target.capabilities()
    assert all(c.ok for c in found if c.required)
    assert all(c.remedy for c in found if not c.ok)


def test_the_plan_is_the_tasks_whatever_the_target(any_target: Target, op: Path) -> None:
    plan = any_target.plan(load_task(op))
    assert plan.input_shapes == ("float32[100]",)
    assert plan.graph is not None


def test_a_build_is_a_value_and_comes_from_the_cache_again(any_target: Target, op: Path) -> None:
    task, options = load_task(op), VerifyOptions(arch="mp_22")
    candidate = Candidate(text("musa"))
    assert any_target.build(task, candidate, options).ok
    again = any_target.build(task, candidate, options)
    assert again.ok
    assert again.cached
    assert again.compiler_seconds == 0


def test_a_failed_build_decides_even_if_the_candidate_hides_it(
    any_target: Target, op: Path
) -> None:
    hidden = WRONG.replace("\nm = load", "\ntry:\n    m = load").replace(
        "\n\n\nclass ModelNew", "\nexcept Exception:\n    m = None\n\n\nclass ModelNew"
    )
    verdict = any_target.verify(load_task(op), Candidate(hidden), VerifyOptions(arch="mp_31"))
    assert verdict.status is Status.COMPILE_ERROR
    assert verdict.build is not None
    first = next(d for d in verdict.build.diagnostics if d.severity == "error")
    assert (first.source, first.line) == ("cuda_sources[0]", 6)


def test_what_defines_no_model_is_no_candidate(any_target: Target, op: Path) -> None:
    build = any_target.build(load_task(op), Candidate("x = 1\n"), VerifyOptions())
    assert build.libraries == ()


def test_what_was_forgotten_may_be_asked_for_again(any_target: Target, op: Path) -> None:
    task = load_task(op)
    any_target.forget(task)
    assert any_target.plan(task).input_shapes == ("float32[100]",)
