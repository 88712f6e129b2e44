// Attributes and small macros that torch's headers also provide.
#pragma once

// Everything defined in the runtime library must stay visible under -fvisibility=hidden.
#define MUSAHOST_THIN_API __attribute__((visibility("default")))

#if defined(__CUDACC__)
#define MUSAHOST_HD __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#else
#define MUSAHOST_HD
#define C10_DEVICE
#define C10_HOST
#endif

#define C10_HOST_DEVICE MUSAHOST_HD
#define C10_RESTRICT __restrict__
#define C10_ALWAYS_INLINE __attribute__((always_inline)) inline
#define C10_NOINLINE __attribute__((noinline))
#define C10_LIKELY(condition) __builtin_expect(static_cast<bool>(condition), 1)
#define C10_UNLIKELY(condition) __builtin_expect(static_cast<bool>(condition), 0)
#define C10_UNUSED __attribute__((unused))
#define C10_NODISCARD [[nodiscard]]
#define C10_EXPORT MUSAHOST_THIN_API
#define C10_HIDDEN __attribute__((visibility("hidden")))
#define C10_API MUSAHOST_THIN_API
#define TORCH_API MUSAHOST_THIN_API
#define TORCH_CUDA_CU_API MUSAHOST_THIN_API
#define C10_CUDA_API MUSAHOST_THIN_API
#define C10_STRINGIZE_IMPL(x) #x
#define C10_STRINGIZE(x) C10_STRINGIZE_IMPL(x)
#define C10_CONCATENATE_IMPL(a, b) a##b
#define C10_CONCATENATE(a, b) C10_CONCATENATE_IMPL(a, b)
#define C10_WARP_SIZE 32
#define C10_MAX_THREADS_PER_BLOCK(count) (count)
#define C10_MIN_BLOCKS_PER_SM(threads, blocks) (blocks)
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
