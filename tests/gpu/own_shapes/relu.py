import torch
import torch.nn as nn

rows, columns = 4096, 393216


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_runtime.h>

__global__ void relu_kernel(const float* x, float* out, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] < 0.0f ? 0.0f : x[i];
}

torch::Tensor relu_forward(torch::Tensor x) {
    auto out = torch::empty_like(x);
    const long long n = x.numel();
    relu_kernel<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""

module = load_inline(
    name="relu_large",
    cpp_sources="torch::Tensor relu_forward(torch::Tensor x);",
    cuda_sources=source,
    functions=["relu_forward"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.relu_forward(x.contiguous())
