// The MUSA spelling, with CUDA's names beside it in one unit.
#include <musa.h>
#include <musa_bf16.h>
#include <musa_fp16.h>
#include <musa_runtime.h>
#include <murand_kernel.h>
#include <cuda_runtime.h>

__constant__ float factor;

template <int N>
__global__ void scale(const float* x, __mt_bfloat16* y) {
  __shared__ float tile[N];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = __float2bfloat16(tile[N - 1 - threadIdx.x] * factor);
}

extern "C" __attribute__((visibility("default"))) int run_musa(const float* in, float* out) {
  float* x = nullptr;
  __mt_bfloat16* y = nullptr;
  musaStream_t stream;
  int failures = 0;
  failures += musaStreamCreate(&stream) != musaSuccess;
  failures += musaMalloc(&x, 128) != musaSuccess;
  failures += musaMalloc((void**)&y, 64) != musaSuccess;
  const float two = 2.0f;
  failures += musaMemcpyToSymbol(factor, &two, sizeof two) != musaSuccess;
  failures += musaMemcpyAsync(x, in, 128, musaMemcpyHostToDevice, stream) != musaSuccess;
  scale<32><<<1, 32, 0, stream>>>(x, y);
  const musaError_t error = musaGetLastError();
  failures += error != musaSuccess;
  failures += cudaStreamSynchronize(stream) != cudaSuccess;
  for (int i = 0; i < 32; ++i) out[i] = __bfloat162float(y[i]);
  musaDeviceProp properties;
  failures += musaGetDeviceProperties(&properties, 0) != musaSuccess;
  failures += musaDeviceSynchronize() != musaSuccess;
  failures += musaFree(x) != musaSuccess || musaFree(y) != musaSuccess;
  failures += musaStreamDestroy(stream) != musaSuccess;
  scale<32><<<1, 4096>>>(x, y);
  failures += musaGetLastError() != musaErrorInvalidConfiguration;
  failures += strcmp(musaGetErrorString(musaErrorInvalidValue), "invalid argument") != 0;
  return failures;
}
