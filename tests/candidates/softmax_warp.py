# flag: specialised: inputs that are not contiguous
import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 57
features = 333


class Model(nn.Module):
    def forward(self, x):
        return F.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(batch_size, features) * 4]


def get_init_inputs():
    return []


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp_src = r'''
torch::Tensor softmax_forward(torch::Tensor x);
'''

cuda_src = r'''
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <cfloat>
#include <cmath>

constexpr int WARP = 32;
constexpr int WARPS_PER_BLOCK = 4;
constexpr unsigned FULL_MASK = 0xffffffffu;

__device__ __forceinline__ float warp_reduce_max(float v) {
    #pragma unroll
    for (int offset = WARP / 2; offset > 0; offset >>= 1)
        v = fmaxf(v, __shfl_xor_sync(FULL_MASK, v, offset));
    return v;
}

__device__ __forceinline__ float warp_reduce_sum(float v) {
    #pragma unroll
    for (int offset = WARP / 2; offset > 0; offset >>= 1)
        v += __shfl_xor_sync(FULL_MASK, v, offset);
    return v;
}

// One warp per row, no shared memory.
__global__ void softmax_warp_kernel(const float* __restrict__ x, float* __restrict__ y,
                                    int rows, int cols) {
    const int lane = threadIdx.x % WARP;
    const int row = blockIdx.x * WARPS_PER_BLOCK + threadIdx.x / WARP;
    if (row >= rows) return;

    const float* in = x + static_cast<size_t>(row) * cols;
    float* out = y + static_cast<size_t>(row) * cols;

    float m = -FLT_MAX;
    for (int c = lane; c < cols; c += WARP) m = fmaxf(m, in[c]);
    m = warp_reduce_max(m);

    float s = 0.f;
    for (int c = lane; c < cols; c += WARP) {
        const float e = __expf(in[c] - m);
        out[c] = e;
        s += e;
    }
    s = warp_reduce_sum(s);

    const float inv = __frcp_rn(s);
    for (int c = lane; c < cols; c += WARP) out[c] *= inv;
}

torch::Tensor softmax_forward(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const int rows = x.size(0), cols = x.size(1);
    const int blocks = (rows + WARPS_PER_BLOCK - 1) / WARPS_PER_BLOCK;
    cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    softmax_warp_kernel<<<blocks, WARP * WARPS_PER_BLOCK, 0, stream>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
'''

softmax_mod = load_inline(
    name='softmax_warp_ext',
    cpp_sources=[cpp_src],
    cuda_sources=[cuda_src],
    functions=['softmax_forward'],
    extra_cuda_cflags=['-O3', '--use_fast_math'],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, x):
        return softmax_mod.softmax_forward(x)
