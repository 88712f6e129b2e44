"""Verdicts that depend on more than one run: at once, at other sizes, with other weights."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from musaagent.tools.candidate import Candidate
from musaagent.tools.host.target import HostTarget
from musaagent.tools.results import MismatchKind, Status, Verdict
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import load_task

ROW_SUMS = """
import torch
import torch.nn as nn

batch = 512
features = 8192


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features))

    def forward(self, x):
        return (x * self.gain).sum(dim=1)


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return []
"""

CANDIDATE = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void row_sums(const float* x, const float* gain, float* y, int features) {
  __shared__ float part[256];
  float sum = 0.f;
  for (int i = threadIdx.x; i < features; i += blockDim.x)
    sum += x[blockIdx.x * features + i] * gain[i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int s = 128; s > 0; s >>= 1) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
torch::Tensor sums(torch::Tensor x, torch::Tensor gain) {
  auto y = torch::empty({x.size(0)}, x.options());
  row_sums<<<x.size(0), 256>>>(x.data_ptr<float>(), gain.data_ptr<float>(), y.data_ptr<float>(),
                               FEATURES);
  return y;
}
"""
ext = load_inline(name="row_sums", cpp_sources="torch::Tensor sums(torch::Tensor x, torch::Tensor gain);",
                  cuda_sources=source, functions=["sums"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.NAME = nn.Parameter(torch.rand(LENGTH))

    def forward(self, x):
        return ext.sums(x, self.NAME)
'''


def candidate(features: str = "x.size(1)", name: str = "gain", length: str = "512") -> str:
    text = CANDIDATE.replace("FEATURES", features).replace("NAME", name)
    return text.replace("LENGTH", length)


@pytest.fixture(scope="module")
def target() -> Iterator[HostTarget]:
    with HostTarget() as made:
        yield made


@pytest.fixture
def verify(target: HostTarget, tmp_path: Path):  # type: ignore[no-untyped-def]
    writing = threading.Lock()

    def run(task: str, text: str, **options: object) -> Verdict:
        path = tmp_path / "op.py"
        with writing:  # several threads may come at once
            if not path.exists():
                path.write_text(task)
        return target.verify(
            load_task(path),
            Candidate(text),
            VerifyOptions(seed=5, **options),  # type: ignore[arg-type]
        )

    return run


SMALL = ROW_SUMS.replace("512", "37").replace("8192", "512")


def test_candidates_of_one_task_do_not_disturb_each_other(verify) -> None:  # type: ignore[no-untyped-def]
    """The reference's process holds one module and one draw of inputs at a time."""
    texts = [candidate(), candidate("x.size(1) - 1")] * 2
    with ThreadPoolExecutor(len(texts)) as pool:
        verdicts = list(pool.map(lambda text: verify(SMALL, text), texts))
    assert [v.status for v in verdicts] == [Status.PASSED, Status.MISMATCH] * 2
    assert {v.message for v in verdicts[::2]} == {""}


def test_what_is_written_for_the_task_s_own_sizes_passes_and_is_flagged(verify) -> None:  # type: ignore[no-untyped-def]
    verdict = verify(ROW_SUMS, candidate("8192", length="8192"))
    assert verdict.status is Status.PASSED, (verdict.message, verdict.details)
    assert any(flag.startswith("specialised: at the smaller sizes") for flag in verdict.flags)
    assert verdict.shapes[0].endswith("8192]")


def test_what_is_wrong_at_every_size_stays_wrong(verify) -> None:  # type: ignore[no-untyped-def]
    verdict = verify(ROW_SUMS, candidate("x.size(1) - 1", length="8192"))
    assert verdict.status is Status.MISMATCH
    assert not any(flag.startswith("specialised") for flag in verdict.flags)


def test_other_weights_under_another_name_are_no_port(verify) -> None:  # type: ignore[no-untyped-def]
    drawn_first = candidate(name="scale").replace(
        "super().__init__()\n", "super().__init__()\n        torch.rand(3)\n"
    )
    verdict = verify(SMALL, drawn_first)
    assert verdict.status is Status.MISMATCH
    assert verdict.kind is MismatchKind.NUMERIC
    assert "scale is no name of the reference's" in verdict.message
    assert verify(SMALL, candidate(name="scale")).status is Status.PASSED


SCALE = """
import torch
import torch.nn as nn

rows = 4096
columns = 4096


class Model(nn.Module):
    def forward(self, x):
        return x * 3


def get_inputs():
    return [torch.rand(rows, columns)]


def get_init_inputs():
    return []
"""

SCALE_CANDIDATE = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void triple(const float* x, float* y, int columns) {
  for (int i = threadIdx.x; i < columns; i += blockDim.x)
    y[(size_t)blockIdx.x * columns + i] = 3 * x[(size_t)blockIdx.x * columns + i];
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::zeros_like(x);
  const int columns = x.size(1);
  triple<<<x.size(0), THREADS>>>(x.data_ptr<float>(), y.data_ptr<float>(), columns);
  return y;
}
"""
ext = load_inline(name="triple", cpp_sources="torch::Tensor run(torch::Tensor x);",
                  cuda_sources=source, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x.cuda())
'''


def test_launches_are_checked_at_the_task_s_own_sizes(verify) -> None:  # type: ignore[no-untyped-def]
    verdict = verify(SCALE, SCALE_CANDIDATE.replace("THREADS", "columns"))
    assert verdict.status is Status.RUNTIME_ERROR, verdict.shapes
    assert "at the task's own sizes: invalid_launch in triple" in verdict.message
    assert "4096 threads, the limit is 1024" in verdict.message
    right = verify(SCALE, SCALE_CANDIDATE.replace("THREADS", "256"), check=True)
    assert right.status is Status.PASSED, right.message
    assert right.checked
    assert right.flags == ()
