# task: gelu
# kernels: none
#
# Vectors of four where the address allows it, single values for the rest.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_float4_with_a_tail",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=r"""
#include <torch/extension.h>
__device__ float gelu(float v) { return 0.5f * v * (1.f + erff(v * 0.70710678f)); }
__global__ void gelu4(const float4* x, float4* y, int n4) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n4) {
    float4 v = x[i];
    y[i] = make_float4(gelu(v.x), gelu(v.y), gelu(v.z), gelu(v.w));
  }
}
__global__ void gelu1(const float* x, float* y, int first, int n) {
  int i = first + blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = gelu(x[i]);
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  int n = x.numel();
  bool aligned = reinterpret_cast<uintptr_t>(x.data_ptr<float>()) % 16 == 0;
  int n4 = aligned ? n / 4 : 0;
  if (n4) gelu4<<<(n4 + 127) / 128, 128>>>((const float4*)x.data_ptr<float>(), (float4*)y.data_ptr<float>(), n4);
  int rest = n - 4 * n4;
  if (rest) gelu1<<<(rest + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), 4 * n4, n);
  return y;
}
""",
    functions=["run"],
)

class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x.contiguous())
