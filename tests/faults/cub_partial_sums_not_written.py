# fault: check:uninitialised_read or mismatch:nonfinite or mismatch:numeric - only the first warp leaves its partial sum
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.mean(x, dim=1)


def get_inputs():
    return [torch.randn(26, 300, 3)]


def get_init_inputs():
    return []


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

mean_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

// One block per (outer, inner) pair; the reduced axis lies in the middle.
__global__ void mean_middle_kernel(const float* __restrict__ x, float* __restrict__ y,
                                   int length, int inner) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    __shared__ float partial[32];

    const int outer = blockIdx.x / inner, in = blockIdx.x % inner;
    const float* base = x + (size_t)outer * length * inner + in;
    float s = 0.f;
    for (int i = block.thread_rank(); i < length; i += block.size()) s += base[(size_t)i * inner];

    s = cg::reduce(warp, s, cg::plus<float>());
    if (block.thread_rank() == 0) partial[warp.meta_group_rank()] = s;
    block.sync();

    if (warp.meta_group_rank() == 0) {
        float t = warp.thread_rank() < warp.meta_group_size() ? partial[warp.thread_rank()] : 0.f;
        t = cg::reduce(warp, t, cg::plus<float>());
        if (warp.thread_rank() == 0) y[blockIdx.x] = t / length;
    }
}

torch::Tensor mean_middle(torch::Tensor x) {
    const int outer = x.size(0), length = x.size(1), inner = x.size(2);
    auto y = torch::empty({outer, inner}, x.options());
    mean_middle_kernel<<<outer * inner, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(),
                                               length, inner);
    return y;
}
"""

mean_ext = load_inline(
    name="cooperative_groups_mean",
    cpp_sources="torch::Tensor mean_middle(torch::Tensor x);",
    cuda_sources=mean_source,
    functions=["mean_middle"],
    extra_cuda_cflags=["-std=c++17"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return mean_ext.mean_middle(x.contiguous())
