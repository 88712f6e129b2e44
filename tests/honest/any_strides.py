# task: transpose
# kernels: none
#
# Strides go into the kernel: no layout is copied.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_any_strides",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=r"""
#include <torch/extension.h>
__global__ void flip(const float* x, float* y, int r, int c, int64_t sr, int64_t sc) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < r * c) y[i] = x[(i % r) * sr + (i / r) * sc];
}
torch::Tensor run(torch::Tensor x) {
  int r = x.size(0), c = x.size(1);
  auto y = torch::empty({c, r}, x.options());
  flip<<<(r * c + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), r, c, x.stride(0), x.stride(1));
  return y;
}
""",
    functions=["run"],
)

class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x)
