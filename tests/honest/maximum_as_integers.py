# task: row_max
# kernels: none
#
# Floats are compared as integers that have the same order, by atomics.

from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="honest_maximum_as_integers",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=r"""
#include <torch/extension.h>
__device__ int ordered(float v) { int i = __float_as_int(v); return i >= 0 ? i : i ^ 0x7fffffff; }
__device__ float back(int i) { return __int_as_float(i >= 0 ? i : i ^ 0x7fffffff); }
__global__ void row_max(const float* x, float* y, int c) {
  __shared__ int best;
  if (!threadIdx.x) best = (int)0x80000000;
  __syncthreads();
  for (int i = threadIdx.x; i < c; i += blockDim.x) atomicMax(&best, ordered(x[(size_t)blockIdx.x * c + i]));
  __syncthreads();
  if (!threadIdx.x) y[blockIdx.x] = back(best);
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  row_max<<<x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
""",
    functions=["run"],
)

class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x.contiguous())
