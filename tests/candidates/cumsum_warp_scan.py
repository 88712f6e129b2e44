# flag: specialised: inputs that are not contiguous
import torch
import torch.nn as nn

rows, cols = 12, 1000


class Model(nn.Module):
    def forward(self, x):
        return torch.cumsum(x, dim=-1)


def get_inputs():
    return [torch.rand(rows, cols, dtype=torch.float64)]


def get_init_inputs():
    return []


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r'''
#include <torch/extension.h>
#include <cuda_runtime.h>

template <typename T>
__device__ __forceinline__ T warp_inclusive_scan(T v) {
    const int lane = threadIdx.x & 31;
    for (int d = 1; d < 32; d <<= 1) {
        const T other = __shfl_up_sync(0xffffffff, v, d);
        if (lane >= d) v += other;
    }
    return v;
}

template <typename T, int BLOCK>
__global__ void __launch_bounds__(BLOCK) block_scan_kernel(const T* __restrict__ in,
                                                           T* __restrict__ out, int cols) {
    __shared__ T warp_totals[BLOCK / 32];
    __shared__ T running;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    in += (int64_t)blockIdx.x * cols;
    out += (int64_t)blockIdx.x * cols;
    if (threadIdx.x == 0) running = T(0);
    __syncthreads();

    for (int base = 0; base < cols; base += BLOCK) {
        const int i = base + threadIdx.x;
        T v = warp_inclusive_scan(i < cols ? in[i] : T(0));
        if (lane == 31) warp_totals[warp] = v;
        __syncthreads();
        if (warp == 0) {
            T t = lane < BLOCK / 32 ? warp_totals[lane] : T(0);
            t = warp_inclusive_scan(t);
            if (lane < BLOCK / 32) warp_totals[lane] = t;
        }
        __syncthreads();
        const T before = running + (warp > 0 ? warp_totals[warp - 1] : T(0));
        if (i < cols) out[i] = before + v;
        __syncthreads();
        if (threadIdx.x == BLOCK - 1) running = before + v;
        __syncthreads();
    }
}

at::Tensor scan(at::Tensor x) {
    auto y = at::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "scan", [&] {
        block_scan_kernel<scalar_t, 256><<<x.size(0), 256>>>(
            x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), (int)x.size(1));
    });
    return y;
}
'''

scan_module = load_inline('cumsum_warp_scan', ['at::Tensor scan(at::Tensor x);'], [src],
                          functions=['scan'])


class ModelNew(nn.Module):
    def forward(self, x):
        return scan_module.scan(x)
