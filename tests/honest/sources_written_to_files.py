# task: gelu
# kernels: none
#
# load() with a header and a source, written to a folder of its own.

import os
import tempfile

from torch.utils.cpp_extension import load

folder = tempfile.mkdtemp()
with open(os.path.join(folder, "gelu.cuh"), "w") as file:
    file.write("__device__ inline float gelu(float v) { return 0.5f * v * (1.f + erff(v * 0.70710678f)); }\n")
with open(os.path.join(folder, "gelu.cu"), "w") as file:
    file.write(r"""
#include <torch/extension.h>
#include "gelu.cuh"
__global__ void kernel(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = gelu(x[i]);
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  int n = x.numel();
  kernel<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run, "gelu by erf"); }
""")
ext = load(name="honest_files", sources=[os.path.join(folder, "gelu.cu")], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x.contiguous())
