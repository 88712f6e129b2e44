# flag: specialised: inputs that are not contiguous
import torch
import torch.nn as nn


class Model(nn.Module):
    """Divides each row by its L2 norm."""

    def forward(self, x):
        return x / torch.norm(x, p=2, dim=1, keepdim=True)


def get_inputs():
    return [torch.rand(44, 310) - 0.3]


def get_init_inputs():
    return []


# === candidate ===

import os

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "9.0")

# The host code lives in cpp_sources, the kernels and their launchers in cuda_sources.
cpp = r"""
#include <torch/extension.h>

void row_norms_launcher(torch::Tensor x, torch::Tensor norms);
void divide_launcher(torch::Tensor x, torch::Tensor norms, torch::Tensor y);

torch::Tensor l2_normalize(torch::Tensor x) {
    TORCH_CHECK(x.dim() == 2, "l2_normalize: expected a matrix, got ", x.dim(), " dimensions");
    auto norms = torch::empty({x.size(0)}, x.options());
    auto y = torch::empty_like(x);
    row_norms_launcher(x, norms);
    divide_launcher(x, norms, y);
    return y;
}
"""

cuda = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void row_norms(const float* __restrict__ x, float* __restrict__ norms, int cols) {
    float s = 0.f;
    const float* row = x + (size_t)blockIdx.x * cols;
    for (int i = threadIdx.x; i < cols; i += 32) s += row[i] * row[i];
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o, 32);
    if (threadIdx.x == 0) norms[blockIdx.x] = sqrtf(s);
}

__global__ void divide(const float* x, const float* norms, float* y, int rows, int cols) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) y[i] = __fdividef(x[i], norms[i / cols]);
}

void row_norms_launcher(torch::Tensor x, torch::Tensor norms) {
    row_norms<<<x.size(0), 32>>>(x.data_ptr<float>(), norms.data_ptr<float>(), x.size(1));
}

void divide_launcher(torch::Tensor x, torch::Tensor norms, torch::Tensor y) {
    const int n = x.numel();
    divide<<<(n + 191) / 192, 192>>>(x.data_ptr<float>(), norms.data_ptr<float>(),
                                     y.data_ptr<float>(), x.size(0), x.size(1));
}
"""

l2_ext = load_inline("l2_normalize_ext", cpp_sources=cpp, cuda_sources=cuda,
                     functions=["l2_normalize"])


class ModelNew(nn.Module):
    def forward(self, x):
        return l2_ext.l2_normalize(x)
