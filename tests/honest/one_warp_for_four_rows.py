# task: row_max
# kernels: none
#
# Eight lanes a row, shuffles of width eight.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_one_warp_for_four_rows",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=r"""
#include <torch/extension.h>
__global__ void row_max(const float* x, float* y, int rows, int c) {
  int r = (blockIdx.x * blockDim.x + threadIdx.x) / 8, lane = threadIdx.x % 8;
  float v = -INFINITY;
  if (r < rows)
    for (int i = lane; i < c; i += 8) v = fmaxf(v, x[(size_t)r * c + i]);
  for (int o = 4; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o, 8));
  if (r < rows && !lane) y[r] = v;
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  row_max<<<(x.size(0) * 8 + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
  return y;
}
""",
    functions=["run"],
)

class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x.contiguous())
