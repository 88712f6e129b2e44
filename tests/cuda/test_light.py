"""Modules over torch's own headers, in a process that has our runtime library too, as workers do."""

import subprocess
import sys
from pathlib import Path

import pytest

from musaagent.tools.cuda import toolchain
from musaagent.tools.cuda.builder import CudaBuilder
from musaagent.tools.host.sources import SourceSet
from musaagent.tools.host.toolchain import find_nvcc, find_torch, nvidia_wheels

CUDA = """
#include <torch/extension.h>
#if __has_include(<cusparse.h>)
#include <ATen/cuda/CUDAContext.h>
#define WITH_CONTEXT 1
#else
#define WITH_CONTEXT 0
#endif
__global__ void one(float* x) { x[0] = 1.f; }
bool with_context() { return WITH_CONTEXT; }
int64_t code(const torch::Tensor& t) {
  t.data_ptr<float>();
  return (int64_t)t.scalar_type() * 1000 + (int64_t)t.device().type() * 100 + t.dim();
}
std::vector<int64_t> run(torch::Tensor a, torch::Tensor b) {
  auto c = torch::empty({a.size(0), b.size(1)}, a.options());
  std::vector<torch::Tensor> all{a.contiguous(), b.t().contiguous(), c, torch::zeros_like(c)};
  std::vector<int64_t> found;
  for (const auto& t : all) found.push_back(code(t));
  found.push_back(all[1].size(0));
  found.push_back(c.sizes()[0] * 10 + c.size(1));
  found.push_back(all[3].sum().item<float>() == 0.f);
  return found;
}
void wrong(torch::Tensor a) { TORCH_CHECK_VALUE(a.dim() == 9, "dim is ", a.dim()); }
"""
CPP = """
std::vector<int64_t> run(torch::Tensor a, torch::Tensor b);
void wrong(torch::Tensor a);
bool with_context();
"""
LOOK = """
import sys, torch
from musaagent.tools.cuda.bridge import load_runtime
from musaagent.tools.worker_candidate import load_pybind
load_runtime(sys.argv[1])
module = load_pybind("light_twin", sys.argv[2])
print(module.run(torch.rand(3, 4), torch.rand(4, 5)))
print(module.with_context())
try:
    module.wrong(torch.rand(3))
except ValueError as error:
    print(str(error).splitlines()[0])
"""


@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc here")
@pytest.mark.skipif(find_torch() is None, reason="torch has no headers here")
def test_a_module_over_torch_itself_takes_nothing_from_our_thin_torch() -> None:
    sources = SourceSet(
        name="light_twin",
        cpp_sources=(CPP,),
        cuda_sources=(CUDA,),
        functions=("run", "wrong", "with_context"),
    )
    builder = CudaBuilder("sm_90")
    build = builder.build(sources, timeout_s=900.0, levels=("light",))
    assert build.ok, build.log_tail
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(builder.runtime_library()), build.libraries[0]],
        capture_output=True,
        text=True,
        env={"CUDA_VISIBLE_DEVICES": "", "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    found, context, error = done.stdout.splitlines()
    assert found == str([6002] * 4 + [5, 35, 1])  # float32, CPU, two dimensions
    assert error == "dim is 1"
    if any(list(place.glob("*/include/cusparse.h")) for place in nvidia_wheels()):
        assert context == "True"


def test_headers_that_the_toolkit_lacks_are_those_of_the_wheels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, whole, wheels = tmp_path / "own", tmp_path / "whole", tmp_path / "nvidia"
    for folder in (own, whole, wheels / "cu13" / "include", wheels / "cudnn" / "include"):
        folder.mkdir(parents=True)
    for name in ("cublas_v2.h", "cusparse.h", "cusolverDn.h"):
        (whole / name).touch()
        (wheels / "cu13" / "include" / name).touch()
    monkeypatch.setattr(toolchain, "nvidia_wheels", lambda: (wheels,))
    assert toolchain._libraries_include([own]) == (wheels / "cu13" / "include",)
    assert toolchain._libraries_include([whole]) == ()
    assert toolchain._libraries_include([own, whole]) == ()
