"""Ten bugs of one kind, planted in MUSA kernels: each takes it for granted that a warp has 32 lanes.

All kernels stand in one source, so that it is compiled once; a candidate calls one of them. Each
is right where a warp has 32 lanes, and wrong on the 128 lanes of an S80 or S4000.
"""

from dataclasses import dataclass

SOURCE = r"""
#include <torch/extension.h>
#include <musa_runtime.h>

#define FULL 0xffffffffu

// One "warp" a row; the sum in lane 0 is handed to the others by its number.
__global__ void broadcast_from_lane_zero(const float* x, float* y, int rows) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y, i = row * 32 + threadIdx.x;
  const float e = row < rows ? expf(x[i]) : 0.f;
  float sum = e;
  for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_down_sync(FULL, sum, offset);
  sum = __shfl_sync(FULL, sum, 0);
  if (row < rows) y[i] = e / sum;
}

// The offsets start at 16, the partial sums are filed by warpSize.
__global__ void half_of_the_offsets(const float* x, float* y, int) {
  __shared__ float partial[32];
  const int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
  float v = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_down_sync(FULL, v, offset);
  if (lane == 0) partial[warp] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0.f;
    for (int w = 0; w < blockDim.x / warpSize; ++w) sum += partial[w];
    y[blockIdx.x] = sum;
  }
}

// The partial sums are filed by warpSize and counted by 32.
__global__ void partials_counted_by_32(const float* x, float* y, int) {
  __shared__ float partial[32];
  float v = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (int offset = warpSize / 2; offset > 0; offset >>= 1) v += __shfl_down_sync(FULL, v, offset);
  if (threadIdx.x % warpSize == 0) partial[threadIdx.x / warpSize] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0.f;
    for (int w = 0; w < blockDim.x / 32; ++w) sum += partial[w];
    y[blockIdx.x] = sum;
  }
}

// 32 votes fit into an unsigned, 128 do not.
__global__ void votes_in_32_bits(const float* x, float* y, int) {
  const unsigned votes = __ballot_sync(FULL, x[blockIdx.x * blockDim.x + threadIdx.x] > 0.f);
  if (threadIdx.x % warpSize == 0) atomicAdd(&y[blockIdx.x], (float)__popc(votes));
}

// Every warp's total is taken from lane 31.
__global__ void total_from_lane_31(const float* x, float* y, int) {
  __shared__ float totals[32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
  for (int offset = 1; offset < 32; offset <<= 1) {
    const float below = __shfl_up_sync(FULL, v, offset);
    if (lane >= offset) v += below;
  }
  const float total = __shfl_sync(FULL, v, 31);
  if (lane == 0) totals[warp] = total;
  __syncthreads();
  for (int w = 0; w < warp; ++w) v += totals[w];
  y[i] = v;
}

// A row of 32 turns in its own lanes.
__global__ void turn_by_lane_number(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  y[i] = __shfl_sync(FULL, x[i], (lane + 1) & 31);
}

// Four rows of 32 vote together.
__global__ void votes_of_other_rows(const float* x, float* y, int) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  const int any = __any_sync(FULL, x[row * 32 + threadIdx.x] > 1.5f);
  if (threadIdx.x == 0) y[row] = any ? 1.f : 0.f;
}

// The loop knows warpSize, the block does not: a row is 32 threads.
__global__ void rows_of_32_in_one_warp(const float* x, float* y, int) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  float v = x[row * 32 + threadIdx.x];
  for (int offset = warpSize / 2; offset > 0; offset >>= 1) v += __shfl_xor_sync(FULL, v, offset);
  if (threadIdx.x == 0) y[row] = v;
}

// The leader is looked for among 32 lanes.
__global__ void leader_among_32(const float* x, float* y, int) {
  const unsigned votes = __ballot_sync(FULL, x[blockIdx.x * blockDim.x + threadIdx.x] > 0.f);
  const int leader = __ffs(votes) - 1;
  if ((int)(threadIdx.x % warpSize) == leader) atomicAdd(&y[blockIdx.x], (float)__popc(votes));
}

// At the edge of a warp a shuffle gives the own value back.
__global__ void edge_of_the_warp(const float* x, float* y, int) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] - __shfl_up_sync(FULL, x[i], 1);
}

// Right for every warp size, for comparison.
__global__ void right_for_any_warp(const float* x, float* y, int) {
  __shared__ float partial[32];
  const int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
  float v = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (int offset = warpSize / 2; offset > 0; offset >>= 1) v += __shfl_down_sync(FULL, v, offset);
  if (lane == 0) partial[warp] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0.f;
    for (int w = 0; w < blockDim.x / warpSize; ++w) sum += partial[w];
    y[blockIdx.x] = sum;
  }
}

#define EXPORT(kernel, output, grid, ...)                                                   \
  at::Tensor run_##kernel(const at::Tensor& x) {                                            \
    TORCH_CHECK(x.is_privateuseone(), "expected a MUSA tensor");                            \
    auto y = output;                                                                        \
    kernel<<<grid, dim3(__VA_ARGS__)>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0)); \
    return y;                                                                               \
  }
#define LIKE at::empty_like(x)
#define A_ROW at::zeros({x.size(0)}, x.options())
EXPORT(broadcast_from_lane_zero, LIKE, x.size(0) / 4, 32, 4)
EXPORT(half_of_the_offsets, A_ROW, x.size(0), 256)
EXPORT(partials_counted_by_32, A_ROW, x.size(0), 256)
EXPORT(votes_in_32_bits, A_ROW, x.size(0), 256)
EXPORT(total_from_lane_31, LIKE, x.size(0), 256)
EXPORT(turn_by_lane_number, LIKE, x.size(0) / 4, 128)
EXPORT(votes_of_other_rows, A_ROW, x.size(0) / 4, 32, 4)
EXPORT(rows_of_32_in_one_warp, A_ROW, x.size(0) / 8, 32, 8)
EXPORT(leader_among_32, A_ROW, x.size(0), 256)
EXPORT(edge_of_the_warp, LIKE, x.size(0) / 4, 128)
EXPORT(right_for_any_warp, A_ROW, x.size(0), 256)
"""


