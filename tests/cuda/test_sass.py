"""What kernels compute in, read from real machine code; and what is said of a float32 task."""

import os
import subprocess
from pathlib import Path

import pytest

from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda.target import CudaTarget
from musaagent.tools.host.target import HostTarget
from musaagent.tools.host.toolchain import find_nvcc
from musaagent.tools.precision import precision_flags
from musaagent.tools.results import KernelResources, Launch
from musaagent.tools.sass import Disassembler, find_disassembler, kind_of, parse_sass
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import check_task

tools_needed = pytest.mark.skipif(
    find_nvcc() is None or find_disassembler() is None, reason="no nvcc or no disassembler here"
)

KERNELS = """
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
__global__ void plain(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = 0; k < n; ++k) b[i * 5 + k] = a[i] / a[k] + 1.f;
}
__global__ void by_half(const float* a, float* b) {
  __half h = __float2half(a[threadIdx.x]);
  b[threadIdx.x] = __half2float(__hmul(h, h));
}
__global__ void reads_half(const __half* a, float* b) { b[threadIdx.x] = __half2float(a[threadIdx.x]); }
__global__ void by_bfloat16(const float* a, float* b) {
  __nv_bfloat16 h = __float2bfloat16(a[threadIdx.x]);
  b[threadIdx.x] = __bfloat162float(__hfma(h, h, h));
}
__global__ void by_fp8(const float* a, float* b) {
  b[threadIdx.x] = float(__nv_fp8_e4m3(a[threadIdx.x]));
}
__device__ __noinline__ double square(double x) { return x * x + 1.0; }
__global__ void by_double(const float* a, float* b) { b[threadIdx.x] = (float)square(a[threadIdx.x]); }
__global__ void fast(const float* a, float* b) { b[threadIdx.x] = __expf(a[threadIdx.x]); }
template <class T, class A, int K>
__global__ void tensor(const A* a, const A* b, float* c) {
  wmma::fragment<wmma::matrix_a, 16, 16, K, T, wmma::row_major> x;
  wmma::fragment<wmma::matrix_b, 16, 16, K, T, wmma::col_major> y;
  wmma::fragment<wmma::accumulator, 16, 16, K, float> z;
  wmma::fill_fragment(z, 0.f);
  wmma::load_matrix_sync(x, a, K);
  wmma::load_matrix_sync(y, b, K);
  wmma::mma_sync(z, x, y, z);
  wmma::store_matrix_sync(c, z, 16, wmma::mem_row_major);
}
template __global__ void tensor<wmma::precision::tf32, float, 8>(const float*, const float*, float*);
template __global__ void tensor<__half, __half, 16>(const __half*, const __half*, float*);
template __global__ void tensor<__nv_bfloat16, __nv_bfloat16, 16>(const __nv_bfloat16*,
                                                                  const __nv_bfloat16*, float*);
"""
WANTED = {
    "plain": {"approximate"},
    "by_half": {"half"},
    "reads_half": {"half"},
    "by_bfloat16": {"bfloat16"},
    "by_fp8": {"fp8", "half"},
    "by_double": {"double"},
    "fast": {"approximate"},
    "tensor<nvcuda::wmma::precision::tf32, float, 8>": {"tf32"},
    "tensor<__half, __half, 16>": {"half"},
    "tensor<__nv_bfloat16, __nv_bfloat16, 16>": {"bfloat16"},
}


def taken_apart(folder: Path, arch: str, tool: Disassembler) -> dict[str, set[str]]:
    nvcc = find_nvcc()
    assert nvcc is not None
    (folder / "k.cu").write_text(KERNELS)
    line = [nvcc, "-cubin", f"-arch={arch}", "-std=c++17", "k.cu", "-o", "k.cubin"]
    subprocess.run(line, cwd=folder, check=True)
    subprocess.run(["sh", "-c", tool.command("k.cubin")], cwd=folder, check=True)
    found = parse_sass((folder / "sass.txt").read_text())
    return {name: set(kinds) for name, kinds in found.items()}


@tools_needed
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_each_kind_of_arithmetic_is_found_in_the_kernel_that_does_it(
    tmp_path: Path, arch: str
) -> None:
    tool = find_disassembler()
    assert tool is not None
    found, wanted = taken_apart(tmp_path, arch, tool), dict(WANTED)
    if arch == "sm_80":  # it has no instructions for fp8
        del found["by_fp8"], wanted["by_fp8"]
    assert found == wanted


@tools_needed
def test_nvdisasm_alone_shows_the_same(tmp_path: Path) -> None:
    tool = find_disassembler()
    assert tool is not None
    alone = tool.folder / "nvdisasm"
    assert os.access(alone, os.X_OK)
    assert taken_apart(tmp_path, "sm_90", Disassembler(alone, tool.folder)) == WANTED


