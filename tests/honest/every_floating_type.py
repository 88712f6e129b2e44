# task: gelu
# kernels: none
#
# AT_DISPATCH over the floating types, on the current stream under a device guard.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_every_floating_type",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
template <typename T>
__global__ void gelu(const T* x, T* y, int64_t n) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float v = static_cast<float>(x[i]);
    y[i] = static_cast<T>(0.5f * v * (1.f + erff(v * 0.70710678f)));
  }
}
torch::Tensor run(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda(), "x must be on the GPU");
  const c10::cuda::OptionalCUDAGuard guard(x.device());
  auto y = torch::empty_like(x);
  const int64_t n = x.numel();
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "gelu", [&] {
    gelu<scalar_t><<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), n);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}
""",
    functions=["run"],
)

class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x.contiguous())
