# fault: check:race or check:uninitialised_read or mismatch:numeric - the tile is read before it is full
import torch
import torch.nn as nn


class Model(nn.Module):
    """Depthwise 3x3 convolution, padding 1, no bias."""

    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, 1, 3, 3) * 0.3)

    def forward(self, x):
        return torch.nn.functional.conv2d(x, self.weight, padding=1, groups=self.weight.shape[0])


def get_inputs():
    return [torch.randn(2, 6, 35, 29)]


def get_init_inputs():
    return [6]


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline


class ModelNew(nn.Module):
    """Builds its extension when it is constructed."""

    CUDA_SOURCE = r"""
    #include <torch/extension.h>
    #include <cuda_runtime.h>

    static constexpr int TX = 16;
    static constexpr int TY = 8;

    __global__ void depthwise3x3(const float* __restrict__ x, const float* __restrict__ w,
                                 float* __restrict__ y, int C, int H, int W) {
        __shared__ float tile[TY + 2][TX + 2];
        __shared__ float filter[9];

        const int c = blockIdx.z % C;
        const float* plane = x + (size_t)blockIdx.z * H * W;
        const int x0 = blockIdx.x * TX - 1;
        const int y0 = blockIdx.y * TY - 1;
        const int tid = threadIdx.y * TX + threadIdx.x;

        if (tid < 9) filter[tid] = w[c * 9 + tid];
        for (int i = tid; i < (TY + 2) * (TX + 2); i += TX * TY) {
            const int ty = i / (TX + 2), tx = i % (TX + 2);
            const int gy = y0 + ty, gx = x0 + tx;
            tile[ty][tx] = (gy >= 0 && gy < H && gx >= 0 && gx < W) ? plane[gy * W + gx] : 0.0f;
        }

        const int ox = blockIdx.x * TX + threadIdx.x;
        const int oy = blockIdx.y * TY + threadIdx.y;
        if (ox < W && oy < H) {
            float acc = 0.0f;
            #pragma unroll
            for (int r = 0; r < 3; ++r)
                #pragma unroll
                for (int s = 0; s < 3; ++s)
                    acc = fmaf(tile[threadIdx.y + r][threadIdx.x + s], filter[r * 3 + s], acc);
            y[(size_t)blockIdx.z * H * W + oy * W + ox] = acc;
        }
    }

    torch::Tensor depthwise_forward(torch::Tensor x, torch::Tensor w) {
        const int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
        auto y = torch::empty_like(x);
        dim3 block(TX, TY);
        dim3 grid((W + TX - 1) / TX, (H + TY - 1) / TY, N * C);
        depthwise3x3<<<grid, block>>>(x.data_ptr<float>(), w.data_ptr<float>(),
                                      y.data_ptr<float>(), C, H, W);
        return y;
    }
    """

    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, 1, 3, 3) * 0.3)
        self.ext = load_inline(
            name="depthwise_shared_tile",
            cpp_sources=["torch::Tensor depthwise_forward(torch::Tensor x, torch::Tensor w);"],
            cuda_sources=[self.CUDA_SOURCE],
            functions=["depthwise_forward"],
            with_cuda=True,
        )

    def forward(self, x):
        return self.ext.depthwise_forward(x.contiguous(), self.weight.contiguous())
