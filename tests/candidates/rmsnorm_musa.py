import torch
import torch.nn as nn

hidden = 512


class Model(nn.Module):
    def __init__(self, hidden, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(hidden) + 0.5)
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def get_inputs():
    return [torch.randn(20, hidden)]


def get_init_inputs():
    return [hidden, 1e-6]


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

musa_source = r"""
#include <torch/extension.h>
#include <musa_runtime.h>
#include "torch_musa/csrc/core/MUSAGuard.h"
#include "torch_musa/csrc/core/MUSAStream.h"

template <int THREADS>
__global__ void rmsnorm_kernel(const float* __restrict__ x, const float* __restrict__ weight,
                               float* __restrict__ y, int hidden, float eps) {
    __shared__ float sums[THREADS];
    const float* row = x + (size_t)blockIdx.x * hidden;

    float s = 0.f;
    for (int i = threadIdx.x * 4; i + 3 < hidden; i += THREADS * 4) {
        const float4 v = *reinterpret_cast<const float4*>(row + i);
        s += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    sums[threadIdx.x] = s;
    __syncthreads();
    // No warp operations: the width of a warp differs between MUSA generations.
    for (int step = THREADS / 2; step > 0; step >>= 1) {
        if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
        __syncthreads();
    }
    const float scale = rsqrtf(sums[0] / hidden + eps);
    for (int i = threadIdx.x; i < hidden; i += THREADS)
        y[(size_t)blockIdx.x * hidden + i] = row[i] * scale * weight[i];
}

at::Tensor rmsnorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
    TORCH_CHECK(x.device().type() == c10::DeviceType::PrivateUse1, "expected a MUSA tensor");
    TORCH_CHECK(x.size(-1) % 4 == 0, "hidden must be a multiple of 4");
    const c10::musa::MUSAGuard guard(x.device());
    auto y = at::empty_like(x);
    musaStream_t stream = c10::musa::getCurrentMUSAStream();
    rmsnorm_kernel<128><<<x.numel() / x.size(-1), 128, 0, stream>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), y.data_ptr<float>(), x.size(-1), (float)eps);
    musaError_t err = musaGetLastError();
    TORCH_CHECK(err == musaSuccess, "rmsnorm: ", musaGetErrorString(err));
    return y;
}
"""

rmsnorm_ext = load_inline(
    name="rmsnorm_musa",
    cpp_sources="at::Tensor rmsnorm(const at::Tensor& x, const at::Tensor& weight, double eps);",
    cuda_sources=musa_source,
    functions=["rmsnorm"],
)


class ModelNew(nn.Module):
    def __init__(self, hidden, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(hidden) + 0.5)
        self.eps = eps

    def forward(self, x):
        return rmsnorm_ext.rmsnorm(x.contiguous(), self.weight, self.eps)
