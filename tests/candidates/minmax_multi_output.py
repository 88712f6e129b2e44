# flag: specialised: inputs that are not contiguous
import torch
import torch.nn as nn


class Model(nn.Module):
    """Largest value of each row, where it is, and the row's range."""

    def forward(self, x):
        values, indices = torch.max(x, dim=1)
        return values, indices, values - torch.min(x, dim=1).values


def get_inputs():
    return [torch.randn(90, 64)]


def get_init_inputs():
    return []


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

minmax_src = r"""
#include <torch/extension.h>
#include <tuple>

__global__ void minmax_kernel(const float* x, float* top, int64_t* where, float* range,
                              int rows, int cols) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float hi = x[row * cols], lo = hi;
        int64_t at = 0;
        for (int c = 1; c < cols; c++) {
            const float v = x[row * cols + c];
            if (v > hi) { hi = v; at = c; }
            lo = fminf(lo, v);
        }
        top[row] = hi;
        where[row] = at;
        range[row] = hi - lo;
    }
}

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> minmax(torch::Tensor x) {
    const int rows = x.size(0), cols = x.size(1);
    auto top = torch::empty({rows}, x.options());
    auto where = torch::empty({rows}, torch::dtype(torch::kInt64).device(x.device()));
    auto range = torch::empty_like(top);
    minmax_kernel<<<(rows + 31) / 32, 32>>>(x.data_ptr<float>(), top.data_ptr<float>(),
        where.data_ptr<int64_t>(), range.data_ptr<float>(), rows, cols);
    return std::make_tuple(top, where, range);
}
"""

minmax = load_inline(
    name="minmax_multi_output",
    cpp_sources="std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> minmax(torch::Tensor x);",
    cuda_sources=minmax_src,
    functions=["minmax"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        values, indices, spread = minmax.minmax(x)
        return values, indices, spread
