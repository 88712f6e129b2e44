# task: affine
# kernels: none
#
# The extension returns a list of tensors, of which forward takes one.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_returns_a_vector",
    cpp_sources="std::vector<torch::Tensor> run(torch::Tensor x, torch::Tensor g, torch::Tensor y);",
    cuda_sources=r"""
#include <torch/extension.h>
#include <vector>
__global__ void affine(const float* x, const float* g, const float* y, float* o, float* twice, int n, int c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  o[i] = x[i] * g[i % c] + y[i];
  twice[i] = 2.f * o[i];
}
std::vector<torch::Tensor> run(torch::Tensor x, torch::Tensor g, torch::Tensor y) {
  auto o = torch::empty_like(x), twice = torch::empty_like(x);
  int n = x.numel();
  affine<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), g.data_ptr<float>(), y.data_ptr<float>(), o.data_ptr<float>(), twice.data_ptr<float>(), n, g.numel());
  return {o, twice};
}
""",
    functions=["run"],
)

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features))

    def forward(self, x, y):
        return ext.run(x.contiguous(), self.gain, y.contiguous())[0]
