// The functions that -fsanitize=thread calls: candidates are linked to these instead of libtsan.
#include <cstring>

#include "accesses.h"
#include "musahost/abi.h"

using musahost::Access;
using musahost::check_access;

#define CALLER (static_cast<const char*>(__builtin_return_address(0)) - 1)
#define CHECK(address, bytes, access) \
  check_access<Access::access>(reinterpret_cast<uintptr_t>(address), bytes, CALLER)

namespace {

// Reads of one volatile after another: a thread that waits for a flag must let its setter run.
constexpr unsigned kPatience = 16;

void note_volatile_read(const void* address) {
  static const void* last = nullptr;
  static unsigned times = 0;
  times = address == last ? times + 1 : 0;
  last = address;
  if (times < kPatience) return;
  times = 0;
  musahost_yield();
}

}  // namespace

MUSAHOST_API void __tsan_init() {}
MUSAHOST_API void __tsan_func_entry(void*) {}
MUSAHOST_API void __tsan_func_exit() {}
MUSAHOST_API void __tsan_vptr_update(void**, void*) {}
MUSAHOST_API void __tsan_vptr_read(void**) {}

#define ACCESSES(n)                                                                              \
  MUSAHOST_API void __tsan_read##n(void* p) { CHECK(p, n, kRead); }                              \
  MUSAHOST_API void __tsan_write##n(void* p) { CHECK(p, n, kWrite); }                            \
  MUSAHOST_API void __tsan_unaligned_read##n(void* p) { CHECK(p, n, kRead); }                    \
  MUSAHOST_API void __tsan_unaligned_write##n(void* p) { CHECK(p, n, kWrite); }                  \
  MUSAHOST_API void __tsan_volatile_read##n(void* p) {                                           \
    note_volatile_read(p);                                                                       \
    CHECK(p, n, kVolatileRead);                                                                  \
  }                                                                                              \
  MUSAHOST_API void __tsan_volatile_write##n(void* p) { CHECK(p, n, kVolatileWrite); }           \
  MUSAHOST_API void __tsan_unaligned_volatile_read##n(void* p) {                                \
    note_volatile_read(p);                                                                       \
    CHECK(p, n, kVolatileRead);                                                                  \
  }                                                                                              \
  MUSAHOST_API void __tsan_unaligned_volatile_write##n(void* p) { CHECK(p, n, kVolatileWrite); } \
  MUSAHOST_API void __tsan_read_write##n(void* p) {                                              \
    CHECK(p, n, kRead);                                                                          \
    CHECK(p, n, kWrite);                                                                         \
  }                                                                                              \
  MUSAHOST_API void __tsan_unaligned_read_write##n(void* p) {                                    \
    CHECK(p, n, kRead);                                                                          \
    CHECK(p, n, kWrite);                                                                         \
  }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

MUSAHOST_API void __tsan_read_range(void* p, size_t bytes) { CHECK(p, bytes, kRead); }
MUSAHOST_API void __tsan_write_range(void* p, size_t bytes) { CHECK(p, bytes, kWrite); }
MUSAHOST_API void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  CHECK(from, bytes, kRead);
  CHECK(to, bytes, kWrite);
  return memcpy(to, from, bytes);
}
MUSAHOST_API void* __tsan_memmove(void* to, const void* from, size_t bytes) {
  CHECK(from, bytes, kRead);
  CHECK(to, bytes, kWrite);
  return memmove(to, from, bytes);
}
MUSAHOST_API void* __tsan_memset(void* to, int value, size_t bytes) {
  CHECK(to, bytes, kWrite);
  return memset(to, value, bytes);
}

#define UPDATE(bits, T, name)                                                        \
  MUSAHOST_API T __tsan_atomic##bits##_##name(volatile T* p, T value, int) {         \
    CHECK(p, sizeof(T), kAtomic);                                                    \
    return __atomic_##name(p, value, __ATOMIC_SEQ_CST);                              \
  }
#define EXCHANGE(bits, T, name, weak)                                                               \
  MUSAHOST_API int __tsan_atomic##bits##_##name(volatile T* p, T* expected, T value, int, int) {    \
    CHECK(p, sizeof(T), kAtomic);                                                                   \
    return __atomic_compare_exchange_n(p, expected, value, weak, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }
#define ATOMICS(bits, T)                                                             \
  MUSAHOST_API T __tsan_atomic##bits##_load(const volatile T* p, int) {              \
    CHECK(p, sizeof(T), kVolatileRead);                                              \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                     \
  }                                                                                  \
  MUSAHOST_API void __tsan_atomic##bits##_store(volatile T* p, T value, int) {       \
    CHECK(p, sizeof(T), kVolatileWrite);                                             \
    __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                    \
  }                                                                                  \
  MUSAHOST_API T __tsan_atomic##bits##_exchange(volatile T* p, T value, int) {       \
    CHECK(p, sizeof(T), kAtomic);                                                    \
    return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);                          \
  }                                                                                  \
  UPDATE(bits, T, fetch_add)                                                         \
  UPDATE(bits, T, fetch_sub)                                                         \
  UPDATE(bits, T, fetch_and)                                                         \
  UPDATE(bits, T, fetch_or)                                                          \
  UPDATE(bits, T, fetch_xor)                                                         \
  UPDATE(bits, T, fetch_nand)                                                        \
  EXCHANGE(bits, T, compare_exchange_strong, false)                                  \
  EXCHANGE(bits, T, compare_exchange_weak, true)                                     \
  MUSAHOST_API T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T expected, T value, int, int) { \
    CHECK(p, sizeof(T), kAtomic);                                                    \
    __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    return expected;                                                                 \
  }
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

MUSAHOST_API void __tsan_atomic_thread_fence(int) { musahost_fence(); }
MUSAHOST_API void __tsan_atomic_signal_fence(int) {}
