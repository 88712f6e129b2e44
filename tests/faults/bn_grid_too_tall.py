# fault: runtime_error:invalid_launch or mismatch:nonfinite or mismatch:numeric - 70,000 blocks in the y direction
import torch
import torch.nn as nn
import torch.nn.functional as F

C = 7


class Model(nn.Module):
    """BatchNorm with fixed statistics, then a residual add and ReLU."""

    def __init__(self, channels):
        super().__init__()
        self.register_buffer("mean", torch.randn(channels))
        self.register_buffer("var", torch.rand(channels) + 0.5)
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x, residual):
        z = F.batch_norm(x, self.mean, self.var, self.weight, self.bias, training=False, eps=1e-3)
        return F.relu(z + residual)


def get_inputs():
    return [torch.randn(4, C, 10, 13), torch.randn(4, C, 10, 13)]


def get_init_inputs():
    return [C]


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void bn_add_relu(const float* __restrict__ x, const float* __restrict__ r,
                            const float* __restrict__ mean, const float* __restrict__ var,
                            const float* __restrict__ w, const float* __restrict__ b,
                            float* __restrict__ y, int C, int HW, float eps) {
    // grid: (tiles of a plane, channels, batch)
    const int c = blockIdx.y;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= HW || c >= C) return;
    const size_t at = ((size_t)blockIdx.z * C + c) * HW + i;
    const float inv = 1.0f / sqrtf(__ldg(&var[c]) + eps);
    const float z = (x[at] - __ldg(&mean[c])) * inv * __ldg(&w[c]) + __ldg(&b[c]) + r[at];
    y[at] = z < 0.0f ? 0.0f : z;
}

std::vector<torch::Tensor> bn_add_relu_forward(
    torch::Tensor x, torch::Tensor r, std::vector<torch::Tensor> stats,
    torch::Tensor w, torch::Tensor b, double eps) {
    auto y = torch::empty_like(x);
    const int HW = x.size(2) * x.size(3);
    const dim3 grid((HW + 63) / 64, 70000, x.size(0));
    bn_add_relu<<<grid, 64>>>(x.data_ptr<float>(), r.data_ptr<float>(),
                              stats[0].data_ptr<float>(), stats[1].data_ptr<float>(),
                              w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(),
                              x.size(1), HW, (float)eps);
    return {y};
}
"""

declaration = """
std::vector<torch::Tensor> bn_add_relu_forward(
    torch::Tensor x, torch::Tensor r, std::vector<torch::Tensor> stats,
    torch::Tensor w, torch::Tensor b, double eps);
"""

ext = load_inline(name="bn_eval", cpp_sources=declaration, cuda_sources=source,
                  functions="bn_add_relu_forward")


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.register_buffer("mean", torch.randn(channels))
        self.register_buffer("var", torch.rand(channels) + 0.5)
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x, residual):
        y, = ext.bn_add_relu_forward(x, residual, [self.mean, self.var], self.weight, self.bias, 1e-3)
        return y
