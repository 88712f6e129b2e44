# fault: compile_error - inline PTX, which the host target cannot run and must name
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.relu(a + b)


def get_inputs():
    # 4181 elements: not a multiple of four
    return [torch.randn(37, 113), torch.randn(37, 113)]


def get_init_inputs():
    return []


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>

__global__ void add_relu_vec4(const float4* __restrict__ a, const float4* __restrict__ b,
                              float4* __restrict__ out, int n4) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n4) {
        float4 va = __ldg(a + i);
        float4 vb = __ldg(b + i);
        out[i] = make_float4(fmaxf(va.x + vb.x, 0.f), fmaxf(va.y + vb.y, 0.f),
                             fmaxf(va.z + vb.z, 0.f), fmaxf(va.w + vb.w, 0.f));
    }
}

__global__ void add_relu_tail(const float* a, const float* b, float* out, int start, int n) {
    int i = start + threadIdx.x;
    if (i < n) {
        float r;
        asm("add.f32 %0, %1, %2;" : "=f"(r) : "f"(a[i]), "f"(b[i]));
        out[i] = fmaxf(r, 0.f);
    }
}

torch::Tensor add_relu(torch::Tensor a, torch::Tensor b) {
    auto out = torch::empty_like(a);
    int n = a.numel();
    int n4 = n / 4;
    if (n4 > 0) {
        add_relu_vec4<<<(n4 + 255) / 256, 256>>>(
            reinterpret_cast<const float4*>(a.data_ptr<float>()),
            reinterpret_cast<const float4*>(b.data_ptr<float>()),
            reinterpret_cast<float4*>(out.data_ptr<float>()), n4);
    }
    int rest = n - n4 * 4;
    if (rest > 0) {
        add_relu_tail<<<1, 4>>>(a.data_ptr<float>(), b.data_ptr<float>(),
                                out.data_ptr<float>(), n4 * 4, n);
    }
    return out;
}
"""

add_relu_mod = load_inline(
    name="add_relu_float4",
    cpp_sources="torch::Tensor add_relu(torch::Tensor a, torch::Tensor b);",
    cuda_sources=cuda_source,
    functions=["add_relu"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.add_relu = add_relu_mod

    def forward(self, a, b):
        return self.add_relu.add_relu(a, b)
