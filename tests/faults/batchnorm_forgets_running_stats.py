# fault: flag:buffer bn.running_mean - the output is right, the running statistics stay as they were
import torch
import torch.nn as nn

batch_size, features, height, width = 6, 5, 9, 11


class Model(nn.Module):
    """BatchNorm2d as KernelBench runs it: in train mode."""

    def __init__(self, num_features):
        super(Model, self).__init__()
        self.bn = nn.BatchNorm2d(num_features)

    def forward(self, x):
        return self.bn(x)


def get_inputs():
    return [torch.rand(batch_size, features, height, width) * 3 - 1]


def get_init_inputs():
    return [features]


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

bn_cuda = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

#define THREADS 128

// One block per channel: statistics, running statistics, output.
__global__ void batchnorm_train_kernel(
    const float* __restrict__ x, float* __restrict__ y,
    const float* __restrict__ weight, const float* __restrict__ bias,
    float* __restrict__ running_mean, float* __restrict__ running_var,
    long long* __restrict__ batches, int N, int C, int HW, float momentum, float eps)
{
    __shared__ float s_sum[THREADS];
    __shared__ float s_sq[THREADS];
    const int c = blockIdx.x;
    const int tid = threadIdx.x;
    const int count = N * HW;

    float sum = 0.f;
    for (int i = tid; i < count; i += THREADS) {
        const int n = i / HW, p = i % HW;
        sum += x[((size_t)n * C + c) * HW + p];
    }
    s_sum[tid] = sum;
    __syncthreads();
    for (int s = THREADS / 2; s > 0; s >>= 1) {
        if (tid < s) s_sum[tid] += s_sum[tid + s];
        __syncthreads();
    }
    const float mean = s_sum[0] / count;

    float sq = 0.f;
    for (int i = tid; i < count; i += THREADS) {
        const int n = i / HW, p = i % HW;
        const float d = x[((size_t)n * C + c) * HW + p] - mean;
        sq += d * d;
    }
    s_sq[tid] = sq;
    __syncthreads();
    for (int s = THREADS / 2; s > 0; s >>= 1) {
        if (tid < s) s_sq[tid] += s_sq[tid + s];
        __syncthreads();
    }
    const float var = s_sq[0] / count;

    if (tid == 0 && count < 0) {
        running_mean[c] = (1.f - momentum) * running_mean[c] + momentum * mean;
        const float unbiased = s_sq[0] / (count - 1);
        running_var[c] = (1.f - momentum) * running_var[c] + momentum * unbiased;
        if (c == 0) *batches += 1;
    }

    const float scale = weight[c] * rsqrtf(var + eps);
    const float shift = bias[c] - mean * scale;
    for (int i = tid; i < count; i += THREADS) {
        const int n = i / HW, p = i % HW;
        const size_t at = ((size_t)n * C + c) * HW + p;
        y[at] = fmaf(x[at], scale, shift);
    }
}

torch::Tensor batchnorm_train(torch::Tensor x, torch::Tensor weight, torch::Tensor bias,
                              torch::Tensor running_mean, torch::Tensor running_var,
                              torch::Tensor batches, double momentum, double eps) {
    const int N = x.size(0), C = x.size(1), HW = x.size(2) * x.size(3);
    auto y = torch::empty_like(x);
    batchnorm_train_kernel<<<C, THREADS>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
        running_mean.data_ptr<float>(), running_var.data_ptr<float>(),
        reinterpret_cast<long long*>(batches.data_ptr<int64_t>()), N, C, HW,
        (float)momentum, (float)eps);
    return y;
}
"""

bn_cpp = """
torch::Tensor batchnorm_train(torch::Tensor x, torch::Tensor weight, torch::Tensor bias,
                              torch::Tensor running_mean, torch::Tensor running_var,
                              torch::Tensor batches, double momentum, double eps);
"""

bn_ext = load_inline(name="batchnorm_train_ext", cpp_sources=bn_cpp, cuda_sources=bn_cuda,
                     functions=["batchnorm_train"])


class ModelNew(nn.Module):
    def __init__(self, num_features):
        super(ModelNew, self).__init__()
        self.bn = nn.BatchNorm2d(num_features)

    def forward(self, x):
        bn = self.bn
        return bn_ext.batchnorm_train(
            x.contiguous(), bn.weight, bn.bias, bn.running_mean, bn.running_var,
            bn.num_batches_tracked, bn.momentum, bn.eps,
        )
