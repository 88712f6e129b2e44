# fault: mismatch:nonfinite or mismatch:numeric - the grid is rounded down, so the last columns are never computed
import torch
import torch.nn as nn


class Model(nn.Module):
    """Batched product with the second operand transposed."""

    def forward(self, a, b):
        return torch.bmm(a, b.transpose(1, 2))


def get_inputs():
    return [torch.randn(4, 30, 25), torch.randn(4, 18, 25)]


def get_init_inputs():
    return []


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

bmm_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

template <typename scalar_t>
__global__ void bmm_nt_kernel(
    const torch::PackedTensorAccessor32<scalar_t, 3, torch::RestrictPtrTraits> a,
    const torch::PackedTensorAccessor32<scalar_t, 3, torch::RestrictPtrTraits> b,
    torch::PackedTensorAccessor32<scalar_t, 3, torch::RestrictPtrTraits> c) {
  const int n = blockIdx.x * blockDim.x + threadIdx.x;
  const int m = blockIdx.y * blockDim.y + threadIdx.y;
  const int batch = blockIdx.z;
  if (m < c.size(1) && n < c.size(2)) {
    scalar_t sum = 0;
    for (int k = 0; k < a.size(2); ++k) sum += a[batch][m][k] * b[batch][n][k];
    c[batch][m][n] = sum;
  }
}

torch::Tensor bmm_nt(torch::Tensor a, torch::Tensor b) {
  auto c = torch::empty({a.size(0), a.size(1), b.size(1)}, a.options());
  const dim3 threads(8, 8);
  const dim3 blocks(b.size(1) / 8, (a.size(1) + 7) / 8, a.size(0));
  AT_DISPATCH_FLOATING_TYPES(a.type(), "bmm_nt", ([&] {
    bmm_nt_kernel<scalar_t><<<blocks, threads>>>(
        a.packed_accessor32<scalar_t, 3, torch::RestrictPtrTraits>(),
        b.packed_accessor32<scalar_t, 3, torch::RestrictPtrTraits>(),
        c.packed_accessor32<scalar_t, 3, torch::RestrictPtrTraits>());
  }));
  return c;
}
"""

bmm_ext = load_inline(
    name="packed_accessor_bmm",
    cpp_sources="torch::Tensor bmm_nt(torch::Tensor a, torch::Tensor b);",
    cuda_sources=bmm_source,
    functions=["bmm_nt"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        # No copies: the accessor knows strides.
        return bmm_ext.bmm_nt(a, b)
