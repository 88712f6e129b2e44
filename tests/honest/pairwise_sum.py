# task: row_sum
# kernels: none
#
# A pairwise sum by a stack of partial sums, one thread a row.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_pairwise_sum",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=r"""
#include <torch/extension.h>
__global__ void pairwise(const float* x, float* y, int rows, int c) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float stack[32];
  int top = 0;
  for (int i = 0; i < c; ++i) {
    float v = x[(size_t)r * c + i];
    for (int k = i; k & 1; k >>= 1) v += stack[--top];
    stack[top++] = v;
  }
  float sum = 0.f;
  while (top) sum += stack[--top];
  y[r] = sum;
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  pairwise<<<(x.size(0) + 31) / 32, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
  return y;
}
""",
    functions=["run"],
)

class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x.contiguous())
