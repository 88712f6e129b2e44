// Devices and their properties: one device, shaped like an H100 with 132 multiprocessors.
#pragma once
#include "errors.h"

#define MUSAHOST_MULTIPROCESSORS 132
#define MUSAHOST_SHARED_PER_BLOCK 49152
#define MUSAHOST_SHARED_PER_BLOCK_OPTIN 232448
#define MUSAHOST_SHARED_PER_MULTIPROCESSOR 233472
#define MUSAHOST_L2_BYTES 52428800

typedef struct {
  char bytes[16];
} cudaUUID_t;

struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  size_t totalGlobalMem;
  size_t sharedMemPerBlock;
  int regsPerBlock;
  int warpSize;
  size_t memPitch;
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  int clockRate;
  size_t totalConstMem;
  int major, minor;
  size_t textureAlignment, texturePitchAlignment;
  int deviceOverlap;
  int multiProcessorCount;
  int kernelExecTimeoutEnabled;
  int integrated;
  int canMapHostMemory;
  int computeMode;
  int concurrentKernels;
  int ECCEnabled;
  int pciBusID, pciDeviceID, pciDomainID;
  int tccDriver;
  int asyncEngineCount;
  int unifiedAddressing;
  int memoryClockRate;
  int memoryBusWidth;
  int l2CacheSize;
  int persistingL2CacheMaxSize;
  int maxThreadsPerMultiProcessor;
  int streamPrioritiesSupported;
  int globalL1CacheSupported, localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor;
  int managedMemory;
  int isMultiGpuBoard;
  int hostNativeAtomicSupported;
  int pageableMemoryAccess;
  int concurrentManagedAccess;
  int computePreemptionSupported;
  int cooperativeLaunch;
  size_t sharedMemPerBlockOptin;
  int maxBlocksPerMultiProcessor;
  int accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  int memoryPoolsSupported;
  int clusterLaunch;
};

enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxBlockDimX = 2,
  cudaDevAttrMaxBlockDimY = 3,
  cudaDevAttrMaxBlockDimZ = 4,
  cudaDevAttrMaxGridDimX = 5,
  cudaDevAttrMaxGridDimY = 6,
  cudaDevAttrMaxGridDimZ = 7,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrTotalConstantMemory = 9,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMaxPitch = 11,
  cudaDevAttrMaxRegistersPerBlock = 12,
  cudaDevAttrClockRate = 13,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrIntegrated = 18,
  cudaDevAttrCanMapHostMemory = 19,
  cudaDevAttrComputeMode = 20,
  cudaDevAttrConcurrentKernels = 31,
  cudaDevAttrEccEnabled = 32,
  cudaDevAttrMemoryClockRate = 36,
  cudaDevAttrGlobalMemoryBusWidth = 37,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrAsyncEngineCount = 40,
  cudaDevAttrUnifiedAddressing = 41,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrStreamPrioritiesSupported = 78,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
  cudaDevAttrMaxRegistersPerMultiprocessor = 82,
  cudaDevAttrManagedMemory = 83,
  cudaDevAttrConcurrentManagedAccess = 89,
  cudaDevAttrCooperativeLaunch = 95,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
  cudaDevAttrMaxBlocksPerMultiprocessor = 106,
  cudaDevAttrMaxPersistingL2CacheSize = 108,
  cudaDevAttrMaxAccessPolicyWindowSize = 109,
  cudaDevAttrReservedSharedMemoryPerBlock = 111,
  cudaDevAttrMemoryPoolsSupported = 115,
  cudaDevAttrClusterLaunch = 120,
};

