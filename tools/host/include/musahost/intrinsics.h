// Floating-point intrinsics: fast functions, and arithmetic with a named rounding.
//
// The fast functions are the C library's, so they are more exact here than on a device.
#pragma once
#include <fenv.h>

#include "functions.h"

// The C library declares some of these names too (and exports them); these definitions replace its.
#define MUSAHOST_FAST(name, expression) \
  MUSAHOST_C_INLINE float name(float x) noexcept { return expression; }
MUSAHOST_FAST(__expf, expf(x))
MUSAHOST_FAST(__exp10f, exp10f(x))
MUSAHOST_FAST(__logf, logf(x))
MUSAHOST_FAST(__log2f, log2f(x))
MUSAHOST_FAST(__log10f, log10f(x))
MUSAHOST_FAST(__sinf, sinf(x))
MUSAHOST_FAST(__cosf, cosf(x))
MUSAHOST_FAST(__tanf, tanf(x))
MUSAHOST_FAST(__tanhf, tanhf(x))
#undef MUSAHOST_FAST
MUSAHOST_C_INLINE float __powf(float x, float y) noexcept { return powf(x, y); }
MUSAHOST_C_INLINE void __sincosf(float x, float* s, float* c) noexcept { sincosf(x, s, c); }
MUSAHOST_C_INLINE float __fdividef(float x, float y) noexcept { return x / y; }
MUSAHOST_INLINE float __saturatef(float x) {
  return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;  // NaN becomes 0
}
MUSAHOST_INLINE float __frsqrt_rn(float x) {
  return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(x)));
}

namespace musahost {

// A value that the compiler cannot fuse into what is done with it: __fmul_rn is CUDA's way to forbid that.
template <class T>
MUSAHOST_INLINE T unfused(T value) {
#if defined(__x86_64__)
  __asm__("" : "+x"(value));
#elif defined(__aarch64__)
  __asm__("" : "+w"(value));
#endif
  return value;
}

// Evaluates `operation` under another rounding direction. Operands pass through volatile, so that the
// compiler cannot compute the result beforehand.
template <class T, class Operation>
__attribute__((noinline)) T rounded(int direction, T a, T b, T c, Operation operation) {
  const int before = fegetround();
  fesetround(direction);
  volatile T x = a, y = b, z = c;
  volatile T result = operation(x, y, z);
  fesetround(before);
  return result;
}

}  // namespace musahost

#define MUSAHOST_ROUNDED(T, name, parameters, a, b, c, expression)                       \
  MUSAHOST_INLINE T name##_rn parameters {                                               \
    const T x = a, y = b, z = c;                                                         \
    return ::musahost::unfused<T>(expression);                                           \
  }                                                                                      \
  MUSAHOST_ROUNDED_TO(T, name##_rd, FE_DOWNWARD, parameters, a, b, c, expression)        \
  MUSAHOST_ROUNDED_TO(T, name##_ru, FE_UPWARD, parameters, a, b, c, expression)          \
  MUSAHOST_ROUNDED_TO(T, name##_rz, FE_TOWARDZERO, parameters, a, b, c, expression)
#define MUSAHOST_ROUNDED_TO(T, name, direction, parameters, a, b, c, expression)         \
  static inline T name parameters {                                                      \
    return ::musahost::rounded<T>(direction, a, b, c,                                    \
                                  [](T x, T y, T z) -> T { return expression; });        \
  }
MUSAHOST_ROUNDED(float, __fadd, (float a, float b), a, b, 0, x + y)
MUSAHOST_ROUNDED(float, __fsub, (float a, float b), a, b, 0, x - y)
MUSAHOST_ROUNDED(float, __fmul, (float a, float b), a, b, 0, x * y)
MUSAHOST_ROUNDED(float, __fdiv, (float a, float b), a, b, 0, x / y)
MUSAHOST_ROUNDED(float, __frcp, (float a), a, 1, 0, y / x)
MUSAHOST_ROUNDED(float, __fsqrt, (float a), a, 0, 0, __builtin_sqrtf(x))
MUSAHOST_ROUNDED(float, __fmaf, (float a, float b, float c), a, b, c, fmaf(x, y, z))
MUSAHOST_ROUNDED(float, __fmaf_ieee, (float a, float b, float c), a, b, c, fmaf(x, y, z))
MUSAHOST_ROUNDED(double, __dadd, (double a, double b), a, b, 0, x + y)
MUSAHOST_ROUNDED(double, __dsub, (double a, double b), a, b, 0, x - y)
MUSAHOST_ROUNDED(double, __dmul, (double a, double b), a, b, 0, x * y)
MUSAHOST_ROUNDED(double, __ddiv, (double a, double b), a, b, 0, x / y)
MUSAHOST_ROUNDED(double, __drcp, (double a), a, 1, 0, y / x)
MUSAHOST_ROUNDED(double, __dsqrt, (double a), a, 0, 0, __builtin_sqrt(x))
MUSAHOST_ROUNDED(double, __fma, (double a, double b, double c), a, b, c, fma(x, y, z))
#undef MUSAHOST_ROUNDED
#undef MUSAHOST_ROUNDED_TO
