"""A CUDA candidate, ported, gives the same on the host target; `tests/measure_port.py` does many."""

from pathlib import Path

from musaagent.tools.candidate import Candidate
from musaagent.tools.host.target import HostTarget
from musaagent.tools.port.files import port
from musaagent.tools.results import Status
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import load_task

OP = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(1000)]


def get_init_inputs():
    return []
"""
CUDA = r'''import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <curand_kernel.h>
#include <math_constants.h>
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "a plain rename keeps NVIDIA's number, and comes here"
#endif
__global__ void relu(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  curandStatePhilox4_32_10_t state;
  curand_init(1, i, 0, &state);
  const float noise = curand_uniform(&state) > 2.f ? 1.f : 0.f;
  const __nv_bfloat16 zero = __float2bfloat16(0.f);
  if (i < n) y[i] = x[i] > -CUDART_INF_F ? fmaxf(x[i], __bfloat162float(zero)) + noise : 0.f;
}
torch::Tensor relu_cuda(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda() && x.device().type() == torch::kCUDA, "cuda tensor expected");
  const at::cuda::OptionalCUDAGuard guard(x.device());
  auto y = torch::empty({x.size(0)}, x.options().device(torch::Device("cuda:0")));
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  relu<<<(x.numel() + 127) / 128, 128, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  C10_CUDA_CHECK(cudaStreamSynchronize(stream));
  return y;
}
"""
extension = load_inline(name="relu", cpp_sources="torch::Tensor relu_cuda(torch::Tensor x);",
                        cuda_sources=source, functions=["relu_cuda"], extra_cuda_cflags=["-O2"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.relu_cuda(x.cuda())
'''


def test_the_same_before_and_after(host: HostTarget, tmp_path: Path) -> None:
    op, path = tmp_path / "op.py", tmp_path / "candidate.py"
    op.write_text(OP)
    path.write_text(CUDA)
    porting = port(path, "mp_22")
    text = porting.files[0].ported.text
    code = "\n".join(line for line in text.splitlines() if "relu_cuda" not in line)
    assert "cuda" not in code.lower().replace('"cuda tensor expected"', "")
    assert porting.clean, porting.remarks
    task = load_task(op)
    before = VerifyOptions(seed=1, trials=1, probes=False)
    after = VerifyOptions(seed=1, trials=1, arch="mp_22", warp_size=128, probes=False)
    for candidate, options in ((CUDA, before), (text, after)):
        verdict = host.verify(task, Candidate(candidate), options)
        assert verdict.status is Status.PASSED, (verdict.message, verdict.details)
    host.forget(task)
