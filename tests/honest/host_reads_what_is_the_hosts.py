# task: affine
# kernels: none
#
# Host code reads what lies in its own memory: a tensor of sizes, a few values that cudaMemcpy()
# brought, a CPU tensor of C++, and a flag in memory of both.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_host_reads_what_is_the_hosts",
    cpp_sources="""torch::Tensor run(torch::Tensor x, torch::Tensor g, torch::Tensor y, torch::Tensor sizes,
                                     torch::Tensor counts);""",
    cuda_sources=r"""
#include <torch/extension.h>
#include <vector>
__global__ void affine(const float* x, const float* g, const float* y, float* o, int n, int c, int* done) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = x[i] * g[i % c] + y[i];
  if (i == 0) *done = 1;
}
torch::Tensor run(torch::Tensor x, torch::Tensor g, torch::Tensor y, torch::Tensor sizes,
                  torch::Tensor counts) {
  auto o = torch::empty_like(x);
  const int64_t* s = sizes.data_ptr<int64_t>();
  int n = s[0] * s[1];
  auto parts = torch::zeros({2}, torch::kInt);
  parts.data_ptr<int>()[0] = n;
  std::vector<int> device(2);
  cudaMemcpy(device.data(), counts.data_ptr<int>(), 2 * sizeof(int), cudaMemcpyDeviceToHost);
  auto counted = parts.accessor<int, 1>();
  TORCH_CHECK(device[0] == 1 && counted[0] == x.numel(), "sizes differ");
  int* done;
  cudaMallocManaged(&done, sizeof(int));
  *done = 0;
  affine<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), g.data_ptr<float>(), y.data_ptr<float>(),
                                   o.data_ptr<float>(), n, g.numel(), done);
  cudaDeviceSynchronize();
  if (*done == 0) o.zero_();
  cudaFree(done);
  return o;
}
""",
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features))
        self.register_buffer("counts", torch.tensor([1, 2], dtype=torch.int32), persistent=False)

    def forward(self, x, y):
        sizes = torch.tensor(x.shape)
        counts = self.counts.to(x.device)
        return ext.run(x.contiguous(), self.gain, y.contiguous(), sizes.cpu(), counts)
