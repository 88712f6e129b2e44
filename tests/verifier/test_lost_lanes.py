"""A lane that ends the process, or the device, is told alone: what comes after it is judged anew."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from musaagent.tools.candidate import Candidate
from musaagent.tools.host.target import HostTarget
from musaagent.tools.results import Status
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import load_task

TASK = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.rand(37, 50)]


def get_init_inputs():
    return []
"""

CANDIDATE = '''
import torch
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="ends", cpp_sources="torch::Tensor run(torch::Tensor x);", functions=["run"],
    cuda_sources=r"""
#include <torch/extension.h>
__global__ void copy(const float* x, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (x[i] < 0.f) ENDS;
  o[i] = x[i];
}
torch::Tensor run(torch::Tensor x) {
  auto o = torch::empty_like(x);
  int n = x.numel();
  copy<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), o.data_ptr<float>(), n);
  return o;
}
""")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return ext.run(x.contiguous())
'''
BELOW_ZERO = (
    "specialised: inputs of which a few have the other sign: ",
    "specialised: inputs with infinities: ",
    "specialised: inputs without a positive value: ",
)


@pytest.fixture(scope="module")
def target() -> Iterator[HostTarget]:
    with HostTarget(compile_for_gpu=False) as made:
        yield made


@pytest.mark.parametrize("ends", ["__trap()", "*(int*)nullptr = 1"])
def test_only_the_lanes_that_end_it_are_told(target: HostTarget, tmp_path: Path, ends: str) -> None:
    path = tmp_path / "task.py"
    path.write_text(TASK)
    candidate = Candidate(CANDIDATE.replace("ENDS", ends))
    for seed in (1, 2, 3):
        verdict = target.verify(load_task(path), candidate, VerifyOptions(seed=seed))
        assert verdict.status is Status.PASSED, verdict.message
        assert len(verdict.trials) == 6
        told = sorted(verdict.flags)
        assert len(told) == len(BELOW_ZERO), told
        assert all(f.startswith(w) for f, w in zip(told, BELOW_ZERO, strict=True)), told
