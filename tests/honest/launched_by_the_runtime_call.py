# task: affine
# kernels: none
#
# cudaLaunchKernel with an array of pointers in place of the brackets.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_launched_by_the_runtime_call",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor g, torch::Tensor y);",
    cuda_sources=r"""
#include <torch/extension.h>
__global__ void affine(const float* x, const float* g, const float* y, float* o, int n, int c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = x[i] * g[i % c] + y[i];
}
torch::Tensor run(torch::Tensor x, torch::Tensor g, torch::Tensor y) {
  auto out = torch::empty_like(x);
  const float *px = x.data_ptr<float>(), *pg = g.data_ptr<float>(), *py = y.data_ptr<float>();
  float* po = out.data_ptr<float>();
  int n = x.numel(), c = g.numel();
  void* arguments[] = {&px, &pg, &py, &po, &n, &c};
  cudaError_t error = cudaLaunchKernel((const void*)affine, dim3((n + 127) / 128), dim3(128), arguments, 0, 0);
  TORCH_CHECK(error == cudaSuccess, cudaGetErrorString(error));
  return out;
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
