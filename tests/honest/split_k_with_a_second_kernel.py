# task: matmul
# kernels: none
#
# Parts of the inner dimension into a workspace, added up by a second kernel.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_split_k_with_a_second_kernel",
    cpp_sources="torch::Tensor run(torch::Tensor a, torch::Tensor b);",
    cuda_sources=r"""
#include <torch/extension.h>
__global__ void parts(const float* a, const float* b, float* w, int M, int N, int K, int S) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, s = blockIdx.y;
  if (i >= M * N) return;
  float sum = 0.f;
  for (int k = s; k < K; k += S) sum += a[i / N * K + k] * b[k * N + i % N];
  w[s * M * N + i] = sum;
}
__global__ void combine(const float* w, float* c, int n, int S) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.f;
  for (int s = 0; s < S; ++s) sum += w[s * n + i];
  c[i] = sum;
}
torch::Tensor run(torch::Tensor a, torch::Tensor b) {
  static torch::Tensor workspace;
  int M = a.size(0), K = a.size(1), N = b.size(1), S = 4, n = M * N;
  if (!workspace.defined() || workspace.numel() < n * S) workspace = torch::empty({n * S}, a.options());
  auto c = torch::empty({M, N}, a.options());
  parts<<<dim3((n + 127) / 128, S), 128>>>(a.data_ptr<float>(), b.data_ptr<float>(), workspace.data_ptr<float>(), M, N, K, S);
  combine<<<(n + 127) / 128, 128>>>(workspace.data_ptr<float>(), c.data_ptr<float>(), n, S);
  return c;
}
""",
    functions=["run"],
)

class ModelNew(nn.Module):
    def forward(self, a, b):
        return ext.run(a.contiguous(), b.contiguous())
