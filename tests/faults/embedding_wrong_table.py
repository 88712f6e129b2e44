# fault: check:out_of_bounds or mismatch:numeric or runtime_error - the token's number indexes the short table of positions
import torch
import torch.nn as nn

vocabulary, dim = 211, 36


class Model(nn.Module):
    """Token embedding plus position embedding."""

    def __init__(self, vocabulary, dim, length):
        super().__init__()
        self.token = nn.Embedding(vocabulary, dim)
        self.position = nn.Embedding(length, dim)

    def forward(self, ids):
        positions = torch.arange(ids.shape[1], device=ids.device)
        return self.token(ids) + self.position(positions)


def get_inputs():
    return [torch.randint(0, vocabulary, (7, 19))]


def get_init_inputs():
    return [vocabulary, dim, 19]


# === candidate ===

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

embedding_kernel = """
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void embed_kernel(const int64_t* ids, const float* token, const float* position,
                             float* out, int64_t tokens, int length, int dim) {
    // One block per token, threads over the features.
    const int64_t t = blockIdx.x;
    const int64_t id = ids[t];
    const int pos = t % length;
    for (int d = threadIdx.x; d < dim; d += blockDim.x) {
        out[t * dim + d] = token[id * dim + d] + position[id * dim + d];
    }
}

torch::Tensor embed(torch::Tensor ids, torch::Tensor token, torch::Tensor position) {
    TORCH_CHECK(ids.scalar_type() == at::kLong, "ids must be int64");
    const int64_t tokens = ids.numel();
    const int length = ids.size(1);
    const int dim = token.size(1);
    auto out = torch::empty({ids.size(0), ids.size(1), dim}, token.options());
    embed_kernel<<<tokens, 32>>>(ids.data_ptr<int64_t>(), token.data_ptr<float>(),
                                 position.data_ptr<float>(), out.data_ptr<float>(),
                                 tokens, length, dim);
    return out;
}
"""

embedding = load_inline(
    name="embedding_gather",
    cpp_sources="torch::Tensor embed(torch::Tensor ids, torch::Tensor token, torch::Tensor position);",
    cuda_sources=embedding_kernel,
    functions=["embed"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, dim, length):
        super().__init__()
        self.token = nn.Embedding(vocabulary, dim)
        self.position = nn.Embedding(length, dim)

    def forward(self, ids):
        return embedding.embed(ids.contiguous(), self.token.weight, self.position.weight)
