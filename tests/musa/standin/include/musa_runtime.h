// The MUSA runtime as far as the tests use it: declarations only, nothing here runs.
#pragma once
#include "standin_attributes.h"
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#define MUSART_VERSION 50200

#include "standin_vectors.h"
#include "standin_device.h"

enum musaError {
  musaSuccess = 0,
  musaErrorInvalidValue = 1,
  musaErrorMemoryAllocation = 2,
  musaErrorInitializationError = 3,
  musaErrorInvalidConfiguration = 9,
  musaErrorInvalidDevice = 101,
  musaErrorNoDevice = 100,
  musaErrorNotReady = 600,
  musaErrorIllegalAddress = 700,
  musaErrorLaunchOutOfResources = 701,
  musaErrorLaunchFailure = 719,
  musaErrorNotSupported = 801,
  musaErrorUnknown = 999,
};
typedef enum musaError musaError_t;
typedef struct MUstream_st* musaStream_t;
typedef struct MUevent_st* musaEvent_t;
typedef unsigned long long musaTextureObject_t;
enum musaMemcpyKind {
  musaMemcpyHostToHost = 0,
  musaMemcpyHostToDevice = 1,
  musaMemcpyDeviceToHost = 2,
  musaMemcpyDeviceToDevice = 3,
  musaMemcpyDefault = 4,
};
enum musaFuncAttribute {
  musaFuncAttributeMaxDynamicSharedMemorySize = 8,
  musaFuncAttributePreferredSharedMemoryCarveout = 9,
};
enum musaFuncCache {
  musaFuncCachePreferNone = 0,
  musaFuncCachePreferShared = 1,
  musaFuncCachePreferL1 = 2,
  musaFuncCachePreferEqual = 3,
};
enum musaDeviceAttr {
  musaDevAttrMaxThreadsPerBlock = 1,
  musaDevAttrMaxSharedMemoryPerBlock = 8,
  musaDevAttrWarpSize = 10,
  musaDevAttrMultiProcessorCount = 16,
  musaDevAttrMaxThreadsPerMultiProcessor = 39,
  musaDevAttrComputeCapabilityMajor = 75,
  musaDevAttrComputeCapabilityMinor = 76,
  musaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
  musaDevAttrMaxSharedMemoryPerBlockOptin = 97,
  musaDevAttrMaxGridDimX = 5,
  musaDevAttrMaxGridDimY = 6,
  musaDevAttrMaxGridDimZ = 7,
  musaDevAttrL2CacheSize = 38,
};
struct musaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock, totalConstMem, sharedMemPerMultiprocessor;
  size_t sharedMemPerBlockOptin;
  int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
  int clockRate, major, minor, multiProcessorCount, l2CacheSize, maxThreadsPerMultiProcessor;
  int memoryClockRate, memoryBusWidth, concurrentKernels, regsPerMultiprocessor;
};
extern "C" {
musaError_t musaMalloc(void**, size_t);
musaError_t musaMallocAsync(void**, size_t, musaStream_t);
musaError_t musaMallocManaged(void**, size_t, unsigned = 1);
musaError_t musaMallocHost(void**, size_t);
musaError_t musaHostAlloc(void**, size_t, unsigned);
musaError_t musaFree(void*);
musaError_t musaFreeAsync(void*, musaStream_t);
musaError_t musaFreeHost(void*);
musaError_t musaMemcpy(void*, const void*, size_t, musaMemcpyKind);
musaError_t musaMemcpyAsync(void*, const void*, size_t, musaMemcpyKind, musaStream_t = 0);
musaError_t musaMemset(void*, int, size_t);
musaError_t musaMemsetAsync(void*, int, size_t, musaStream_t = 0);
musaError_t musaMemcpy2D(void*, size_t, const void*, size_t, size_t, size_t, musaMemcpyKind);
musaError_t musaMemGetInfo(size_t*, size_t*);
musaError_t musaGetDevice(int*);
musaError_t musaSetDevice(int);
musaError_t musaGetDeviceCount(int*);
musaError_t musaGetDeviceProperties(musaDeviceProp*, int);
musaError_t musaDeviceGetAttribute(int*, musaDeviceAttr, int);
musaError_t musaDeviceSynchronize();
musaError_t musaDeviceReset();
musaError_t musaGetLastError();
musaError_t musaPeekAtLastError();
const char* musaGetErrorString(musaError_t);
const char* musaGetErrorName(musaError_t);
musaError_t musaStreamCreate(musaStream_t*);
musaError_t musaStreamCreateWithFlags(musaStream_t*, unsigned);
musaError_t musaStreamDestroy(musaStream_t);
musaError_t musaStreamSynchronize(musaStream_t);
musaError_t musaStreamWaitEvent(musaStream_t, musaEvent_t, unsigned = 0);
musaError_t musaEventCreate(musaEvent_t*);
musaError_t musaEventCreateWithFlags(musaEvent_t*, unsigned);
musaError_t musaEventDestroy(musaEvent_t);
musaError_t musaEventRecord(musaEvent_t, musaStream_t = 0);
musaError_t musaEventSynchronize(musaEvent_t);
musaError_t musaEventElapsedTime(float*, musaEvent_t, musaEvent_t);
musaError_t musaLaunchKernel(const void*, dim3, dim3, void**, size_t, musaStream_t);
// clang's CUDA mode looks for these when it sees <<<...>>>.
unsigned cudaConfigureCall(dim3, dim3, size_t = 0, musaStream_t = 0);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t = 0, musaStream_t = 0);
musaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, musaStream_t);
}
enum {
  musaStreamDefault = 0,
  musaStreamNonBlocking = 1,
  musaEventDefault = 0,
  musaEventDisableTiming = 2,
  musaHostAllocDefault = 0,
};
template <class T>
musaError_t musaMalloc(T** p, size_t n) { return musaMalloc(reinterpret_cast<void**>(p), n); }
template <class T>
musaError_t musaMallocManaged(T** p, size_t n) {
  return musaMallocManaged(reinterpret_cast<void**>(p), n);
}
template <class T>
musaError_t musaFuncSetAttribute(T, musaFuncAttribute, int);
template <class T>
musaError_t musaFuncSetCacheConfig(T, musaFuncCache);
template <class T>
musaError_t musaMemcpyToSymbol(const T&, const void*, size_t, size_t = 0,
                               musaMemcpyKind = musaMemcpyHostToDevice);
template <class T>
musaError_t musaMemcpyToSymbolAsync(const T&, const void*, size_t, size_t, musaMemcpyKind,
                                    musaStream_t = 0);
template <class T>
musaError_t musaMemcpyFromSymbol(void*, const T&, size_t, size_t = 0,
                                 musaMemcpyKind = musaMemcpyDeviceToHost);
template <class T>
musaError_t musaGetSymbolAddress(void**, const T&);
template <class T>
musaError_t musaOccupancyMaxPotentialBlockSize(int*, int*, T, size_t = 0, int = 0);
template <class T>
musaError_t musaOccupancyMaxActiveBlocksPerMultiprocessor(int*, T, int, size_t);
