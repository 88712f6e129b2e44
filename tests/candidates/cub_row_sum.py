# flag: specialised: inputs that are not contiguous
import torch
import torch.nn as nn


class Model(nn.Module):
    """Sum of squares of each row."""

    def forward(self, x):
        return (x * x).sum(dim=-1, keepdim=True)


def get_inputs():
    return [torch.randn(65, 421)]


def get_init_inputs():
    return []


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cub_source = r"""
#include <torch/extension.h>
#include <cub/cub.cuh>

template <int THREADS>
__global__ void row_sum_kernel(const float* __restrict__ x, float* __restrict__ y, int cols) {
    typedef cub::BlockReduce<float, THREADS> BlockReduce;
    __shared__ typename BlockReduce::TempStorage temp_storage;

    float thread_sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += THREADS) {
        const float v = x[blockIdx.x * cols + c];
        thread_sum += v * v;
    }
    const float total = BlockReduce(temp_storage).Sum(thread_sum);
    if (threadIdx.x == 0) y[blockIdx.x] = total;
}

torch::Tensor row_sum(torch::Tensor x) {
    auto y = torch::empty({x.size(0), 1}, x.options());
    row_sum_kernel<128><<<x.size(0), 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
"""

row_sum = load_inline(
    name="cub_row_sum",
    cpp_sources="torch::Tensor row_sum(torch::Tensor x);",
    cuda_sources=cub_source,
    functions=["row_sum"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return row_sum.row_sum(x)
