# task: gelu
# kernels: none
#
# The function is a functor, the kernel a template over it.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_functors",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=r"""
#include <torch/extension.h>
struct Gelu {
  float scale;
  __device__ float operator()(float v) const { return 0.5f * v * (1.f + erff(v * scale)); }
};
template <typename F>
__global__ void __launch_bounds__(128) map(const float* __restrict__ x, float* __restrict__ y, int n, F f) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = f(__ldg(x + i));
}
template <typename F>
torch::Tensor apply(const torch::Tensor& x, F f) {
  auto y = torch::empty_like(x);
  map<<<4, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.numel(), f);
  return y;
}
torch::Tensor run(torch::Tensor x) { return apply(x, Gelu{0.70710678f}); }
""",
    functions=["run"],
)

class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x.contiguous())
