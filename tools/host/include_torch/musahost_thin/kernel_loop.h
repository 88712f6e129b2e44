// CUDA_KERNEL_LOOP of ATen/cuda/detail/KernelUtils.h.
#pragma once
#include "cuda.h"

#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                                \
  int64_t musahost_loop_##i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;     \
  for (index_type i = static_cast<index_type>(musahost_loop_##i); musahost_loop_##i < (n);     \
       musahost_loop_##i += static_cast<int64_t>(blockDim.x) * gridDim.x,                      \
                  i = static_cast<index_type>(musahost_loop_##i))
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
