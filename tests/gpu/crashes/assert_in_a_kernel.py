# crash: runtime_error - a device assert that fails
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
#include <cassert>
__global__ void scale_shift_kernel(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    assert(x[i] > 2.0f);
    out[i] = x[i] * 3.0f + 1.0f;
}

torch::Tensor scale_shift(torch::Tensor x) {
    auto out = torch::empty_like(x);
    const int n = x.numel();
    scale_shift_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""

module = load_inline(
    name="assert_in_a_kernel",
    cpp_sources="torch::Tensor scale_shift(torch::Tensor x);",
    cuda_sources=source,
    functions=["scale_shift"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.scale_shift(x.contiguous())
