# flag: specialised: inputs that are not contiguous
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2).contiguous()


def get_inputs():
    return [torch.randn(3, 70, 45)]


def get_init_inputs():
    return []


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

transpose_cuda = """
#include <torch/extension.h>

const int TILE_DIM = 32;
const int BLOCK_ROWS = 8;

__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ in,
                                 const int rows, const int cols) {
    // One more column, so that a column of the tile hits 32 different banks.
    __shared__ float tile[TILE_DIM][TILE_DIM + 1];

    const float* src = in + (size_t)blockIdx.z * rows * cols;
    float* dst = out + (size_t)blockIdx.z * rows * cols;

    int x = blockIdx.x * TILE_DIM + threadIdx.x;
    int y = blockIdx.y * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < cols && y + j < rows)
            tile[threadIdx.y + j][threadIdx.x] = src[(y + j) * cols + x];

    __syncthreads();

    x = blockIdx.y * TILE_DIM + threadIdx.x;
    y = blockIdx.x * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < rows && y + j < cols)
            dst[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
}

torch::Tensor transpose_forward(torch::Tensor x) {
    const int batch = x.size(0), rows = x.size(1), cols = x.size(2);
    torch::Tensor out = torch::empty({batch, cols, rows}, x.options());
    dim3 grid((cols + TILE_DIM - 1) / TILE_DIM, (rows + TILE_DIM - 1) / TILE_DIM, batch);
    dim3 block(TILE_DIM, BLOCK_ROWS, 1);
    transpose_kernel<<<grid, block>>>(out.data_ptr<float>(), x.data_ptr<float>(), rows, cols);
    return out;
}
"""

transpose_op = load_inline(
    name="transpose_padded",
    cpp_sources="torch::Tensor transpose_forward(torch::Tensor x);",
    cuda_sources=transpose_cuda,
    functions=["transpose_forward"],
    extra_cuda_cflags=["-lineinfo"],
)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()
        self.op = transpose_op

    def forward(self, x):
        return self.op.transpose_forward(x)
