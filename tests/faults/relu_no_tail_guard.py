# fault: check:out_of_bounds - the last block writes past the end, nothing guards it
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, negative_slope: float = 0.01):
        super(Model, self).__init__()
        self.negative_slope = negative_slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.leaky_relu(x, negative_slope=self.negative_slope)


def get_inputs():
    return [torch.randn(40, 99, dtype=torch.float64)]


def get_init_inputs():
    return [0.07]


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

leaky_relu_src = r"""
#include <torch/extension.h>
#include <cuda.h>
#include <cuda_runtime.h>

namespace {

template <typename scalar_t>
struct LeakyRelu {
  scalar_t slope;
  __device__ __forceinline__ scalar_t operator()(scalar_t v) const {
    return v > scalar_t(0) ? v : v * slope;
  }
};

template <typename scalar_t, typename Op>
__global__ void unary_kernel(const scalar_t* __restrict__ x, scalar_t* __restrict__ y,
                             size_t n, Op op) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  y[i] = op(x[i]);
}

}  // namespace

torch::Tensor leaky_relu_cuda(torch::Tensor input, double slope) {
  auto x = input.contiguous();
  auto y = torch::empty_like(x);
  const size_t n = x.numel();
  const int threads = 256;
  const int blocks = (n + threads - 1) / threads;

  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "leaky_relu_cuda", ([&] {
    LeakyRelu<scalar_t> op{static_cast<scalar_t>(slope)};
    unary_kernel<scalar_t, LeakyRelu<scalar_t>><<<blocks, threads>>>(
        x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), n, op);
  }));

  return y;
}
"""

leaky = load_inline(
    name="leaky_relu_dispatch",
    cpp_sources="torch::Tensor leaky_relu_cuda(torch::Tensor input, double slope);",
    cuda_sources=leaky_relu_src,
    functions=["leaky_relu_cuda"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, negative_slope: float = 0.01):
        super(ModelNew, self).__init__()
        self.negative_slope = negative_slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return leaky.leaky_relu_cuda(x, self.negative_slope)
