# task: transpose
# kernels: none
#
# Tiles with a padding column, rows of eight threads.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_transposed_through_shared_memory",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=r"""
#include <torch/extension.h>
__global__ void flip(const float* x, float* y, int r, int c) {
  __shared__ float tile[32][33];
  int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (i < c && j + k < r) tile[threadIdx.y + k][threadIdx.x] = x[(j + k) * c + i];
  __syncthreads();
  i = blockIdx.y * 32 + threadIdx.x, j = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (i < r && j + k < c) y[(j + k) * r + i] = tile[threadIdx.x][threadIdx.y + k];
}
torch::Tensor run(torch::Tensor x) {
  int r = x.size(0), c = x.size(1);
  auto y = torch::empty({c, r}, x.options());
  flip<<<dim3((c + 31) / 32, (r + 31) / 32), dim3(32, 8)>>>(x.data_ptr<float>(), y.data_ptr<float>(), r, c);
  return y;
}
""",
    functions=["run"],
)

class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x.contiguous())
