// Kernels as values of the runtime API: attributes, occupancy, launches by address.
#pragma once
#include "query.h"
#include "streams.h"
#include "vector.h"

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9,
  cudaFuncAttributeClusterDimMustBeSet = 10,
  cudaFuncAttributeRequiredClusterWidth = 11,
  cudaFuncAttributeRequiredClusterHeight = 12,
  cudaFuncAttributeRequiredClusterDepth = 13,
  cudaFuncAttributeNonPortableClusterSizeAllowed = 14,
  cudaFuncAttributeClusterSchedulingPolicyPreference = 15,
};
enum cudaSharedCarveout {
  cudaSharedmemCarveoutDefault = -1,
  cudaSharedmemCarveoutMaxShared = 100,
  cudaSharedmemCarveoutMaxL1 = 0,
};
struct cudaFuncAttributes {
  size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA;
  int maxDynamicSharedSizeBytes, preferredShmemCarveout;
};

template <class T>
cudaError_t cudaFuncSetAttribute(T* function, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  const int error = musahost_set_max_dynamic_shared((const void*)function, value);
  return error ? ::musahost::failed(static_cast<cudaError_t>(error)) : cudaSuccess;
}
template <class T>
cudaError_t cudaFuncSetCacheConfig(T*, cudaFuncCache) {
  return cudaSuccess;
}
template <class T>
cudaError_t cudaFuncSetSharedMemConfig(T*, cudaSharedMemConfig) {
  return cudaSuccess;
}
// What a compiler for a device would know (registers, local memory) is unknown here.
template <class T>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, T*) {
  if (attributes == nullptr) return ::musahost::failed(cudaErrorInvalidValue);
  *attributes = cudaFuncAttributes{};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion = 90;
  attributes->maxDynamicSharedSizeBytes = MUSAHOST_SHARED_PER_BLOCK;
  attributes->preferredShmemCarveout = cudaSharedmemCarveoutDefault;
  return cudaSuccess;
}

namespace musahost {

// Blocks that fit on a multiprocessor by threads, shared memory and block slots (registers unknown).
inline int resident_blocks(int block_size, size_t dynamic_shared) {
  if (block_size <= 0 || block_size > 1024) return 0;
  const size_t by_shared = MUSAHOST_SHARED_PER_MULTIPROCESSOR / (dynamic_shared + 1024);
  const int by_threads = 2048 / ((block_size + 31) / 32 * 32);
  const int fewest = by_threads < 32 ? by_threads : 32;
  return by_shared < static_cast<size_t>(fewest) ? static_cast<int>(by_shared) : fewest;
}

}  // namespace musahost

#define cudaOccupancyDefault 0
#define cudaOccupancyDisableCachingOverride 1

template <class T>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, T, int block_size,
                                                          size_t dynamic_shared) {
  if (blocks) *blocks = ::musahost::resident_blocks(block_size, dynamic_shared);
  return ::musahost::checked(blocks != nullptr);
}
template <class T>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, T function,
                                                                   int block_size,
                                                                   size_t dynamic_shared, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block_size, dynamic_shared);
}
template <class T, class SharedOf>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* min_grid, int* block_size, T,
                                                           SharedOf shared_of, int limit = 0) {
  if (min_grid == nullptr || block_size == nullptr) return ::musahost::failed(cudaErrorInvalidValue);
  int best = 0, most_threads = 0;
  const int largest = limit > 0 && limit < 1024 ? limit : 1024;
  for (int size = largest; size > 0; size -= 32) {
    const int threads = size * ::musahost::resident_blocks(size, shared_of(size));
    if (threads <= most_threads) continue;
    most_threads = threads;
    best = size;
  }
  *block_size = best;
  *min_grid = best ? most_threads / best * MUSAHOST_MULTIPROCESSORS : 0;
  return cudaSuccess;
}
template <class T>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* min_grid, int* block_size, T function,
                                               size_t dynamic_shared = 0, int limit = 0) {
  return cudaOccupancyMaxPotentialBlockSizeVariableSMem(
      min_grid, block_size, function, [dynamic_shared](int) { return dynamic_shared; }, limit);
}

