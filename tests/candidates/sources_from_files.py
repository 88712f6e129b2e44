import torch
import torch.nn as nn


class Model(nn.Module):
    """Scaled difference of two images, clipped."""

    def __init__(self, scale: float):
        super().__init__()
        self.scale = scale

    def forward(self, a, b):
        return torch.clamp((a - b) * self.scale, -1.0, 1.0)


def get_inputs():
    return [torch.randn(3, 5, 67, 41), torch.randn(3, 5, 67, 41)]


def get_init_inputs():
    return [0.75]


# === candidate ===

import os
import tempfile

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load

_folder = tempfile.mkdtemp(prefix="clip_diff_")

with open(os.path.join(_folder, "clip.cuh"), "w") as f:
    f.write(r"""
#pragma once
__device__ __forceinline__ float clip(float v) { return fminf(fmaxf(v, -1.0f), 1.0f); }
""")

with open(os.path.join(_folder, "clip_diff.cu"), "w") as f:
    f.write(r"""
#include <torch/types.h>
#include "clip.cuh"

__global__ void clip_diff_kernel(const float* a, const float* b, float* out, float scale, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        out[i] = clip((a[i] - b[i]) * scale);
    }
}

void clip_diff_launch(const float* a, const float* b, float* out, float scale, int n) {
    clip_diff_kernel<<<min((n + 127) / 128, 64), 128>>>(a, b, out, scale, n);
}
""")

with open(os.path.join(_folder, "binding.cpp"), "w") as f:
    f.write(r"""
#include <torch/extension.h>

void clip_diff_launch(const float* a, const float* b, float* out, float scale, int n);

torch::Tensor clip_diff(torch::Tensor a, torch::Tensor b, double scale) {
    TORCH_CHECK(a.sizes() == b.sizes(), "a and b must have one shape");
    auto out = torch::empty_like(a);
    clip_diff_launch(a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(),
                     static_cast<float>(scale), static_cast<int>(a.numel()));
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("clip_diff", &clip_diff, "Clipped, scaled difference", py::arg("a"), py::arg("b"),
          py::arg("scale"));
}
""")

_extension = load(
    name="clip_diff_ext",
    sources=[os.path.join(_folder, "binding.cpp"), os.path.join(_folder, "clip_diff.cu")],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, scale: float):
        super().__init__()
        self.scale = scale

    def forward(self, a, b):
        return _extension.clip_diff(a.contiguous(), b.contiguous(), scale=self.scale)
