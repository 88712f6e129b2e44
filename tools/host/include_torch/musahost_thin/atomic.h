// gpuAtomicAdd and its kin of ATen/cuda/Atomic.cuh, over the device headers' atomics.
#pragma once
#include "cuda.h"
#if defined(MUSAHOST_FULL_TORCH)
#include <musahost/half.h>
#define MUSAHOST_THIN_DEVICE_HALF 1
#endif

#if defined(__CUDACC__)
#define MUSAHOST_DEVICE __device__
#else
#define MUSAHOST_DEVICE
#endif

namespace musahost::thin {
// The device type that stands for a torch element type in atomics.
template <class T>
struct AtomicType {
  using type = T;
};
template <>
struct AtomicType<int64_t> {
  using type = unsigned long long;
};
#if defined(MUSAHOST_THIN_DEVICE_HALF)
template <>
struct AtomicType<c10::Half> {
  using type = __half;
};
template <>
struct AtomicType<c10::BFloat16> {
  using type = __nv_bfloat16;
};
#endif
}  // namespace musahost::thin

template <class T>
MUSAHOST_DEVICE inline T gpuAtomicAdd(T* address, T value) {
  using Raw = typename ::musahost::thin::AtomicType<T>::type;
  if constexpr (std::is_same_v<Raw, T>) {
    return atomicAdd(address, value);
  } else {
    Raw raw;
    memcpy(&raw, &value, sizeof raw);
    raw = atomicAdd(reinterpret_cast<Raw*>(address), raw);
    T before;
    memcpy(&before, &raw, sizeof raw);
    return before;
  }
}
template <class T>
MUSAHOST_DEVICE inline void gpuAtomicAddNoReturn(T* address, T value) { gpuAtomicAdd(address, value); }
template <class T>
MUSAHOST_DEVICE inline T gpuAtomicMax(T* address, T value) { return atomicMax(address, value); }
template <class T>
MUSAHOST_DEVICE inline T gpuAtomicMin(T* address, T value) { return atomicMin(address, value); }
namespace at::native {
template <class T>
MUSAHOST_DEVICE inline void fastAtomicAdd(T* base, size_t index, size_t, T value, bool) {
  gpuAtomicAdd(base + index, value);
}
}  // namespace at::native
