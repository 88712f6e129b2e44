# fault: check:race or mismatch:numeric - the steps of the second reduction are not separated
import torch
import torch.nn as nn

batch_size = 16
seq = 5
hidden = 257


class Model(nn.Module):
    """LayerNorm over the last dimension."""

    def __init__(self, hidden):
        super().__init__()
        self.ln = nn.LayerNorm(hidden)

    def forward(self, x):
        return self.ln(x)


def get_inputs():
    return [torch.rand(batch_size, seq, hidden)]


def get_init_inputs():
    return [hidden]


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

layernorm_cuda_source = """
#include <torch/extension.h>
#include <cuda_runtime.h>

extern __shared__ float sdata[];

__global__ void layernorm_kernel(const float* x, const float* gamma, const float* beta,
                                 float* y, int cols, float eps) {
    const int tid = threadIdx.x;
    const float* row = x + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;

    // mean
    float local = 0.0f;
    for (int i = tid; i < cols; i += blockDim.x) local += row[i];
    sdata[tid] = local;
    __syncthreads();
    for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) sdata[tid] += sdata[tid + s];
        __syncthreads();
    }
    const float mean = sdata[0] / cols;
    __syncthreads();

    // variance
    local = 0.0f;
    for (int i = tid; i < cols; i += blockDim.x) {
        const float d = row[i] - mean;
        local += d * d;
    }
    sdata[tid] = local;
    __syncthreads();
    __syncthreads();
    for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) sdata[tid] += sdata[tid + s];
    }
    __syncthreads();
    const float inv_std = rsqrtf(sdata[0] / cols + eps);

    for (int i = tid; i < cols; i += blockDim.x) {
        out[i] = (row[i] - mean) * inv_std * gamma[i] + beta[i];
    }
}

torch::Tensor layernorm_cuda(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta, double eps) {
    const int cols = x.size(-1);
    const int rows = x.numel() / cols;
    auto y = torch::empty_like(x);
    const int threads = 128;
    const size_t shared = threads * sizeof(float);
    layernorm_kernel<<<rows, threads, shared>>>(
        x.data_ptr<float>(), gamma.data_ptr<float>(), beta.data_ptr<float>(),
        y.data_ptr<float>(), cols, static_cast<float>(eps));
    return y;
}
"""

layernorm_cpp_source = """
torch::Tensor layernorm_cuda(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta, double eps);
"""

layernorm = load_inline(
    name="layernorm",
    cpp_sources=layernorm_cpp_source,
    cuda_sources=layernorm_cuda_source,
    functions=["layernorm_cuda"],
    verbose=True,
)


class ModelNew(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.ln = nn.LayerNorm(hidden)
        self.layernorm = layernorm

    def forward(self, x):
        return self.layernorm.layernorm_cuda(
            x.contiguous(), self.ln.weight, self.ln.bias, self.ln.eps
        )
