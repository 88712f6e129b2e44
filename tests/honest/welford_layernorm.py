# task: layernorm
# kernels: none
#
# Mean and variance by Welford's update, merged over a warp.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_welford_layernorm",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor g, torch::Tensor b);",
    cuda_sources=r"""
#include <torch/extension.h>
__global__ void norm(const float* x, const float* g, const float* b, float* y, int c) {
  const float* in = x + (size_t)blockIdx.x * c;
  float mean = 0.f, m2 = 0.f, n = 0.f;
  for (int i = threadIdx.x; i < c; i += 32) {
    n += 1.f;
    float d = in[i] - mean;
    mean += d / n;
    m2 += d * (in[i] - mean);
  }
  for (int o = 16; o; o >>= 1) {
    float on = __shfl_xor_sync(~0u, n, o), om = __shfl_xor_sync(~0u, mean, o), o2 = __shfl_xor_sync(~0u, m2, o);
    float all = n + on, d = om - mean;
    if (all > 0.f) {
      mean = (mean * n + om * on) / all;
      m2 += o2 + d * d * n * on / all;
    }
    n = all;
  }
  float inv = rsqrtf(m2 / c + 1e-5f);
  for (int i = threadIdx.x; i < c; i += 32) y[(size_t)blockIdx.x * c + i] = (in[i] - mean) * inv * g[i] + b[i];
}
torch::Tensor run(torch::Tensor x, torch::Tensor g, torch::Tensor b) {
  auto y = torch::empty_like(x);
  norm<<<x.size(0), 32>>>(x.data_ptr<float>(), g.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
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
