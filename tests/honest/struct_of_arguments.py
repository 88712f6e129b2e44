# task: layernorm
# kernels: none
#
# One struct by value holds all arguments of the kernel.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_struct_of_arguments",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor g, torch::Tensor b);",
    cuda_sources=r"""
#include <torch/extension.h>
struct Arguments {
  const float *x, *gain, *bias;
  float* y;
  int rows, columns;
  float eps;
};
__global__ void norm(const Arguments q) {
  for (int r = blockIdx.x * blockDim.x + threadIdx.x; r < q.rows; r += gridDim.x * blockDim.x) {
    const float* x = q.x + (size_t)r * q.columns;
    float s = 0.f, v = 0.f;
    for (int i = 0; i < q.columns; ++i) s += x[i];
    s /= q.columns;
    for (int i = 0; i < q.columns; ++i) v += (x[i] - s) * (x[i] - s);
    v = 1.f / sqrtf(v / q.columns + q.eps);
    for (int i = 0; i < q.columns; ++i) q.y[(size_t)r * q.columns + i] = (x[i] - s) * v * q.gain[i] + q.bias[i];
  }
}
torch::Tensor run(torch::Tensor x, torch::Tensor g, torch::Tensor b) {
  auto y = torch::empty_like(x);
  Arguments q{x.data_ptr<float>(), g.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(0), (int)x.size(1), 1e-5f};
  norm<<<2, 32>>>(q);
  return y;
}
""",
    functions=["run"],
)

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return ext.run(x.contiguous(), self.norm.weight, self.norm.bias)
