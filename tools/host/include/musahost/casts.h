// Conversions between numbers with a named rounding, and reinterpretations of bits.
#pragma once
#include "intrinsics.h"

namespace musahost {

// Clamps a rounded value to the range of I, as the hardware does. NaN becomes 0 where both types have
// 32 bits or fewer, else the top bit alone.
template <class I, class F>
MUSAHOST_INLINE I to_integer(F value) {
  constexpr I lowest = static_cast<I>(-1) < I(0) ? static_cast<I>(I(1) << (sizeof(I) * 8 - 1)) : I(0);
  constexpr I highest = static_cast<I>(~lowest);
  if (value != value) {
    return sizeof(F) == 8 || sizeof(I) == 8 ? static_cast<I>(I(1) << (sizeof(I) * 8 - 1)) : I(0);
  }
  if (value <= static_cast<F>(lowest)) return lowest;
  // static_cast<F>(highest) may round up to a power of two that is out of range itself.
  if (value >= static_cast<F>(highest)) return highest;
  return static_cast<I>(value);
}

template <class To, class From>
inline To rounded_from(int direction, From value) {
  const int before = fegetround();
  fesetround(direction);
  volatile From source = value;
  volatile To result = static_cast<To>(source);
  fesetround(before);
  return result;
}

}  // namespace musahost

#define MUSAHOST_TO_INTEGER(F, from, I, to)                                              \
  MUSAHOST_INLINE I __##from##2##to##_rn(F x) {                                          \
    return ::musahost::to_integer<I>(static_cast<F>(__builtin_nearbyint(x)));            \
  }                                                                                      \
  MUSAHOST_INLINE I __##from##2##to##_rd(F x) {                                          \
    return ::musahost::to_integer<I>(static_cast<F>(__builtin_floor(x)));                \
  }                                                                                      \
  MUSAHOST_INLINE I __##from##2##to##_ru(F x) {                                          \
    return ::musahost::to_integer<I>(static_cast<F>(__builtin_ceil(x)));                 \
  }                                                                                      \
  MUSAHOST_INLINE I __##from##2##to##_rz(F x) {                                          \
    return ::musahost::to_integer<I>(static_cast<F>(__builtin_trunc(x)));                \
  }
#define MUSAHOST_TO_INTEGERS(F, from)                    \
  MUSAHOST_TO_INTEGER(F, from, int, int)                 \
  MUSAHOST_TO_INTEGER(F, from, unsigned, uint)           \
  MUSAHOST_TO_INTEGER(F, from, long long, ll)            \
  MUSAHOST_TO_INTEGER(F, from, unsigned long long, ull)
MUSAHOST_TO_INTEGERS(float, float)
MUSAHOST_TO_INTEGERS(double, double)
#undef MUSAHOST_TO_INTEGERS
#undef MUSAHOST_TO_INTEGER

#define MUSAHOST_TO_FLOAT(I, from, F, to)                                                          \
  MUSAHOST_INLINE F __##from##2##to##_rn(I x) { return static_cast<F>(x); }                        \
  static inline F __##from##2##to##_rd(I x) { return ::musahost::rounded_from<F>(FE_DOWNWARD, x); } \
  static inline F __##from##2##to##_ru(I x) { return ::musahost::rounded_from<F>(FE_UPWARD, x); }   \
  static inline F __##from##2##to##_rz(I x) { return ::musahost::rounded_from<F>(FE_TOWARDZERO, x); }
MUSAHOST_TO_FLOAT(int, int, float, float)
MUSAHOST_TO_FLOAT(unsigned, uint, float, float)
MUSAHOST_TO_FLOAT(long long, ll, float, float)
MUSAHOST_TO_FLOAT(unsigned long long, ull, float, float)
MUSAHOST_TO_FLOAT(long long, ll, double, double)
MUSAHOST_TO_FLOAT(unsigned long long, ull, double, double)
MUSAHOST_TO_FLOAT(double, double, float, float)
#undef MUSAHOST_TO_FLOAT
MUSAHOST_INLINE double __int2double_rn(int x) { return x; }
MUSAHOST_INLINE double __uint2double_rn(unsigned x) { return x; }

MUSAHOST_INLINE int __float_as_int(float x) { return ::musahost::bits<int>(x); }
MUSAHOST_INLINE unsigned __float_as_uint(float x) { return ::musahost::bits<unsigned>(x); }
MUSAHOST_INLINE float __int_as_float(int x) { return ::musahost::bits<float>(x); }
MUSAHOST_INLINE float __uint_as_float(unsigned x) { return ::musahost::bits<float>(x); }
MUSAHOST_INLINE long long __double_as_longlong(double x) { return ::musahost::bits<long long>(x); }
MUSAHOST_INLINE double __longlong_as_double(long long x) { return ::musahost::bits<double>(x); }
MUSAHOST_INLINE int __double2hiint(double x) {
  return static_cast<int>(::musahost::bits<long long>(x) >> 32);
}
MUSAHOST_INLINE int __double2loint(double x) {
  return static_cast<int>(::musahost::bits<long long>(x));
}
MUSAHOST_INLINE double __hiloint2double(int high, int low) {
  return ::musahost::bits<double>(static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 |
                                  static_cast<unsigned>(low));
}