static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (p == nullptr) return ::musahost::failed(cudaErrorInvalidValue);
  if (device != 0) return ::musahost::failed(cudaErrorInvalidDevice);
  *p = cudaDeviceProp{};
  strcpy(p->name, "musaagent host target");
  p->totalGlobalMem = size_t(80) << 30;
  p->sharedMemPerBlock = MUSAHOST_SHARED_PER_BLOCK;
  p->sharedMemPerBlockOptin = MUSAHOST_SHARED_PER_BLOCK_OPTIN;
  p->sharedMemPerMultiprocessor = MUSAHOST_SHARED_PER_MULTIPROCESSOR;
  p->reservedSharedMemPerBlock = 1024;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = musahost_current.warp_size ? musahost_current.warp_size : ::musahost::warp_size;
  p->memPitch = 2147483647;
  p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->clockRate = 1980000;
  p->totalConstMem = 65536;
  p->major = 9;
  p->textureAlignment = 512;
  p->texturePitchAlignment = 32;
  p->deviceOverlap = p->concurrentKernels = p->unifiedAddressing = p->canMapHostMemory = 1;
  p->multiProcessorCount = MUSAHOST_MULTIPROCESSORS;
  p->asyncEngineCount = 3;
  p->memoryClockRate = 2619000;
  p->memoryBusWidth = 5120;
  p->l2CacheSize = MUSAHOST_L2_BYTES;
  p->persistingL2CacheMaxSize = 32 << 20;
  p->accessPolicyMaxWindowSize = 128 << 20;
  p->maxThreadsPerMultiProcessor = 2048;
  p->maxBlocksPerMultiProcessor = 32;
  p->streamPrioritiesSupported = p->globalL1CacheSupported = p->localL1CacheSupported = 1;
  p->managedMemory = p->concurrentManagedAccess = p->cooperativeLaunch = 1;
  p->computePreemptionSupported = p->memoryPoolsSupported = 1;
  return cudaSuccess;
}

static inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (value == nullptr) return ::musahost::failed(cudaErrorInvalidValue);
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device)) return error;
  switch (attribute) {
#define MUSAHOST_ATTRIBUTE(name, expression)       \
  case cudaDevAttr##name:                          \
    *value = static_cast<int>(expression);         \
    return cudaSuccess;
    MUSAHOST_ATTRIBUTE(MaxThreadsPerBlock, p.maxThreadsPerBlock)
    MUSAHOST_ATTRIBUTE(MaxBlockDimX, p.maxThreadsDim[0])
    MUSAHOST_ATTRIBUTE(MaxBlockDimY, p.maxThreadsDim[1])
    MUSAHOST_ATTRIBUTE(MaxBlockDimZ, p.maxThreadsDim[2])
    MUSAHOST_ATTRIBUTE(MaxGridDimX, p.maxGridSize[0])
    MUSAHOST_ATTRIBUTE(MaxGridDimY, p.maxGridSize[1])
    MUSAHOST_ATTRIBUTE(MaxGridDimZ, p.maxGridSize[2])
    MUSAHOST_ATTRIBUTE(MaxSharedMemoryPerBlock, p.sharedMemPerBlock)
    MUSAHOST_ATTRIBUTE(TotalConstantMemory, p.totalConstMem)
    MUSAHOST_ATTRIBUTE(WarpSize, p.warpSize)
    MUSAHOST_ATTRIBUTE(MaxPitch, p.memPitch)
    MUSAHOST_ATTRIBUTE(MaxRegistersPerBlock, p.regsPerBlock)
    MUSAHOST_ATTRIBUTE(ClockRate, p.clockRate)
    MUSAHOST_ATTRIBUTE(MultiProcessorCount, p.multiProcessorCount)
    MUSAHOST_ATTRIBUTE(Integrated, p.integrated)
    MUSAHOST_ATTRIBUTE(CanMapHostMemory, p.canMapHostMemory)
    MUSAHOST_ATTRIBUTE(ComputeMode, p.computeMode)
    MUSAHOST_ATTRIBUTE(ConcurrentKernels, p.concurrentKernels)
    MUSAHOST_ATTRIBUTE(EccEnabled, p.ECCEnabled)
    MUSAHOST_ATTRIBUTE(MemoryClockRate, p.memoryClockRate)
    MUSAHOST_ATTRIBUTE(GlobalMemoryBusWidth, p.memoryBusWidth)
    MUSAHOST_ATTRIBUTE(L2CacheSize, p.l2CacheSize)
    MUSAHOST_ATTRIBUTE(MaxThreadsPerMultiProcessor, p.maxThreadsPerMultiProcessor)
    MUSAHOST_ATTRIBUTE(AsyncEngineCount, p.asyncEngineCount)
    MUSAHOST_ATTRIBUTE(UnifiedAddressing, p.unifiedAddressing)
    MUSAHOST_ATTRIBUTE(ComputeCapabilityMajor, p.major)
    MUSAHOST_ATTRIBUTE(ComputeCapabilityMinor, p.minor)
    MUSAHOST_ATTRIBUTE(StreamPrioritiesSupported, p.streamPrioritiesSupported)
    MUSAHOST_ATTRIBUTE(MaxSharedMemoryPerMultiprocessor, p.sharedMemPerMultiprocessor)
    MUSAHOST_ATTRIBUTE(MaxRegistersPerMultiprocessor, p.regsPerMultiprocessor)
    MUSAHOST_ATTRIBUTE(ManagedMemory, p.managedMemory)
    MUSAHOST_ATTRIBUTE(ConcurrentManagedAccess, p.concurrentManagedAccess)
    MUSAHOST_ATTRIBUTE(CooperativeLaunch, p.cooperativeLaunch)
    MUSAHOST_ATTRIBUTE(MaxSharedMemoryPerBlockOptin, p.sharedMemPerBlockOptin)
    MUSAHOST_ATTRIBUTE(MaxBlocksPerMultiprocessor, p.maxBlocksPerMultiProcessor)
    MUSAHOST_ATTRIBUTE(MaxPersistingL2CacheSize, p.persistingL2CacheMaxSize)
    MUSAHOST_ATTRIBUTE(MaxAccessPolicyWindowSize, p.accessPolicyMaxWindowSize)
    MUSAHOST_ATTRIBUTE(ReservedSharedMemoryPerBlock, p.reservedSharedMemPerBlock)
    MUSAHOST_ATTRIBUTE(MemoryPoolsSupported, p.memoryPoolsSupported)
    MUSAHOST_ATTRIBUTE(ClusterLaunch, p.clusterLaunch)
#undef MUSAHOST_ATTRIBUTE
  }
  return ::musahost::failed(cudaErrorInvalidValue);
}

