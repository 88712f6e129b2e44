# fault: runtime_error:invalid_launch or runtime_error - more shared memory than any GPU has, and its error checked
import torch
import torch.nn as nn

batch_size = 23
length = 200


class Model(nn.Module):
    """Inclusive prefix sum along a dimension."""

    def __init__(self, dim):
        super(Model, self).__init__()
        self.dim = dim

    def forward(self, x):
        return torch.cumsum(x, dim=self.dim)


def get_inputs():
    return [torch.randn(batch_size, length)]


def get_init_inputs():
    return [1]


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

scan_source = """
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <c10/cuda/CUDAException.h>

// Hillis-Steele with two buffers, one chunk of blockDim.x elements after the other.
__global__ void scan_kernel(const float* x, float* y, int length) {
    extern __shared__ float buf[];
    const int n = blockDim.x;
    const int tid = threadIdx.x;
    const float* in = x + blockIdx.x * length;
    float* out = y + blockIdx.x * length;
    float carry = 0.0f;

    for (int base = 0; base < length; base += n) {
        int src = 0;
        buf[tid] = (base + tid < length) ? in[base + tid] : 0.0f;
        __syncthreads();
        for (int d = 1; d < n; d *= 2) {
            const int dst = 1 - src;
            float v = buf[src * n + tid];
            if (tid >= d) v += buf[src * n + tid - d];
            buf[dst * n + tid] = v;
            src = dst;
            __syncthreads();
        }
        if (base + tid < length) out[base + tid] = buf[src * n + tid] + carry;
        carry += buf[src * n + n - 1];
        __syncthreads();
    }
}

torch::Tensor cumsum_rows(torch::Tensor x) {
    TORCH_CHECK(x.dim() == 2, "expected two dimensions");
    auto y = torch::empty_like(x);
    const int threads = 64;
    const int bytes = 256 * 1024;
    C10_CUDA_CHECK(cudaFuncSetAttribute(scan_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    scan_kernel<<<x.size(0), threads, bytes>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
"""

scan_ext = load_inline(
    name="cumsum_hillis_steele",
    cpp_sources="torch::Tensor cumsum_rows(torch::Tensor x);",
    cuda_sources=scan_source,
    functions=["cumsum_rows"],
)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        assert dim == 1
        self.dim = dim

    def forward(self, x):
        return scan_ext.cumsum_rows(x.contiguous())
