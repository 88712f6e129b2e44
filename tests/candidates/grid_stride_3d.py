# flag: specialised: inputs that are not contiguous
import torch
import torch.nn as nn

D1, D2, D3 = 21, 34, 27


class Model(nn.Module):
    """Broadcasts one vector along each axis of a volume."""

    def forward(self, x, a, b, c):
        return x * a[:, None, None] + b[None, :, None] - c[None, None, :]


def get_inputs():
    return [torch.randn(D1, D2, D3), torch.randn(D1), torch.randn(D2), torch.randn(D3)]


def get_init_inputs():
    return []


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

volume_src = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void volume_kernel(const float* __restrict__ x, const float* __restrict__ a,
                              const float* __restrict__ b, const float* __restrict__ c,
                              float* __restrict__ y, dim3 size) {
    for (unsigned k = blockIdx.z * blockDim.z + threadIdx.z; k < size.z; k += gridDim.z * blockDim.z)
        for (unsigned j = blockIdx.y * blockDim.y + threadIdx.y; j < size.y; j += gridDim.y * blockDim.y)
            for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < size.x;
                 i += gridDim.x * blockDim.x) {
                const size_t at = (size_t(k) * size.y + j) * size.x + i;
                y[at] = x[at] * a[k] + b[j] - c[i];
            }
}

torch::Tensor volume_op(torch::Tensor x, torch::Tensor a, torch::Tensor b, torch::Tensor c) {
    auto y = torch::empty_like(x);
    const dim3 size(x.size(2), x.size(1), x.size(0));
    const dim3 block(8, 4, 4);
    const dim3 grid(2, 3, 2);   // fewer threads than elements: the loops stride
    volume_kernel<<<grid, block>>>(x.data_ptr<float>(), a.data_ptr<float>(), b.data_ptr<float>(),
                                   c.data_ptr<float>(), y.data_ptr<float>(), size);
    return y;
}
"""

volume_ext = load_inline(
    name="grid_stride_3d",
    cpp_sources="torch::Tensor volume_op(torch::Tensor x, torch::Tensor a, torch::Tensor b, torch::Tensor c);",
    cuda_sources=volume_src,
    functions=["volume_op"],
)


class ModelNew(nn.Module):
    def forward(self, x, a, b, c):
        return volume_ext.volume_op(x, a, b, c)
