# task: affine
# kernels: none
#
# The gains of all columns in dynamic shared memory, with the attribute that allows it.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_gains_in_dynamic_shared_memory",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor g, torch::Tensor y);",
    cuda_sources=r"""
#include <torch/extension.h>
__global__ void affine(const float* x, const float* g, const float* y, float* o, int rows, int c) {
  extern __shared__ float gain[];
  for (int i = threadIdx.x; i < c; i += blockDim.x) gain[i] = g[i];
  __syncthreads();
  for (int r = blockIdx.x; r < rows; r += gridDim.x)
    for (int i = threadIdx.x; i < c; i += blockDim.x) o[r * c + i] = x[r * c + i] * gain[i] + y[r * c + i];
}
torch::Tensor run(torch::Tensor x, torch::Tensor g, torch::Tensor y) {
  auto o = torch::empty_like(x);
  int c = g.numel(), bytes = c * sizeof(float);
  cudaFuncSetAttribute(affine, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  affine<<<5, 64, bytes>>>(x.data_ptr<float>(), g.data_ptr<float>(), y.data_ptr<float>(), o.data_ptr<float>(), x.size(0), c);
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
