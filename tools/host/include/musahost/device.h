// Qualifiers and built-in variables of CUDA C++, given the meaning they have on the host target.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"

#define MUSAHOST 1
#define MUSAHOST_INLINE static inline __attribute__((always_inline))
// For what touches the caller's memory: once it is inlined, a report's line is the caller's.
#define MUSAHOST_INLINE_MEMBER inline __attribute__((always_inline))
// C names that newer C libraries also declare: the same linkage and exception promise as theirs.
#define MUSAHOST_C_INLINE extern "C" inline __attribute__((always_inline))

// Set by -fsanitize=thread, which is how the checked mode watches loads and stores.
#if defined(__SANITIZE_THREAD__)
#define MUSAHOST_CHECKED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MUSAHOST_CHECKED 1
#endif
#endif
#ifndef MUSAHOST_CHECKED
#define MUSAHOST_CHECKED 0
#endif
#define MUSAHOST_UNWATCHED __attribute__((no_sanitize("thread")))

#define __global__
#define __device__
#define __host__
#define __constant__
// Host code may give its address to kernels: launch.h knows it by the section.
#define __managed__ __attribute__((section("musahost_managed")))
#define __grid_constant__
#define __tile_global__
// Not always_inline: g++ makes an error of what cannot be inlined, where CUDA takes it as a wish.
#define __forceinline__ inline
// libstdc++ writes __attribute__((__noinline__)), where an empty macro is harmless and any other is not.
#define __noinline__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __device_builtin__
#define __cudart_builtin__
#define CUDARTAPI
#define CUDART_CB
#define CUDART_VERSION 13000
#define CUDA_VERSION 13000

#if !defined(__clang__)
#define __builtin_assume(condition) ((void)0)
#endif
#define __nv_is_extended_device_lambda_closure_type(type) false
#define __nv_is_extended_host_device_lambda_closure_type(type) false

namespace musahost {
template <size_t offset>
struct Coordinates;
}
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  template <size_t offset>
  constexpr dim3(const ::musahost::Coordinates<offset>& v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return uint3{x, y, z}; }
};
typedef struct dim3 dim3;

namespace musahost {

// musahost_current seen from one of its members on, whose coordinates are plain numbers at `offset`.
template <size_t offset>
struct Coordinates {
  char before[offset];
  unsigned x, y, z;
  constexpr operator uint3() const { return uint3{x, y, z}; }
};

}  // namespace musahost

// Real variables, not macros: candidates name their own variables and members `blockDim`. All are the
// runtime's one record under other types. Constant to whoever reads them, as a thread resumes with the
// values that it had.
#define MUSAHOST_STRING_(x) #x
#define MUSAHOST_STRING(x) MUSAHOST_STRING_(x)
#define MUSAHOST_RECORD                                                  \
  __asm__(MUSAHOST_STRING(__USER_LABEL_PREFIX__) "musahost_current") \
      __attribute__((visibility("default"), tls_model("initial-exec")))
extern const __thread uint3 threadIdx MUSAHOST_RECORD;
extern const __thread ::musahost::Coordinates<offsetof(MusahostThread, block_idx)> blockIdx MUSAHOST_RECORD;
extern const __thread ::musahost::Coordinates<offsetof(MusahostThread, block_dim)> blockDim MUSAHOST_RECORD;
extern const __thread ::musahost::Coordinates<offsetof(MusahostThread, grid_dim)> gridDim MUSAHOST_RECORD;
static_assert(offsetof(MusahostThread, thread_idx) == 0);

namespace musahost {
// Taken over from the runtime as kernels start; one value serves all threads.
inline int warp_size = 32;
}  // namespace musahost
// A reference, so that a candidate may shadow it and pass it to templates as an ordinary int.
static const int& warpSize = ::musahost::warp_size;

namespace musahost {

MUSAHOST_INLINE int lane() { return static_cast<int>(musahost_current.lane); }
MUSAHOST_INLINE int lanes() { return static_cast<int>(musahost_current.warp_size); }

// Keeps a parameter out of template argument deduction.
template <class T>
struct exactly {
  using type = T;
};
template <class To, class From>
MUSAHOST_INLINE To bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

}  // namespace musahost
