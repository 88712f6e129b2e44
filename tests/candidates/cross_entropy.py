# flag: specialised: inputs that are not contiguous
import torch
import torch.nn as nn

batch_size = 120
num_classes = 45


class Model(nn.Module):
    """Mean cross-entropy of logits against class indices."""

    def __init__(self):
        super(Model, self).__init__()

    def forward(self, predictions, targets):
        return torch.nn.functional.cross_entropy(predictions, targets)


def get_inputs():
    return [torch.randn(batch_size, num_classes) * 2, torch.randint(0, num_classes, (batch_size,))]


def get_init_inputs():
    return []


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ce_cuda_source = """
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <math.h>

// Pass 1: one thread per row computes its loss.
__global__ void row_loss_kernel(const float* logits, const int64_t* targets, float* losses,
                                int rows, int classes) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* l = logits + row * classes;
    float m = l[0];
    for (int c = 1; c < classes; ++c) m = fmaxf(m, l[c]);
    float s = 0.0f;
    for (int c = 0; c < classes; ++c) s += expf(l[c] - m);
    losses[row] = logf(s) + m - l[targets[row]];
}

// Pass 2: one block averages them.
__global__ void mean_kernel(const float* losses, float* out, int rows) {
    __shared__ float partial[256];
    float s = 0.0f;
    for (int i = threadIdx.x; i < rows; i += blockDim.x) s += losses[i];
    partial[threadIdx.x] = s;
    __syncthreads();
    for (int step = 128; step >= 1; step /= 2) {
        if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[0] = partial[0] / (float)rows;
}

torch::Tensor cross_entropy_cuda(torch::Tensor predictions, torch::Tensor targets) {
    int rows = predictions.size(0);
    int classes = predictions.size(1);
    auto losses = torch::empty({rows}, predictions.options());
    auto out = torch::empty({}, predictions.options());
    row_loss_kernel<<<(rows + 127) / 128, 128>>>(
        predictions.data_ptr<float>(), targets.data_ptr<int64_t>(), losses.data_ptr<float>(),
        rows, classes);
    mean_kernel<<<1, 256>>>(losses.data_ptr<float>(), out.data_ptr<float>(), rows);
    return out;
}
"""

ce_cpp_source = "torch::Tensor cross_entropy_cuda(torch::Tensor predictions, torch::Tensor targets);"

cross_entropy = load_inline(
    name="cross_entropy",
    cpp_sources=ce_cpp_source,
    cuda_sources=ce_cuda_source,
    functions=["cross_entropy_cuda"],
    verbose=True,
    extra_cflags=["-O3"],
    extra_ldflags=[],
)


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()
        self.cross_entropy = cross_entropy

    def forward(self, predictions, targets):
        return self.cross_entropy.cross_entropy_cuda(predictions, targets)
