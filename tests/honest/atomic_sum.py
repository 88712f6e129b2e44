# task: row_sum
# kernels: none
#
# Blocks add their part to zeros with atomics: another order each time.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_atomic_sum",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=r"""
#include <torch/extension.h>
__global__ void add_parts(const float* x, float* y, int c, int span) {
  int begin = blockIdx.x * span, end = min(begin + span, c);
  float s = 0.f;
  for (int i = begin + threadIdx.x; i < end; i += blockDim.x) s += x[(size_t)blockIdx.y * c + i];
  atomicAdd(y + blockIdx.y, s);
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::zeros({x.size(0)}, x.options());
  int c = x.size(1), span = 512;
  add_parts<<<dim3((c + span - 1) / span, x.size(0)), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), c, span);
  return y;
}
""",
    functions=["run"],
)

class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x.contiguous())
