# task: row_sum
# kernels: none
# flag: specialised: inputs with
#
# A compensated sum in each thread. Infinities become NaN in it, as they do by Kahan's own rule.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_kahan_sum",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=r"""
#include <torch/extension.h>
__global__ void kahan(const float* x, float* y, int c) {
  __shared__ float part[128];
  float sum = 0.f, lost = 0.f;
  for (int i = threadIdx.x; i < c; i += 128) {
    float v = x[(size_t)blockIdx.x * c + i] - lost;
    float next = sum + v;
    lost = (next - sum) - v;
    sum = next;
  }
  part[threadIdx.x] = sum;
  for (int s = 64; s; s /= 2) {
    __syncthreads();
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
  }
  if (!threadIdx.x) y[blockIdx.x] = part[0];
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  kahan<<<x.size(0), 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
""",
    functions=["run"],
)

class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x.contiguous())
