# fault: check:race or mismatch:numeric - every block adds to the result without an atomic
import torch
import torch.nn as nn


class Model(nn.Module):
    """Mean squared error as one number."""

    def forward(self, prediction, target):
        return torch.mean((prediction - target) ** 2)


def get_inputs():
    return [torch.randn(64, 150), torch.randn(64, 150)]


def get_init_inputs():
    return []


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

mse_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__device__ unsigned int blocks_done = 0;

// Each block leaves its sum; the last one to finish adds them up.
__global__ void mse_kernel(const float* __restrict__ a, const float* __restrict__ b,
                           volatile float* partial, float* out, int n) {
    __shared__ float s[256];
    __shared__ bool is_last;

    float sum = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float d = a[i] - b[i];
        sum += d * d;
    }
    s[threadIdx.x] = sum;
    __syncthreads();
    for (int step = 128; step > 0; step >>= 1) {
        if (threadIdx.x < step) s[threadIdx.x] += s[threadIdx.x + step];
        __syncthreads();
    }

    if (threadIdx.x == 0) {
        partial[blockIdx.x] = s[0];
        out[0] += s[0] / n;
        is_last = false;
    }
    __syncthreads();

    if (is_last && threadIdx.x == 0) {
        float total = 0.f;
        for (int i = 0; i < gridDim.x; ++i) total += partial[i];
        out[0] = total / n;
        blocks_done = 0;
    }
}

torch::Tensor mse_forward(torch::Tensor a, torch::Tensor b) {
    const int n = a.numel();
    const int blocks = 12;
    auto partial = torch::empty({blocks}, a.options());
    auto out = torch::zeros({1}, a.options());
    mse_kernel<<<blocks, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(),
                                partial.data_ptr<float>(), out.data_ptr<float>(), n);
    return out.squeeze();
}
"""

mse_ext = load_inline(
    name="mse_last_block",
    cpp_sources="torch::Tensor mse_forward(torch::Tensor a, torch::Tensor b);",
    cuda_sources=mse_source,
    functions=["mse_forward"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, prediction, target):
        return mse_ext.mse_forward(prediction.contiguous(), target.contiguous())
