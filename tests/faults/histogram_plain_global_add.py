# fault: check:race or mismatch:numeric - blocks add to the same global bins without an atomic
import torch
import torch.nn as nn

num_bins = 61
num_samples = 20000


class Model(nn.Module):
    """Counts how often each value occurs."""

    def __init__(self, num_bins):
        super().__init__()
        self.num_bins = num_bins

    def forward(self, x):
        return torch.bincount(x, minlength=self.num_bins)


def get_inputs():
    return [torch.randint(0, num_bins, (num_samples,))]


def get_init_inputs():
    return [num_bins]


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void histogram_kernel(const int64_t* __restrict__ values,
                                 unsigned long long* __restrict__ counts,
                                 int64_t n, int bins) {
    extern __shared__ int local[];
    for (int b = threadIdx.x; b < bins; b += blockDim.x) local[b] = 0;
    __syncthreads();

    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        atomicAdd(&local[values[i]], 1);
    }
    __syncthreads();

    for (int b = threadIdx.x; b < bins; b += blockDim.x) {
        if (local[b] > 0) counts[b] += (unsigned long long)local[b];
    }
}

torch::Tensor histogram(torch::Tensor values, int64_t bins) {
    TORCH_CHECK(values.scalar_type() == torch::kInt64, "expected int64 values");
    auto counts = torch::zeros({bins}, values.options());
    const int threads = 256;
    const int64_t n = values.numel();
    const int blocks = static_cast<int>(std::min<int64_t>((n + threads - 1) / threads, 32));
    histogram_kernel<<<blocks, threads, bins * sizeof(int)>>>(
        values.data_ptr<int64_t>(),
        reinterpret_cast<unsigned long long*>(counts.data_ptr<int64_t>()), n, (int)bins);
    cudaError_t err = cudaGetLastError();
    TORCH_CHECK(err == cudaSuccess, "histogram launch failed: ", cudaGetErrorString(err));
    return counts;
}
"""

histogram_ext = load_inline(
    name="histogram_ext",
    cpp_sources="torch::Tensor histogram(torch::Tensor values, int64_t bins);",
    cuda_sources=source,
    functions=["histogram"],
)


class ModelNew(nn.Module):
    def __init__(self, num_bins):
        super().__init__()
        self.num_bins = num_bins

    def forward(self, x):
        return histogram_ext.histogram(x.contiguous(), self.num_bins)
