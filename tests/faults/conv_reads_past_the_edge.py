# fault: check:out_of_bounds or mismatch:numeric - rows above and below the image are read
import torch
import torch.nn as nn

batch, in_channels, out_channels = 2, 3, 8
height, width = 17, 22
kernel_size, stride, padding = 3, 2, 1


class Model(nn.Module):
    """Strided convolution followed by ReLU."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding):
        super(Model, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)

    def forward(self, x):
        return torch.relu(self.conv(x))


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding]


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

conv_src = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <vector>

#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

__global__ void conv2d_relu_kernel(
    const float* __restrict__ input, const float* __restrict__ weight,
    const float* __restrict__ bias, float* __restrict__ output,
    int N, int C, int H, int W, int O, int R, int S, int P, int Q, int stride, int pad) {
  const int q = blockIdx.x * blockDim.x + threadIdx.x;
  const int p = blockIdx.y * blockDim.y + threadIdx.y;
  const int no = blockIdx.z;
  if (p >= P || q >= Q) return;
  const int n = no / O;
  const int o = no % O;

  float sum = bias != nullptr ? bias[o] : 0.f;
  for (int c = 0; c < C; ++c) {
    for (int r = 0; r < R; ++r) {
      const int h = p * stride - pad + r;
      for (int s = 0; s < S; ++s) {
        const int w = q * stride - pad + s;
        if (w < 0 || w >= W) continue;
        sum += input[((n * C + c) * H + h) * W + w] * weight[((o * C + c) * R + r) * S + s];
      }
    }
  }
  output[((n * O + o) * P + p) * Q + q] = sum > 0.f ? sum : 0.f;
}

torch::Tensor conv2d_relu(torch::Tensor input, torch::Tensor weight,
                          c10::optional<torch::Tensor> bias, int stride, int pad) {
  CHECK_INPUT(input);
  CHECK_INPUT(weight);
  const int N = input.size(0), C = input.size(1), H = input.size(2), W = input.size(3);
  const int O = weight.size(0), R = weight.size(2), S = weight.size(3);
  const int P = (H + 2 * pad - R) / stride + 1;
  const int Q = (W + 2 * pad - S) / stride + 1;
  auto output = torch::empty({N, O, P, Q}, input.options());

  const dim3 threads(16, 8, 1);
  const dim3 blocks((Q + 15) / 16, (P + 7) / 8, N * O);
  conv2d_relu_kernel<<<blocks, threads>>>(
      input.data_ptr<float>(), weight.data_ptr<float>(),
      bias.has_value() ? bias.value().data_ptr<float>() : nullptr,
      output.data_ptr<float>(), N, C, H, W, O, R, S, P, Q, stride, pad);
  return output;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &conv2d_relu, "conv2d + relu (CUDA)",
        py::arg("input"), py::arg("weight"), py::arg("bias"), py::arg("stride") = 1,
        py::arg("pad") = 0);
}
"""

conv_ext = load_inline(name="conv2d_direct_ext", cpp_sources="", cuda_sources=conv_src)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride, padding):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)
        self.stride = stride
        self.padding = padding

    def forward(self, x):
        return conv_ext.forward(
            x.contiguous(), self.conv.weight, self.conv.bias, stride=self.stride, pad=self.padding
        )
