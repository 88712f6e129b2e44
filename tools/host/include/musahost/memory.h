// Loads and stores with cache hints, and questions about address spaces.
#pragma once
#include "vector.h"

namespace musahost {

// Types that CUDA's hinted loads and stores take (half and bfloat16 add themselves).
template <class T>
struct Cacheable {
  static constexpr bool value = false;
};
template <class T>
concept cacheable = Cacheable<T>::value;

}  // namespace musahost

#define MUSAHOST_CACHEABLE(T)           \
  template <>                           \
  struct musahost::Cacheable<T> {       \
    static constexpr bool value = true; \
  };
MUSAHOST_CACHEABLE(char)
MUSAHOST_CACHEABLE(signed char)
MUSAHOST_CACHEABLE(short)
MUSAHOST_CACHEABLE(int)
MUSAHOST_CACHEABLE(long)
MUSAHOST_CACHEABLE(long long)
MUSAHOST_CACHEABLE(unsigned char)
MUSAHOST_CACHEABLE(unsigned short)
MUSAHOST_CACHEABLE(unsigned)
MUSAHOST_CACHEABLE(unsigned long)
MUSAHOST_CACHEABLE(unsigned long long)
MUSAHOST_CACHEABLE(float)
MUSAHOST_CACHEABLE(double)
MUSAHOST_CACHEABLE(char2)
MUSAHOST_CACHEABLE(char4)
MUSAHOST_CACHEABLE(short2)
MUSAHOST_CACHEABLE(short4)
MUSAHOST_CACHEABLE(int2)
MUSAHOST_CACHEABLE(int4)
MUSAHOST_CACHEABLE(longlong2)
MUSAHOST_CACHEABLE(uchar2)
MUSAHOST_CACHEABLE(uchar4)
MUSAHOST_CACHEABLE(ushort2)
MUSAHOST_CACHEABLE(ushort4)
MUSAHOST_CACHEABLE(uint2)
MUSAHOST_CACHEABLE(uint4)
MUSAHOST_CACHEABLE(ulonglong2)
MUSAHOST_CACHEABLE(float2)
MUSAHOST_CACHEABLE(float4)
MUSAHOST_CACHEABLE(double2)

#define MUSAHOST_LOAD(name)                   \
  template <::musahost::cacheable T>          \
  MUSAHOST_INLINE T name(const T* address) {  \
    return *address;                          \
  }
MUSAHOST_LOAD(__ldg)
MUSAHOST_LOAD(__ldca)
MUSAHOST_LOAD(__ldcg)
MUSAHOST_LOAD(__ldcs)
MUSAHOST_LOAD(__ldcv)
MUSAHOST_LOAD(__ldlu)
#undef MUSAHOST_LOAD

#define MUSAHOST_STORE(name)                                                          \
  template <::musahost::cacheable T>                                                  \
  MUSAHOST_INLINE void name(T* address, typename ::musahost::exactly<T>::type value) { \
    *address = value;                                                                 \
  }
MUSAHOST_STORE(__stcg)
MUSAHOST_STORE(__stcs)
MUSAHOST_STORE(__stwb)
MUSAHOST_STORE(__stwt)
#undef MUSAHOST_STORE

MUSAHOST_INLINE bool musahost_in_dynamic_shared(const void* address) {
  const char* const first = static_cast<const char*>(musahost_current.dynamic_shared);
  const char* const at = static_cast<const char*>(address);
  return first != nullptr && at >= first && at < first + musahost_current.dynamic_bytes;
}
// Static shared memory is not told apart from global memory here.
MUSAHOST_INLINE unsigned __isShared(const void* address) {
  return musahost_in_dynamic_shared(address);
}
MUSAHOST_INLINE unsigned __isGlobal(const void* address) {
  return !musahost_in_dynamic_shared(address);
}
MUSAHOST_INLINE unsigned __isConstant(const void*) { return 0; }
MUSAHOST_INLINE unsigned __isLocal(const void*) { return 0; }
MUSAHOST_INLINE unsigned __isGridConstant(const void*) { return 0; }

// One address space: an address is its own offset.
MUSAHOST_INLINE size_t __cvta_generic_to_shared(const void* p) { return reinterpret_cast<size_t>(p); }
MUSAHOST_INLINE size_t __cvta_generic_to_global(const void* p) { return reinterpret_cast<size_t>(p); }
MUSAHOST_INLINE size_t __cvta_generic_to_local(const void* p) { return reinterpret_cast<size_t>(p); }
MUSAHOST_INLINE size_t __cvta_generic_to_constant(const void* p) { return reinterpret_cast<size_t>(p); }
MUSAHOST_INLINE void* __cvta_shared_to_generic(size_t p) { return reinterpret_cast<void*>(p); }
MUSAHOST_INLINE void* __cvta_global_to_generic(size_t p) { return reinterpret_cast<void*>(p); }
MUSAHOST_INLINE void* __cvta_local_to_generic(size_t p) { return reinterpret_cast<void*>(p); }
MUSAHOST_INLINE void* __cvta_constant_to_generic(size_t p) { return reinterpret_cast<void*>(p); }
