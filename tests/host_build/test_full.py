"""Level full: torch's own headers, beside our runtime library, whose tensors have torch's names."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from musaagent.tools.host.builder import HostBuilder
from musaagent.tools.results import Build

CUDA = """
#include <torch/extension.h>
#include <torch/csrc/autograd/custom_function.h>
__global__ void fill(float* x) { x[threadIdx.x] = 2.f; }
double run(torch::Tensor a) {
  TORCH_CHECK_VALUE(a.dim() == 2, "dim is ", a.dim());
  auto c = torch::empty({a.size(0), 5}, a.options());
  fill<<<1, 15>>>(c.data_ptr<float>());
  std::vector<torch::Tensor> all{c, a.t().contiguous()};
  return all[0].sum().item<double>() + all[1].size(0);
}
"""
LOOK = """
import sys, torch
from musaagent.tools.host.bridge import load_runtime
from musaagent.tools.worker_candidate import load_pybind
load_runtime(sys.argv[1])
module = load_pybind("full_twin", sys.argv[2])
print(module.run(torch.rand(3, 4)))
try:
    module.run(torch.rand(3))
except ValueError as error:
    print(str(error).splitlines()[0])
"""
_BOUND = re.compile(r"binding file \S*module\.so .* to \S*libmusahost\.so .*symbol `(\w+)'")


def test_of_our_runtime_only_what_runs_kernels_is_taken(
    builder: HostBuilder, build: Callable[..., Build], tmp_path: Path
) -> None:
    made = build(CUDA, "double run(torch::Tensor a);", name="full_twin", functions=("run",))
    assert made.ok, made.log_tail
    assert made.level == "full"
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(builder.runtime_library()), made.libraries[0]],
        capture_output=True,
        text=True,
        env={**os.environ, "LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": str(tmp_path / "bound")},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["34.0", "dim is 1"]
    bound = {n for file in tmp_path.iterdir() for n in _BOUND.findall(file.read_text())}
    assert "musahost_launch" in bound
    assert all(name.startswith("musahost_") for name in bound), bound
