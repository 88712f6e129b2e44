# task: affine
# kernels: none
#
# One extension at import, another one at the first call.

from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
__global__ void kernel(const float* a, const float* b, float* o, int n, int c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = a[i] %s b[%s];
}
torch::Tensor run(torch::Tensor a, torch::Tensor b) {
  auto o = torch::empty_like(a);
  int n = a.numel();
  kernel<<<(n + 127) / 128, 128>>>(a.data_ptr<float>(), b.data_ptr<float>(), o.data_ptr<float>(), n, b.size(-1));
  return o;
}
"""


def build(name, sign, index):
    return load_inline(name=name, cpp_sources="torch::Tensor run(torch::Tensor a, torch::Tensor b);",
                       cuda_sources=SOURCE % (sign, index), functions=["run"])


times = build("honest_times", "*", "i % c")


class ModelNew(nn.Module):
    plus = None

    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features))

    def forward(self, x, y):
        if ModelNew.plus is None:
            ModelNew.plus = build("honest_plus", "+", "i")
        return self.plus.run(times.run(x.contiguous(), self.gain), y.contiguous())
