# task: softmax
# kernels: none
#
# Maximum and sum in one pass, merged over the warp.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_online_softmax",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=r"""
#include <torch/extension.h>
__global__ void online(const float* x, float* y, int c) {
  const float* in = x + (size_t)blockIdx.x * c;
  float m = -INFINITY, s = 0.f;
  for (int i = threadIdx.x; i < c; i += 32) {
    float v = in[i], next = fmaxf(m, v);
    if (next > -INFINITY) s = s * __expf(m - next) + __expf(v - next);
    m = next;
  }
  for (int o = 16; o; o >>= 1) {
    float m2 = __shfl_xor_sync(~0u, m, o), s2 = __shfl_xor_sync(~0u, s, o), next = fmaxf(m, m2);
    if (next > -INFINITY) s = s * __expf(m - next) + s2 * __expf(m2 - next);
    m = next;
  }
  for (int i = threadIdx.x; i < c; i += 32) y[(size_t)blockIdx.x * c + i] = __expf(in[i] - m) / s;
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  online<<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
""",
    functions=["run"],
)

class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x.contiguous())
