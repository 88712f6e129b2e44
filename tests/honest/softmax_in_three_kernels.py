# task: softmax
# kernels: none
#
# Maximum, sum and quotient are kernels of their own; the last works in place.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_softmax_in_three_kernels",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=r"""
#include <torch/extension.h>
__global__ void row_max(const float* x, float* m, int c) {
  float v = -INFINITY;
  for (int i = threadIdx.x; i < c; i += 32) v = fmaxf(v, x[(size_t)blockIdx.x * c + i]);
  for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_down_sync(~0u, v, o));
  if (!threadIdx.x) m[blockIdx.x] = v;
}
__global__ void exps(const float* x, const float* m, float* y, float* s, int c) {
  float sum = 0.f;
  for (int i = threadIdx.x; i < c; i += 32) {
    size_t k = (size_t)blockIdx.x * c + i;
    sum += y[k] = expf(x[k] - m[blockIdx.x]);
  }
  for (int o = 16; o; o >>= 1) sum += __shfl_down_sync(~0u, sum, o);
  if (!threadIdx.x) s[blockIdx.x] = sum;
}
__global__ void divide(float* y, const float* s, int n, int c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] /= s[i / c];
}
torch::Tensor run(torch::Tensor x) {
  int r = x.size(0), c = x.size(1), n = r * c;
  auto y = torch::empty_like(x), m = torch::empty({r}, x.options()), s = torch::empty({r}, x.options());
  row_max<<<r, 32>>>(x.data_ptr<float>(), m.data_ptr<float>(), c);
  exps<<<r, 32>>>(x.data_ptr<float>(), m.data_ptr<float>(), y.data_ptr<float>(), s.data_ptr<float>(), c);
  divide<<<(n + 255) / 256, 256>>>(y.data_ptr<float>(), s.data_ptr<float>(), n, c);
  return y;
}
""",
    functions=["run"],
)

class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x.contiguous())