@dataclass(frozen=True)
class Kernel:
    """What the kernel computes of `x`, whose rows have `columns` elements."""

    reference: str
    columns: int


BUGS = {
    "broadcast_from_lane_zero": Kernel("torch.softmax(x, -1)", 32),
    "half_of_the_offsets": Kernel("x.sum(-1)", 256),
    "partials_counted_by_32": Kernel("x.sum(-1)", 256),
    "votes_in_32_bits": Kernel("(x > 0).float().sum(-1)", 256),
    "total_from_lane_31": Kernel("torch.cumsum(x, -1)", 256),
    "turn_by_lane_number": Kernel("torch.roll(x, -1, -1)", 32),
    "votes_of_other_rows": Kernel("(x > 1.5).any(-1).float()", 32),
    "rows_of_32_in_one_warp": Kernel("x.sum(-1)", 32),
    "leader_among_32": Kernel("(x > 0).float().sum(-1)", 256),
    "edge_of_the_warp": Kernel("torch.diff(x, dim=-1, prepend=x[:, :1])", 32),
}
RIGHT = Kernel("x.sum(-1)", 256)

_OP = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return {reference}


def get_inputs():
    return [torch.randn(16, {columns})]


def get_init_inputs():
    return []
"""
_CANDIDATE = '''import torch
import torch.nn as nn
import torch_musa
from torch_musa.utils.musa_extension import load_inline

source = r"""{source}"""
extension = load_inline(
    name="warp32",
    cpp_sources="{prototypes}",
    musa_sources=source,
    functions={functions},
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.run_{name}(x)
'''


def op(name: str) -> str:
    """The op file of a kernel."""
    kernel = BUGS.get(name, RIGHT)
    return _OP.format(reference=kernel.reference, columns=kernel.columns)


def candidate(name: str) -> str:
    names = [f"run_{bug}" for bug in (*BUGS, "right_for_any_warp")]
    prototypes = " ".join(f"at::Tensor {n}(const at::Tensor& x);" for n in names)
    return _CANDIDATE.format(source=SOURCE, prototypes=prototypes, functions=names, name=name)