static inline cudaError_t cudaGetDeviceCount(int* count) {
  if (count) *count = 1;
  return ::musahost::checked(count != nullptr);
}
static inline cudaError_t cudaGetDevice(int* device) {
  if (device) *device = 0;
  return ::musahost::checked(device != nullptr);
}
static inline cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : ::musahost::failed(cudaErrorInvalidDevice);
}
static inline cudaError_t cudaDriverGetVersion(int* version) {
  if (version) *version = CUDA_VERSION;
  return ::musahost::checked(version != nullptr);
}
static inline cudaError_t cudaRuntimeGetVersion(int* version) {
  return cudaDriverGetVersion(version);
}
static inline cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
// A launch has ended when it returns, so there is never anything to wait for.
static inline cudaError_t cudaDeviceSynchronize() { return cudaPeekAtLastError(); }
static inline cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
static inline cudaError_t cudaDeviceReset() { return cudaSuccess; }

enum cudaLimit {
  cudaLimitStackSize = 0,
  cudaLimitPrintfFifoSize = 1,
  cudaLimitMallocHeapSize = 2,
  cudaLimitDevRuntimeSyncDepth = 3,
  cudaLimitDevRuntimePendingLaunchCount = 4,
  cudaLimitMaxL2FetchGranularity = 5,
  cudaLimitPersistingL2CacheSize = 6,
};
static inline cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
static inline cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  if (value) *value = limit == cudaLimitStackSize ? 1024 : size_t(8) << 20;
  return ::musahost::checked(value != nullptr);
}
static inline cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }

enum cudaFuncCache {
  cudaFuncCachePreferNone = 0,
  cudaFuncCachePreferShared = 1,
  cudaFuncCachePreferL1 = 2,
  cudaFuncCachePreferEqual = 3,
};
enum cudaSharedMemConfig {
  cudaSharedMemBankSizeDefault = 0,
  cudaSharedMemBankSizeFourByte = 1,
  cudaSharedMemBankSizeEightByte = 2,
};
static inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
static inline cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
static inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}
static inline cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  if (can) *can = 0;
  return ::musahost::checked(can != nullptr);
}
