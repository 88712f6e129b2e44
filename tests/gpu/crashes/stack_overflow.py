# crash: runtime_error - a device function that calls itself without an end
import torch
import torch.nn as nn

rows, columns = 61, 1037


class Model(nn.Module):
    """Scale and shift."""

    def forward(self, x):
        return x * 3.0 + 1.0


def get_inputs():
    return [torch.rand(rows, columns)]


def get_init_inputs():
    return []


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
__device__ __noinline__ float deeper(const float* x, int i, int n, int depth) {
    volatile float kept[64];
    for (int k = 0; k < 64; ++k) kept[k] = x[(i + k + depth) % n];
    // The inputs lie in [0, 1): it never stops.
    if (kept[depth % 64] > 2.0f) return kept[0];
    const float below = deeper(x, (i + 1) % n, n, depth + 1);
    return below + kept[(depth + 1) % 64];
}

__global__ void scale_shift_kernel(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = deeper(x, i, n, 0);
}

torch::Tensor scale_shift(torch::Tensor x) {
    auto out = torch::empty_like(x);
    const int n = x.numel();
    scale_shift_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""

module = load_inline(
    name="stack_overflow",
    cpp_sources="torch::Tensor scale_shift(torch::Tensor x);",
    cuda_sources=source,
    functions=["scale_shift"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.scale_shift(x.contiguous())
