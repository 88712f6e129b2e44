# fault: mismatch:dtype - half goes in, float comes out
import torch
import torch.nn as nn

shape = (33, 130)


class Model(nn.Module):
    """Tanh GELU in half precision."""

    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")


def get_inputs():
    return [torch.randn(*shape, dtype=torch.float16)]


def get_init_inputs():
    return []


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_code = r'''
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <c10/cuda/CUDAGuard.h>

__device__ __forceinline__ float gelu_tanh(float v) {
    const float k = 0.7978845608028654f;   // sqrt(2 / pi)
    return 0.5f * v * (1.0f + tanhf(k * (v + 0.044715f * v * v * v)));
}

// Two values at a time; the math is done in float.
__global__ void gelu_half2_kernel(const __half* __restrict__ in, __half* __restrict__ out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int pairs = n / 2;
    if (i < pairs) {
        const __half2 v = reinterpret_cast<const __half2*>(in)[i];
        const float2 f = __half22float2(v);
        reinterpret_cast<__half2*>(out)[i] = __floats2half2_rn(gelu_tanh(f.x), gelu_tanh(f.y));
    }
    if (i == 0 && (n & 1)) {
        out[n - 1] = __float2half(gelu_tanh(__half2float(in[n - 1])));
    }
}

torch::Tensor gelu_half(torch::Tensor x) {
    TORCH_CHECK(x.dtype() == torch::kHalf, "expected a half tensor");
    TORCH_CHECK(x.is_contiguous(), "expected a contiguous tensor");
    const at::cuda::OptionalCUDAGuard guard(device_of(x));
    auto out = torch::empty_like(x);
    const int n = x.numel();
    const int threads = 128;
    const int blocks = (n / 2 + threads) / threads;
    gelu_half2_kernel<<<blocks, threads>>>(
        reinterpret_cast<const __half*>(x.data_ptr<at::Half>()),
        reinterpret_cast<__half*>(out.data_ptr<at::Half>()), n);
    return out;
}
'''

ext = load_inline(
    name="gelu_half_ext",
    cpp_sources="torch::Tensor gelu_half(torch::Tensor x);",
    cuda_sources=cuda_code,
    functions=["gelu_half"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return ext.gelu_half(x).float()
