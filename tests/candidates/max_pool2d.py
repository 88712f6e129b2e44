# flag: specialised: inputs that are not contiguous
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, kernel_size: int, stride: int, padding: int, dilation: int):
        super(Model, self).__init__()
        self.maxpool = nn.MaxPool2d(kernel_size, stride, padding, dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.maxpool(x)


batch_size = 2
channels = 5
height = 33
width = 26


def get_inputs():
    return [torch.randn(batch_size, channels, height, width)]


def get_init_inputs():
    return [3, 2, 1, 2]


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

maxpool_src = '''
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void max_pool2d_kernel(const float* input, float* output,
                                  const int planes, const int H, const int W,
                                  const int OH, const int OW,
                                  const int k, const int s, const int p, const int d) {
    const long total = (long)planes * OH * OW;
    const long idx = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= total) return;

    const int ow = idx % OW;
    const int oh = (idx / OW) % OH;
    const long plane = idx / ((long)OW * OH);
    const float* in = input + plane * H * W;

    float best = -INFINITY;
    for (int i = 0; i < k; i++) {
        const int h = oh * s - p + i * d;
        if (h < 0 || h >= H) continue;
        for (int j = 0; j < k; j++) {
            const int w = ow * s - p + j * d;
            if (w >= 0 && w < W) best = max(best, in[h * W + w]);
        }
    }
    output[idx] = best;
}

torch::Tensor max_pool2d_cuda(torch::Tensor input, int64_t k, int64_t s, int64_t p, int64_t d) {
    const auto N = input.size(0), C = input.size(1), H = input.size(2), W = input.size(3);
    const auto OH = (H + 2 * p - d * (k - 1) - 1) / s + 1;
    const auto OW = (W + 2 * p - d * (k - 1) - 1) / s + 1;
    auto output = torch::empty({N, C, OH, OW}, input.options());
    const long total = output.numel();
    const int threads = 1024;
    max_pool2d_kernel<<<(total + threads - 1) / threads, threads>>>(
        input.data_ptr<float>(), output.data_ptr<float>(), N * C, H, W, OH, OW, k, s, p, d);
    return output;
}
'''

maxpool_ext = load_inline(
    name='max_pool2d_ext',
    cpp_sources='torch::Tensor max_pool2d_cuda(torch::Tensor input, int64_t k, int64_t s, int64_t p, int64_t d);',
    cuda_sources=maxpool_src,
    functions=['max_pool2d_cuda'],
)


class ModelNew(nn.Module):
    def __init__(self, kernel_size: int, stride: int, padding: int, dilation: int):
        super(ModelNew, self).__init__()
        self.args = (kernel_size, stride, padding, dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return maxpool_ext.max_pool2d_cuda(x, *self.args)
