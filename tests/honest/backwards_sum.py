# task: row_sum
# kernels: none
#
# From the last column to the first, four accumulators.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_backwards_sum",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=r"""
#include <torch/extension.h>
__global__ void sum4(const float* x, float* y, int c) {
  int lane = threadIdx.x;
  float a[4] = {0.f, 0.f, 0.f, 0.f};
  for (int i = c - 1 - lane, k = 0; i >= 0; i -= 32, ++k) a[k & 3] += x[(size_t)blockIdx.x * c + i];
  float s = (a[0] + a[2]) + (a[1] + a[3]);
  for (int o = 1; o < 32; o *= 2) s += __shfl_xor_sync(0xffffffffu, s, o);
  if (!lane) y[blockIdx.x] = s;
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  sum4<<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
""",
    functions=["run"],
)

class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x.contiguous())
