# task: matmul
# kernels: none
#
# Products are summed in double.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_double_accumulators",
    cpp_sources="torch::Tensor run(torch::Tensor a, torch::Tensor b);",
    cuda_sources=r"""
#include <torch/extension.h>
__global__ void mm(const float* a, const float* b, float* c, int M, int N, int K) {
  int n = blockIdx.x * 16 + threadIdx.x, m = blockIdx.y * 8 + threadIdx.y;
  if (m >= M || n >= N) return;
  double s = 0.0;
  for (int k = 0; k < K; ++k) s += (double)a[m * K + k] * b[k * N + n];
  c[m * N + n] = (float)s;
}
torch::Tensor run(torch::Tensor a, torch::Tensor b) {
  int M = a.size(0), K = a.size(1), N = b.size(1);
  auto c = torch::empty({M, N}, a.options());
  mm<<<dim3((N + 15) / 16, (M + 7) / 8), dim3(16, 8)>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), M, N, K);
  return c;
}
""",
    functions=["run"],
)

class ModelNew(nn.Module):
    def forward(self, a, b):
        return ext.run(a.contiguous(), b.contiguous())
