# fault: mismatch:numeric - the running maximum starts at 0, and all inputs are negative
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.argmax(x, dim=self.dim)


def get_inputs():
    return [-torch.rand(31, 14, 77) - 0.5]


def get_init_inputs():
    return [2]


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

argmax_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <limits>

struct Best { float value; int index; };

__device__ inline Best better(const Best& a, const Best& b) {
    // The first of equal values wins, as in torch.
    if (b.value > a.value || (b.value == a.value && b.index < a.index)) return b;
    return a;
}

__global__ void argmax_kernel(const float* x, int64_t* out, int cols) {
    __shared__ Best shared[4];
    const float* row = x + (size_t)blockIdx.x * cols;
    Best best{0.0f, 0};
    for (int i = threadIdx.x; i < cols; i += blockDim.x) best = better(best, Best{row[i], i});

    for (int offset = 16; offset > 0; offset /= 2) {
        Best other;
        other.value = __shfl_down_sync(0xffffffff, best.value, offset);
        other.index = __shfl_down_sync(0xffffffff, best.index, offset);
        best = better(best, other);
    }
    const int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) shared[warp] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; ++w) best = better(best, shared[w]);
        out[blockIdx.x] = best.index;
    }
}

torch::Tensor argmax_last(torch::Tensor x) {
    auto sizes = x.sizes().vec();
    const int cols = sizes.back();
    sizes.pop_back();
    auto out = torch::empty(sizes, x.options().dtype(torch::kLong));
    argmax_kernel<<<(int)(x.numel() / cols), 128>>>(
        x.data_ptr<float>(), out.data_ptr<int64_t>(), cols);
    return out;
}
"""

argmax_ext = load_inline(
    name="argmax_rows",
    cpp_sources="torch::Tensor argmax_last(torch::Tensor x);",
    cuda_sources=argmax_source,
    functions=["argmax_last"],
)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        if dim not in (-1, 2):
            raise ValueError("only the last dimension")

    def forward(self, x):
        return argmax_ext.argmax_last(x.contiguous())