def test_constants_are_no_arithmetic_and_tensor_cores_are_told_apart() -> None:
    assert kind_of("HFMA2.MMA", " R5, -RZ, RZ, 0, 2.384185791015625e-07 ") == ""
    assert kind_of("HFMA2", " R6, R7.H1_H1, 3.05e-05, 3.05e-05, R3.H0_H0 ") == "half"
    assert kind_of("HGMMA.64x8x8.F32.TF32", " R24, gdesc[UR8], R24, gsb0 ") == "tf32"
    assert kind_of("HGMMA.64x8x16.F32", " R24, gdesc[UR8], R24, gsb0 ") == "half"
    assert kind_of("QGMMA.64x8x32.F32.E4M3.E4M3", " R24, gdesc[UR8], R24, gsb0 ") == "fp8"
    assert kind_of("IMMA.16816.S8.S8", " R4, R2.ROW, R6.COL, RZ ") == "int8"
    assert kind_of("DMMA.8x8x4", " R4, R4, R6, RZ ") == "double"
    assert kind_of("FFMA", " R4, R4, R6, RZ ") == ""
    assert kind_of("CALL.REL.NOINC", " R6 0x0 ") == "address"
    assert kind_of("CALL.REL.NOINC", " 0x270 ") == kind_of("CALL.ABS.NOINC", " R10 ") == ""


def kernel(name: str, **kinds: tuple[str, ...]) -> KernelResources:
    return KernelResources(
        kernel=name,
        arch="sm_90",
        registers=1,
        spill_store_bytes=0,
        spill_load_bytes=0,
        static_shared_bytes=0,
        stack_bytes=0,
        arithmetic=kinds,
    )


def launched(name: str) -> Launch:
    return Launch(kernel=name, grid=(1, 1, 1), block=(1, 1, 1), shared_bytes=0)


def test_only_launched_kernels_of_a_task_without_narrow_values_are_told() -> None:
    mm, other = kernel("mm", tf32=("HMMA.1688.F32.TF32",)), kernel("other", half=("HADD2",))
    said = [
        "precision: kernel mm computes in TF32 (HMMA.1688.F32.TF32); the task's values are float32"
    ]
    assert precision_flags([mm, other], [launched("mm")], {"float32", "int64"}) == said
    assert len(precision_flags([mm, other], [], {"float32"})) == 2
    assert precision_flags([mm], [launched("mm")], {"float32", "bfloat16"}) == []
    assert precision_flags([mm], [launched("mm")], {"int32"}) == []
    assert precision_flags([kernel("k", approximate=("MUFU.EX2",))], [], {"float32"}) == []


def test_an_instance_of_a_template_that_was_not_launched_says_nothing() -> None:
    both = [kernel("ns::k<c10::Half>", half=("HADD2",)), kernel("ns::k<float>")]
    assert precision_flags(both, [launched("ns::k<float>")], {"float32"}) == []
    assert precision_flags(both, [launched("k<scalar_t>")], {"float32"}) == []
    assert len(precision_flags(both[:1], [launched("k<scalar_t>")], {"float32"})) == 1


OP = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x * x

def get_inputs():
    return [torch.randint(-20, 20, (64, 48)).float()]

def get_init_inputs():
    return []
"""
BY_HALF = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="square",
    cpp_sources="torch::Tensor square(torch::Tensor x);",
    cuda_sources="""
#include <torch/extension.h>
#include <cuda_fp16.h>
__global__ void square_kernel(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = EXPRESSION;
}
torch::Tensor square(torch::Tensor x) {
  auto y = torch::empty_like(x);
  int n = x.numel();
  square_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}
""",
    functions=["square"],
)

class ModelNew(nn.Module):
    def forward(self, x):
        return ext.square(x.contiguous())
'''
HALF = "__half2float(__hmul(__float2half(x[i]), __float2half(x[i])))"


@tools_needed
@pytest.mark.parametrize(("expression", "told"), [(HALF, 1), ("x[i] * x[i]", 0)])
def test_right_values_by_less_precision_pass_with_a_flag(expression: str, told: int) -> None:
    candidate = Candidate(source=BY_HALF.replace("EXPRESSION", expression))
    with HostTarget() as target:
        options = VerifyOptions(trials=2, probes=False)
        verdict = target.verify(check_task(Path("op.py"), OP), candidate, options)
    assert verdict.status == "passed", verdict.message
    flags = [flag for flag in verdict.flags if flag.startswith("precision: ")]
    assert len(flags) == told
    assert all("square_kernel computes in half precision" in flag for flag in flags)


@tools_needed
def test_a_build_for_a_card_is_read_too() -> None:
    candidate = Candidate(source=BY_HALF.replace("EXPRESSION", HALF))
    with CudaTarget() as target:
        if target.pool.gpus:
            pytest.skip("there is a GPU here")
        verdict = target.verify(check_task(Path("op.py"), OP), candidate, VerifyOptions())
    assert verdict.build is not None
    assert [set(r.arithmetic) for r in verdict.build.resources] == [{"half"}]
