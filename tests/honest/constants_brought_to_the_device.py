# task: affine
# kernels: none
#
# Small tensors begin on the CPU, and get to the device in every way there is.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_constants_brought_to_the_device",
    cpp_sources="""torch::Tensor run(torch::Tensor x, torch::Tensor g, torch::Tensor y,
                                     std::vector<torch::Tensor> ones, torch::Tensor on_cpu);""",
    cuda_sources=r"""
#include <torch/extension.h>
#include <vector>
__device__ int in_symbol[2];
__device__ __managed__ int managed[2] = {0, 1};
__global__ void affine(const float* x, const float* g, const float* y, const int* t, float* o, int n, int c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = x[i] * g[i % c] * t[1] + y[i];
}
torch::Tensor run(torch::Tensor x, torch::Tensor g, torch::Tensor y, std::vector<torch::Tensor> ones,
                  torch::Tensor on_cpu) {
  TORCH_CHECK(x.is_cuda() && g.is_cuda() && y.is_cuda() && on_cpu.is_cpu(), "wrong device");
  int n = x.numel(), values[2] = {0, 1};
  int *symbol, *allocated, *both;
  cudaMemcpyToSymbol(in_symbol, values, sizeof values);
  cudaGetSymbolAddress((void**)&symbol, in_symbol);
  cudaMalloc(&allocated, sizeof values);
  cudaMemcpy(allocated, on_cpu.data_ptr<int>(), sizeof values, cudaMemcpyHostToDevice);
  cudaMallocManaged(&both, sizeof values);
  both[1] = 1;
  ones.push_back(on_cpu.to(x.device()));
  ones.push_back(torch::arange(2, torch::kInt32).cuda());
  ones.push_back(torch::arange(2, x.options().dtype(torch::kInt32)));
  ones.push_back(torch::tensor({0, 1}, torch::dtype(torch::kInt32).device(x.device())));
  ones.push_back(torch::from_blob(values, {2}, torch::kInt32).to(torch::kCUDA));
  std::vector<const int*> all{symbol, allocated, both, managed};
  for (auto& t : ones) all.push_back(t.data_ptr<int>());
  auto o = y;
  for (const int* t : all) {
    o = torch::empty_like(x);
    affine<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), g.data_ptr<float>(), y.data_ptr<float>(), t,
                                     o.data_ptr<float>(), n, g.numel());
  }
  cudaDeviceSynchronize();
  cudaFree(allocated);
  cudaFree(both);
  return o;
}
""",
    functions=["run"],
)

OF_THE_FILE = torch.arange(2, dtype=torch.int32, device="cuda")


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features))
        self.register_buffer("saved", torch.arange(2, dtype=torch.int32), persistent=False)
        self.moved = torch.arange(2, dtype=torch.int32).cuda()
        self.on_cpu = torch.tensor([0, 1], dtype=torch.int32)

    def forward(self, x, y):
        with torch.device("cuda"):
            by_context = torch.arange(2, dtype=torch.int32)
        ones = [
            OF_THE_FILE,
            self.saved,
            self.moved,
            self.on_cpu.to(x.device),
            self.on_cpu.to(OF_THE_FILE),
            self.on_cpu.type_as(OF_THE_FILE),
            torch.arange(2).int().cuda(),
            torch.arange(2, device=x.device).int(),
            torch.as_tensor([0, 1], dtype=torch.int32, device=x.device),
            torch.empty(2, dtype=torch.int32, device=x.device).copy_(self.on_cpu),
            torch.tensor([0, 1], dtype=torch.int32).pin_memory(),
            by_context,
        ]
        return ext.run(x.contiguous(), self.gain, y.contiguous(), ones, self.on_cpu)
