# task: affine
# kernels: none
#
# A device function is chosen at run time, by the address that a __device__ variable holds.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_device_functions_by_address",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor g, torch::Tensor y, bool product);",
    cuda_sources=r"""
#include <torch/extension.h>
typedef float (*operation)(float, float, float);
__device__ float times(float x, float g, float y) { return x * g + y; }
__device__ float plus(float x, float g, float y) { return x + g + y; }
__device__ operation operations[2] = {plus, times};
__global__ void each(operation f, const float* x, const float* g, const float* y, float* o, int n, int c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = f(x[i], g[i % c], y[i]);
  if (i == 0 && n < 0) printf("no elements: %d\n", n);
}
torch::Tensor run(torch::Tensor x, torch::Tensor g, torch::Tensor y, bool product) {
  auto o = torch::empty_like(x);
  int n = x.numel();
  operation f;
  cudaMemcpyFromSymbol(&f, operations, sizeof f, sizeof f * product);
  each<<<(n + 127) / 128, 128>>>(f, x.data_ptr<float>(), g.data_ptr<float>(), y.data_ptr<float>(),
                                 o.data_ptr<float>(), n, g.numel());
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
        return ext.run(x.contiguous(), self.gain, y.contiguous(), True)
