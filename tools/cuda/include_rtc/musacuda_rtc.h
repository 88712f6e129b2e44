// What device code takes from the standard headers, for NVRTC, which has none of them. Whatever is
// not here ends in an error, and nvcc compiles the source instead.
#pragma once

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
typedef unsigned int uint;

#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295U
#define LONG_MAX 9223372036854775807L
#define LONG_MIN (-LONG_MAX - 1L)
#define LLONG_MAX 9223372036854775807LL
#define LLONG_MIN (-LLONG_MAX - 1LL)
#define INT64_MAX LONG_MAX
#define INT64_MIN LONG_MIN
#define INT32_MAX INT_MAX
#define INT32_MIN INT_MIN
#define UINT32_MAX UINT_MAX
#ifndef INFINITY
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#endif
#ifndef NAN
#define NAN __builtin_bit_cast(float, 0x7fffffff)
#endif
#define HUGE_VALF INFINITY
#define HUGE_VAL double(INFINITY)
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440

namespace std {
using ::int8_t;
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::uint8_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;

using ::abs;
using ::acos;
using ::acosh;
using ::asin;
using ::asinh;
using ::atan;
using ::atan2;
using ::atanh;
using ::cbrt;
using ::ceil;
using ::copysign;
using ::cos;
using ::cosh;
using ::erf;
using ::erfc;
using ::exp;
using ::exp2;
using ::expm1;
using ::fabs;
using ::floor;
using ::fma;
using ::fmax;
using ::fmin;
using ::fmod;
using ::hypot;
using ::isfinite;
using ::isinf;
using ::isnan;
using ::lgamma;
using ::log;
using ::log10;
using ::log1p;
using ::log2;
using ::lrint;
using ::lround;
using ::nearbyint;
using ::pow;
using ::remainder;
using ::rint;
using ::round;
using ::signbit;
using ::sin;
using ::sinh;
using ::sqrt;
using ::tan;
using ::tanh;
using ::tgamma;
using ::trunc;

template <class T>
__host__ __device__ constexpr const T& max(const T& a, const T& b) {
  return a < b ? b : a;
}
template <class T>
__host__ __device__ constexpr const T& min(const T& a, const T& b) {
  return b < a ? b : a;
}

template <bool, class A, class B>
struct conditional {
  typedef A type;
};
template <class A, class B>
struct conditional<false, A, B> {
  typedef B type;
};
template <bool C, class A, class B>
using conditional_t = typename conditional<C, A, B>::type;
template <bool, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
  typedef T type;
};
template <bool C, class T = void>
using enable_if_t = typename enable_if<C, T>::type;
template <class A, class B>
inline constexpr bool is_same_v = false;
template <class A>
inline constexpr bool is_same_v<A, A> = true;
template <class A, class B>
struct is_same {
  static constexpr bool value = is_same_v<A, B>;
};

template <class T>
inline constexpr bool is_integral_v =
    is_same_v<T, bool> || is_same_v<T, char> || is_same_v<T, signed char> ||
    is_same_v<T, unsigned char> || is_same_v<T, short> || is_same_v<T, unsigned short> ||
    is_same_v<T, int> || is_same_v<T, unsigned> || is_same_v<T, long> ||
    is_same_v<T, unsigned long> || is_same_v<T, long long> || is_same_v<T, unsigned long long>;
template <class T>
inline constexpr bool is_floating_point_v = is_same_v<T, float> || is_same_v<T, double>;
template <class T>
inline constexpr bool is_arithmetic_v = is_integral_v<T> || is_floating_point_v<T>;

template <class T>
struct numeric_limits;
template <class T, class Bits>
struct musacuda_integer_limits {
  static constexpr bool is_integer = true;
  static constexpr bool is_signed = T(-1) < T(0);
  static constexpr int digits = 8 * sizeof(T) - is_signed;
  __host__ __device__ static constexpr T max() {
    return T(Bits(-1) >> int(is_signed));
  }
  __host__ __device__ static constexpr T min() { return is_signed ? T(-max() - 1) : T(0); }
  __host__ __device__ static constexpr T lowest() { return min(); }
};
template <>
struct numeric_limits<signed char> : musacuda_integer_limits<signed char, unsigned char> {};
template <>
struct numeric_limits<short> : musacuda_integer_limits<short, unsigned short> {};
template <>
struct numeric_limits<int> : musacuda_integer_limits<int, unsigned> {};
template <>
struct numeric_limits<long> : musacuda_integer_limits<long, unsigned long> {};
template <>
struct numeric_limits<long long> : musacuda_integer_limits<long long, unsigned long long> {};
template <>
struct numeric_limits<unsigned char> : musacuda_integer_limits<unsigned char, unsigned char> {};
template <>
struct numeric_limits<unsigned short> : musacuda_integer_limits<unsigned short, unsigned short> {};
template <>
struct numeric_limits<unsigned> : musacuda_integer_limits<unsigned, unsigned> {};
template <>
struct numeric_limits<unsigned long> : musacuda_integer_limits<unsigned long, unsigned long> {};
template <>
struct numeric_limits<unsigned long long>
    : musacuda_integer_limits<unsigned long long, unsigned long long> {};
template <>
struct numeric_limits<float> {
  static constexpr bool is_integer = false;
  static constexpr bool is_signed = true;
  static constexpr bool has_infinity = true;
  static constexpr int digits = 24;
  __host__ __device__ static constexpr float max() { return FLT_MAX; }
  __host__ __device__ static constexpr float min() { return FLT_MIN; }
  __host__ __device__ static constexpr float lowest() { return -FLT_MAX; }
  __host__ __device__ static constexpr float epsilon() { return FLT_EPSILON; }
  __host__ __device__ static constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000); }
  __host__ __device__ static constexpr float quiet_NaN() { return __builtin_bit_cast(float, 0x7fc00000); }
};
template <>
struct numeric_limits<double> {
  static constexpr bool is_integer = false;
  static constexpr bool is_signed = true;
  static constexpr bool has_infinity = true;
  static constexpr int digits = 53;
  __host__ __device__ static constexpr double max() { return DBL_MAX; }
  __host__ __device__ static constexpr double min() { return DBL_MIN; }
  __host__ __device__ static constexpr double lowest() { return -DBL_MAX; }
  __host__ __device__ static constexpr double epsilon() { return DBL_EPSILON; }
  __host__ __device__ static constexpr double infinity() { return __builtin_bit_cast(double, 0x7ff0000000000000); }
  __host__ __device__ static constexpr double quiet_NaN() { return __builtin_bit_cast(double, 0x7ff8000000000000); }
};
}  // namespace std
