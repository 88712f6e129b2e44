// c10::Half and c10::BFloat16: storage of 16 bits, arithmetic in float with one rounding.
#pragma once
#include "macros.h"
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define MUSAHOST_THIN_DEVICE_HALF 1
#elif !defined(MUSAHOST_THIN_LIBRARY) && __has_include(<musahost/half.h>)
#include <musahost/half.h>
#define MUSAHOST_THIN_DEVICE_HALF 1
#endif

namespace musahost::thin {

MUSAHOST_HD inline uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

MUSAHOST_HD inline float bits_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

MUSAHOST_HD inline float half_to_float(uint16_t half) {
#if defined(__F16C__) && !defined(__CUDACC__)
  typedef short Eight __attribute__((vector_size(16)));
  const Eight packed = {static_cast<short>(half)};
  return __builtin_ia32_vcvtph2ps(packed)[0];
#else
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) return bits_float(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude >= 0x0400u) return bits_float(sign | ((magnitude << 13) + 0x38000000u));
  const float subnormal = static_cast<float>(magnitude) * 5.9604644775390625e-8f;  // 2^-24
  return bits_float(sign | float_bits(subnormal));
#endif
}

// Round to nearest even, by letting the float adder round at the half's last place.
MUSAHOST_HD inline uint16_t float_to_half(float value) {
#if defined(__F16C__) && !defined(__CUDACC__)
  typedef float Four __attribute__((vector_size(16)));
  const Four packed = {value};
  return static_cast<uint16_t>(__builtin_ia32_vcvtps2ph(packed, 0)[0]);
#else
  const uint32_t bits = float_bits(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x47800000u) return sign | 0x7c00u;  // 65536 and above, infinity
  if (magnitude < 0x38800000u) {                        // below 2^-14: subnormal
    const float shifted = bits_float(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(float_bits(shifted) - 0x3f000000u);
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return sign | static_cast<uint16_t>((magnitude - 0x38000000u + 0xfffu + odd) >> 13);
#endif
}

MUSAHOST_HD inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = float_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0u;
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace musahost::thin

namespace c10 {

struct alignas(2) Half {
  struct from_bits_t {};
  static constexpr MUSAHOST_HD from_bits_t from_bits() { return {}; }

  unsigned short x;

  Half() = default;
  constexpr MUSAHOST_HD Half(unsigned short bits, from_bits_t) : x(bits) {}
  MUSAHOST_HD Half(float value) : x(musahost::thin::float_to_half(value)) {}
  MUSAHOST_HD operator float() const { return musahost::thin::half_to_float(x); }
#if defined(MUSAHOST_THIN_DEVICE_HALF)
  MUSAHOST_HD Half(const __half& value) { memcpy(&x, &value, sizeof x); }
  MUSAHOST_HD operator __half() const {
    __half value;
    memcpy(&value, &x, sizeof x);
    return value;
  }
#endif
};

struct alignas(2) BFloat16 {
  struct from_bits_t {};
  static constexpr MUSAHOST_HD from_bits_t from_bits() { return {}; }

  unsigned short x;

  BFloat16() = default;
  constexpr MUSAHOST_HD BFloat16(unsigned short bits, from_bits_t) : x(bits) {}
  MUSAHOST_HD BFloat16(float value) : x(musahost::thin::float_to_bfloat16(value)) {}
  MUSAHOST_HD operator float() const {
    return musahost::thin::bits_float(static_cast<uint32_t>(x) << 16);
  }
#if defined(MUSAHOST_THIN_DEVICE_HALF)
  MUSAHOST_HD BFloat16(const __nv_bfloat16& value) { memcpy(&x, &value, sizeof x); }
  MUSAHOST_HD explicit operator __nv_bfloat16() const {
    __nv_bfloat16 value;
    memcpy(&value, &x, sizeof x);
    return value;
  }
#endif
};

// Mixed forms are spelled out: through operator float alone they would compete with __half's own.
#define MUSAHOST_THIN_ARITHMETIC(T, op)                                                         \
  MUSAHOST_HD inline T operator op(const T& a, const T& b) {                                    \
    return T(static_cast<float>(a) op static_cast<float>(b));                                   \
  }                                                                                             \
  MUSAHOST_HD inline float operator op(const T& a, float b) { return static_cast<float>(a) op b; } \
  MUSAHOST_HD inline float operator op(float a, const T& b) { return a op static_cast<float>(b); } \
  MUSAHOST_HD inline double operator op(const T& a, double b) {                                 \
    return static_cast<double>(static_cast<float>(a)) op b;                                     \
  }                                                                                             \
  MUSAHOST_HD inline double operator op(double a, const T& b) {                                 \
    return a op static_cast<double>(static_cast<float>(b));                                     \
  }                                                                                             \
  MUSAHOST_HD inline T operator op(const T& a, int b) { return a op T(static_cast<float>(b)); } \
  MUSAHOST_HD inline T operator op(int a, const T& b) { return T(static_cast<float>(a)) op b; } \
  MUSAHOST_HD inline T operator op(const T& a, int64_t b) { return a op T(static_cast<float>(b)); } \
  MUSAHOST_HD inline T operator op(int64_t a, const T& b) { return T(static_cast<float>(a)) op b; } \
  MUSAHOST_HD inline T& operator op##=(T& a, const T& b) { return a = a op b; }                 \
  MUSAHOST_HD inline float& operator op##=(float& a, const T& b) {                              \
    return a = a op static_cast<float>(b);                                                      \
  }

#define MUSAHOST_THIN_COMPARE(T, op)                                                            \
  MUSAHOST_HD inline bool operator op(const T& a, const T& b) {                                 \
    return static_cast<float>(a) op static_cast<float>(b);                                      \
  }                                                                                             \
  template <class U, class = std::enable_if_t<std::is_arithmetic_v<U>>>                         \
  MUSAHOST_HD inline bool operator op(const T& a, U b) {                                        \
    return static_cast<float>(a) op b;                                                          \
  }                                                                                             \
  template <class U, class = std::enable_if_t<std::is_arithmetic_v<U>>>                         \
  MUSAHOST_HD inline bool operator op(U a, const T& b) {                                        \
    return a op static_cast<float>(b);                                                          \
  }

#define MUSAHOST_THIN_OPERATORS(T)                                                              \
  MUSAHOST_THIN_ARITHMETIC(T, +)                                                                \
  MUSAHOST_THIN_ARITHMETIC(T, -)                                                                \
  MUSAHOST_THIN_ARITHMETIC(T, *)                                                                \
  MUSAHOST_THIN_ARITHMETIC(T, /)                                                                \
  MUSAHOST_THIN_COMPARE(T, ==)                                                                  \
  MUSAHOST_THIN_COMPARE(T, !=)                                                                  \
  MUSAHOST_THIN_COMPARE(T, <)                                                                   \
  MUSAHOST_THIN_COMPARE(T, <=)                                                                  \
  MUSAHOST_THIN_COMPARE(T, >)                                                                   \
  MUSAHOST_THIN_COMPARE(T, >=)                                                                  \
  MUSAHOST_HD inline T operator-(const T& a) { return T(-static_cast<float>(a)); }

MUSAHOST_THIN_OPERATORS(Half)
MUSAHOST_THIN_OPERATORS(BFloat16)
#undef MUSAHOST_THIN_OPERATORS
#undef MUSAHOST_THIN_COMPARE
#undef MUSAHOST_THIN_ARITHMETIC

// Storage only: what a kernel does with 8-bit floats goes through the device headers.
struct alignas(1) Float8_e4m3fn {
  uint8_t x;
};
struct alignas(1) Float8_e5m2 {
  uint8_t x;
};

}  // namespace c10

namespace std {

template <>
class numeric_limits<c10::Half> {
 public:
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true, is_iec559 = true, is_bounded = true;
  static constexpr int digits = 11, digits10 = 3, max_digits10 = 5, radix = 2;
  static constexpr int min_exponent = -13, max_exponent = 16;
  static constexpr MUSAHOST_HD c10::Half bits(unsigned short value) {
    return c10::Half(value, c10::Half::from_bits());
  }
  static constexpr MUSAHOST_HD c10::Half min() { return bits(0x0400); }
  static constexpr MUSAHOST_HD c10::Half lowest() { return bits(0xfbff); }
  static constexpr MUSAHOST_HD c10::Half max() { return bits(0x7bff); }
  static constexpr MUSAHOST_HD c10::Half epsilon() { return bits(0x1400); }
  static constexpr MUSAHOST_HD c10::Half round_error() { return bits(0x3800); }
  static constexpr MUSAHOST_HD c10::Half infinity() { return bits(0x7c00); }
  static constexpr MUSAHOST_HD c10::Half quiet_NaN() { return bits(0x7e00); }
  static constexpr MUSAHOST_HD c10::Half signaling_NaN() { return bits(0x7d00); }
  static constexpr MUSAHOST_HD c10::Half denorm_min() { return bits(0x0001); }
};

template <>
class numeric_limits<c10::BFloat16> {
 public:
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true, is_iec559 = false, is_bounded = true;
  static constexpr int digits = 8, digits10 = 2, max_digits10 = 4, radix = 2;
  static constexpr int min_exponent = -125, max_exponent = 128;
  static constexpr MUSAHOST_HD c10::BFloat16 bits(unsigned short value) {
    return c10::BFloat16(value, c10::BFloat16::from_bits());
  }
  static constexpr MUSAHOST_HD c10::BFloat16 min() { return bits(0x0080); }
  static constexpr MUSAHOST_HD c10::BFloat16 lowest() { return bits(0xff7f); }
  static constexpr MUSAHOST_HD c10::BFloat16 max() { return bits(0x7f7f); }
  static constexpr MUSAHOST_HD c10::BFloat16 epsilon() { return bits(0x3c00); }
  static constexpr MUSAHOST_HD c10::BFloat16 round_error() { return bits(0x3f00); }
  static constexpr MUSAHOST_HD c10::BFloat16 infinity() { return bits(0x7f80); }
  static constexpr MUSAHOST_HD c10::BFloat16 quiet_NaN() { return bits(0x7fc0); }
  static constexpr MUSAHOST_HD c10::BFloat16 signaling_NaN() { return bits(0x7f81); }
  static constexpr MUSAHOST_HD c10::BFloat16 denorm_min() { return bits(0x0001); }
};

}  // namespace std
