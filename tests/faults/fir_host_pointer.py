# fault: runtime_error:invalid_launch or runtime_error - the kernel reads the taps through a pointer to host memory
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """A fixed 5-tap filter along the last axis, edges padded with zero."""

    def __init__(self):
        super().__init__()
        self.taps = [0.1, -0.4, 1.2, 0.3, 0.05]

    def forward(self, x):
        kernel = torch.tensor(self.taps, dtype=x.dtype, device=x.device).view(1, 1, 5)
        return F.conv1d(x.unsqueeze(1), kernel, padding=2).squeeze(1)


def get_inputs():
    return [torch.randn(9, 500)]


def get_init_inputs():
    return []


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

fir_cuda = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <vector>

#define RADIUS 2
#define BLOCK 128

__constant__ float c_taps[2 * RADIUS + 1];
__constant__ const int kRadius = RADIUS;

__global__ void fir_kernel(const float* __restrict__ x, float* __restrict__ y, int length,
                           const float* taps) {
    __shared__ float line[BLOCK + 2 * RADIUS];
    const float* row = x + blockIdx.y * length;
    const int i = blockIdx.x * BLOCK + threadIdx.x;

    line[threadIdx.x + RADIUS] = i < length ? row[i] : 0.f;
    if (threadIdx.x < RADIUS) {
        const int left = i - RADIUS, right = i + BLOCK;
        line[threadIdx.x] = left >= 0 ? row[left] : 0.f;
        line[threadIdx.x + BLOCK + RADIUS] = right < length ? row[right] : 0.f;
    }
    __syncthreads();

    if (i < length) {
        float acc = 0.f;
#pragma unroll
        for (int t = -RADIUS; t <= RADIUS; t++) acc += taps[t + kRadius] * line[threadIdx.x + RADIUS + t];
        y[blockIdx.y * length + i] = acc;
    }
}

torch::Tensor fir(torch::Tensor x, std::vector<double> taps) {
    float host_taps[2 * RADIUS + 1];
    for (int i = 0; i < 2 * RADIUS + 1; ++i) host_taps[i] = (float)taps[i];
    auto y = torch::empty_like(x);
    dim3 grid((x.size(1) + BLOCK - 1) / BLOCK, x.size(0));
    fir_kernel<<<grid, BLOCK>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1), host_taps);
    return y;
}
"""

fir_ext = load_inline(
    name="constant_memory_fir",
    cpp_sources="#include <vector>\ntorch::Tensor fir(torch::Tensor x, std::vector<double> taps);",
    cuda_sources=fir_cuda,
    functions=["fir"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.taps = [0.1, -0.4, 1.2, 0.3, 0.05]

    def forward(self, x):
        return fir_ext.fir(x, self.taps)
