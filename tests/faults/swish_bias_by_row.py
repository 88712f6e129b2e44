# fault: mismatch:numeric - the bias is broadcast along the wrong dimension
import torch
import torch.nn as nn

rows, cols = 48, 101


class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x, bias):
        z = x * self.scale + bias
        return z * torch.sigmoid(z)


def get_inputs():
    return [
        torch.randn(rows, cols, dtype=torch.bfloat16),
        torch.randn(cols, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [1.5]


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

# Fused scale + bias + swish for bfloat16. `functions` is a dict here: name -> doc string.
_cpp = "at::Tensor swish_bias(const at::Tensor& x, const at::Tensor& bias, double scale);"
_cuda = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

__global__ void swish_bias_kernel(const __nv_bfloat16* __restrict__ x,
                                  const __nv_bfloat16* __restrict__ bias,
                                  __nv_bfloat16* __restrict__ y,
                                  const int64_t total, const int cols, const float scale)
{
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t idx = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
         idx < total; idx += stride)
    {
        // Rounded after each step, as the eager operators do.
        float z = __bfloat162float(__float2bfloat16(__bfloat162float(x[idx]) * scale));
        z = __bfloat162float(__float2bfloat16(z + __bfloat162float(bias[(idx / cols) % cols])));
        const float s = __bfloat162float(__float2bfloat16(1.0f / (1.0f + expf(-z))));
        y[idx] = __float2bfloat16(z * s);
    }
}

at::Tensor swish_bias(const at::Tensor& x, const at::Tensor& bias, double scale)
{
    auto x_c = x.contiguous();
    auto y = at::empty_like(x_c);
    const int64_t total = x_c.numel();
    const int threads = 256;
    const int blocks = std::min<int64_t>(65535, (total + threads - 1) / threads);
    swish_bias_kernel<<<blocks, threads>>>(
        reinterpret_cast<const __nv_bfloat16*>(x_c.data_ptr<at::BFloat16>()),
        reinterpret_cast<const __nv_bfloat16*>(bias.data_ptr<at::BFloat16>()),
        reinterpret_cast<__nv_bfloat16*>(y.data_ptr<at::BFloat16>()),
        total, static_cast<int>(x_c.size(-1)), static_cast<float>(scale));
    return y;
}
"""

_ops = load_inline(
    name="swish_bfloat16_ops",
    cpp_sources=_cpp,
    cuda_sources=_cuda,
    functions={"swish_bias": "scale, add a bias, apply swish"},
)


class ModelNew(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x, bias):
        return _ops.swish_bias(x, bias, self.scale)
