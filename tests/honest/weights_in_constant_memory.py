# task: affine
# kernels: none
#
# The gains go to constant memory before every launch.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_weights_in_constant_memory",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor g, torch::Tensor y);",
    cuda_sources=r"""
#include <torch/extension.h>
__constant__ float gains[1024];
__global__ void affine(const float* x, const float* y, float* o, int n, int c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = fmaf(x[i], gains[i % c], y[i]);
}
torch::Tensor run(torch::Tensor x, torch::Tensor g, torch::Tensor y) {
  TORCH_CHECK(g.numel() <= 1024, "at most 1024 gains");
  auto o = torch::empty_like(x);
  cudaMemcpyToSymbol(gains, g.data_ptr<float>(), g.numel() * sizeof(float), 0, cudaMemcpyDeviceToDevice);
  int n = x.numel();
  affine<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), o.data_ptr<float>(), n, g.numel());
  return o;
}
""",
    functions=["run"],
)

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features))

    def forward(self, x, y):
        return ext.run(x.contiguous(), self.gain, y.contiguous())