// ---- launches by address; `arguments` points at the values of the kernel's parameters
namespace musahost {

template <class... P, size_t... index>
cudaError_t launch_pointers(const Config& c, const char* source, int line, void (*kernel)(P...),
                            void** arguments, std::index_sequence<index...>) {
  auto call = [kernel, ... values = *static_cast<std::remove_cv_t<std::remove_reference_t<P>>*>(
                           arguments[index])]() mutable { kernel(values...); };
  const void* const pointers[] = {
      nullptr, pointer_of(*static_cast<std::remove_cv_t<std::remove_reference_t<P>>*>(arguments[index]))...};
  submit(c, source, line, "kernel", reinterpret_cast<const void*>(kernel), pointers, 1 + sizeof...(P), call);
  return cudaPeekAtLastError();
}
struct LaunchSite {
  bool cooperative;
  const char* source;
  int line;

  template <class... P>
  cudaError_t operator()(void (*kernel)(P...), dim3 grid, dim3 block, void** arguments,
                         size_t shared_bytes = 0, cudaStream_t = nullptr) const {
    return launch_pointers(Config{grid, block, shared_bytes, cooperative}, source, line, kernel,
                           arguments, std::index_sequence_for<P...>());
  }
  // A kernel behind void* has lost the types of its parameters.
  cudaError_t operator()(const void*, dim3, dim3, void**, size_t = 0, cudaStream_t = nullptr) const {
    fprintf(stderr, "%s:%d: musahost: unsupported construct: launch through a void pointer\n", source,
            line);
    return failed(cudaErrorInvalidDeviceFunction);
  }
};

}  // namespace musahost

// Drops a C cast before the kernel, as in cudaLaunchKernel((void*)kernel, ...), which would hide the
// types of its parameters: MUSAHOST_UNCAST((void*)k<int, 4>) is k<int, 4>, MUSAHOST_UNCAST(k) is k.
#define MUSAHOST_CAST_PROBE(...) ~, 1,
#define MUSAHOST_SECOND_(a, b, ...) b
#define MUSAHOST_SECOND(...) MUSAHOST_SECOND_(__VA_ARGS__)
#define MUSAHOST_DROP(...)
#define MUSAHOST_UNCAST_0(kernel) kernel
#define MUSAHOST_UNCAST_1(kernel) MUSAHOST_DROP kernel
#define MUSAHOST_JOIN_(a, b) a##b
#define MUSAHOST_JOIN(a, b) MUSAHOST_JOIN_(a, b)
#define MUSAHOST_UNCAST(kernel) \
  MUSAHOST_JOIN(MUSAHOST_UNCAST_, MUSAHOST_SECOND(MUSAHOST_CAST_PROBE kernel, 0, 0))(kernel)
#define cudaLaunchKernel(kernel, ...) \
  (::musahost::LaunchSite{false, __FILE__, __LINE__}(MUSAHOST_UNCAST(kernel), __VA_ARGS__))
#define cudaLaunchCooperativeKernel(kernel, ...) \
  (::musahost::LaunchSite{true, __FILE__, __LINE__}(MUSAHOST_UNCAST(kernel), __VA_ARGS__))

enum cudaLaunchAttributeID {
  cudaLaunchAttributeIgnore = 0,
  cudaLaunchAttributeAccessPolicyWindow = 1,
  cudaLaunchAttributeCooperative = 2,
  cudaLaunchAttributeSynchronizationPolicy = 3,
  cudaLaunchAttributeClusterDimension = 4,
  cudaLaunchAttributeProgrammaticStreamSerialization = 6,
  cudaLaunchAttributePriority = 8,
};
union cudaLaunchAttributeValue {
  char pad[64];
  int cooperative;
  int priority;
  int programmaticStreamSerializationAllowed;
  struct {
    unsigned x, y, z;
  } clusterDim;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};
template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...), A&&... arguments) {
  ::musahost::Config c{config->gridDim, config->blockDim, config->dynamicSmemBytes};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == cudaLaunchAttributeCooperative) c.cooperative = attribute.val.cooperative;
    if (attribute.id == cudaLaunchAttributeClusterDimension) {
      const auto& d = attribute.val.clusterDim;
      if (d.x * d.y * d.z > 1) return ::musahost::failed(cudaErrorNotSupported);
    }
  }
  ::musahost::launch_function<P...>(c, "cudaLaunchKernelEx", 0, "kernel", kernel,
                                    static_cast<A&&>(arguments)...);
  return cudaPeekAtLastError();
}
