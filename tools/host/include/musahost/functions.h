// CUDA's mathematical functions beyond the C library's, as overloads where CUDA overloads them.
#pragma once
#include <float.h>
#include <limits.h>
#include <math.h>

#include "vector.h"

// ---- min and max: exactly CUDA's overloads, so that calls which are ambiguous there are so here.
#define MUSAHOST_MIN_MAX(R, A, B)                                                        \
  static inline constexpr R min(A a, B b) {                                              \
    return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(a) : static_cast<R>(b); \
  }                                                                                      \
  static inline constexpr R max(A a, B b) {                                              \
    return static_cast<R>(a) > static_cast<R>(b) ? static_cast<R>(a) : static_cast<R>(b); \
  }
#define MUSAHOST_MIN_MAX_INTEGERS(S, U) \
  MUSAHOST_MIN_MAX(S, S, S)             \
  MUSAHOST_MIN_MAX(U, U, U)             \
  MUSAHOST_MIN_MAX(U, S, U)             \
  MUSAHOST_MIN_MAX(U, U, S)
MUSAHOST_MIN_MAX_INTEGERS(int, unsigned)
MUSAHOST_MIN_MAX_INTEGERS(long, unsigned long)
MUSAHOST_MIN_MAX_INTEGERS(long long, unsigned long long)
#undef MUSAHOST_MIN_MAX_INTEGERS
#undef MUSAHOST_MIN_MAX
#define MUSAHOST_MIN_MAX(R, A, B, min_name, max_name)                      \
  static inline R min(A a, B b) { return __builtin_##min_name(a, b); } \
  static inline R max(A a, B b) { return __builtin_##max_name(a, b); }
MUSAHOST_MIN_MAX(float, float, float, fminf, fmaxf)
MUSAHOST_MIN_MAX(double, double, double, fmin, fmax)
MUSAHOST_MIN_MAX(double, float, double, fmin, fmax)
MUSAHOST_MIN_MAX(double, double, float, fmin, fmax)
#undef MUSAHOST_MIN_MAX
static inline unsigned umin(unsigned a, unsigned b) { return min(a, b); }
static inline unsigned umax(unsigned a, unsigned b) { return max(a, b); }
static inline long long llmin(long long a, long long b) { return min(a, b); }
static inline long long llmax(long long a, long long b) { return max(a, b); }
static inline unsigned long long ullmin(unsigned long long a, unsigned long long b) {
  return min(a, b);
}
static inline unsigned long long ullmax(unsigned long long a, unsigned long long b) {
  return max(a, b);
}

namespace musahost {

// Inverse of erf by M. Giles's rational start ("Approximating the erfinv function", 2010), here only
// its logarithmic shape, then Newton steps on erfc, whose relative error stays small in both tails.
inline double erfc_inverse(double y) {
  if (!(y > 0.0 && y < 2.0)) return y == 0.0 ? HUGE_VAL : y == 2.0 ? -HUGE_VAL : NAN;
  const bool upper = y > 1.0;
  const double p = upper ? 2.0 - y : y;
  // A. Abramowitz and I. Stegun, Handbook of Mathematical Functions, 26.2.22, for the start.
  const double t = sqrt(-2.0 * log(0.5 * p));
  double x = (t - (2.30753 + 0.27061 * t) / (1.0 + t * (0.99229 + t * 0.04481))) / M_SQRT2;
  for (int i = 0; i < 4; ++i) {
    const double error = erfc(x) - p;
    const double step = error / (-2.0 / sqrt(M_PI) * exp(-x * x));
    x -= step / (1.0 + x * step);  // Halley's form
  }
  return upper ? -x : x;
}
inline double erf_inverse(double y) {
  if (fabs(y) < 0.5) {
    double x = y * sqrt(M_PI) / 2.0;
    for (int i = 0; i < 6; ++i) {
      const double step = (erf(x) - y) / (2.0 / sqrt(M_PI) * exp(-x * x));
      x -= step / (1.0 + x * step);
    }
    return x;
  }
  return y < 0.0 ? -erfc_inverse(1.0 + y) : erfc_inverse(1.0 - y);
}
// exp(x*x) * erfc(x), by its continued fraction where erfc is near underflow.
inline double erfc_scaled(double x) {
  if (x < 20.0) return exp(x * x) * erfc(x);
  double tail = x;
  for (int k = 40; k > 0; --k) tail = x + 0.5 * k / tail;
  return 1.0 / (tail * sqrt(M_PI));
}
// sin and cos of pi*x with the whole turns taken out first, exactly.
inline double sine_pi(double x) {
  const double r = x - 2.0 * nearbyint(0.5 * x);
  if (r == 1.0 || r == -1.0) return copysign(0.0, x);
  return fabs(r) <= 0.25 ? sin(M_PI * r) : r > 0 ? cos(M_PI * (0.5 - r)) : -cos(M_PI * (0.5 + r));
}
inline double cosine_pi(double x) {
  const double r = fabs(x - 2.0 * nearbyint(0.5 * x));
  return r == 0.5 ? 0.0 : r < 0.25 ? cos(M_PI * r) : sin(M_PI * (0.5 - r));
}
inline double bessel_i(int order, double x) {
  const double half = 0.5 * fabs(x);
  double term = order == 0 ? 1.0 : half;
  double sum = term;
  for (int k = 1; k < 600 && term > sum * 1e-17; ++k) {
    term *= half / k * (half / (k + order));
    sum += term;
  }
  return order == 1 && x < 0.0 ? -sum : sum;
}
inline double norm_of(int count, const double* values) {
  double largest = 0.0, sum = 0.0;
  for (int i = 0; i < count; ++i) largest = fmax(largest, fabs(values[i]));
  if (largest == 0.0 || isinf(largest)) return largest;
  for (int i = 0; i < count; ++i) sum += values[i] / largest * (values[i] / largest);
  return largest * sqrt(sum);
}

}  // namespace musahost

// ---- one argument: double name(double), float name##f(float) and the float overload of `name`
#define MUSAHOST_UNARY(name, expression)                                          \
  MUSAHOST_C_INLINE double name(double x) noexcept { return expression; }         \
  MUSAHOST_C_INLINE float name##f(float x_) noexcept {                            \
    const double x = x_;                                                          \
    return static_cast<float>(expression);                                        \
  }                                                                               \
  MUSAHOST_INLINE float name(float x) { return name##f(x); }
MUSAHOST_UNARY(rcbrt, 1.0 / cbrt(x))
MUSAHOST_UNARY(sinpi, ::musahost::sine_pi(x))
MUSAHOST_UNARY(cospi, ::musahost::cosine_pi(x))
MUSAHOST_UNARY(normcdf, 0.5 * erfc(-x * M_SQRT1_2))
MUSAHOST_UNARY(normcdfinv, -M_SQRT2 * ::musahost::erfc_inverse(2.0 * x))
MUSAHOST_UNARY(erfinv, ::musahost::erf_inverse(x))
MUSAHOST_UNARY(erfcinv, ::musahost::erfc_inverse(x))
MUSAHOST_UNARY(erfcx, ::musahost::erfc_scaled(x))
MUSAHOST_UNARY(cyl_bessel_i0, ::musahost::bessel_i(0, x))
MUSAHOST_UNARY(cyl_bessel_i1, ::musahost::bessel_i(1, x))
#undef MUSAHOST_UNARY

MUSAHOST_C_INLINE double rsqrt(double x) noexcept { return 1.0 / __builtin_sqrt(x); }
MUSAHOST_C_INLINE float rsqrtf(float x) noexcept { return 1.0f / __builtin_sqrtf(x); }
MUSAHOST_INLINE float rsqrt(float x) { return rsqrtf(x); }
// exp10 and exp10f are the C library's; C++ lacks the float overload.
MUSAHOST_INLINE float exp10(float x) { return exp10f(x); }

MUSAHOST_C_INLINE void sincospi(double x, double* s, double* c) noexcept {
  *s = ::musahost::sine_pi(x);
  *c = ::musahost::cosine_pi(x);
}
MUSAHOST_C_INLINE void sincospif(float x, float* s, float* c) noexcept {
  *s = static_cast<float>(::musahost::sine_pi(x));
  *c = static_cast<float>(::musahost::cosine_pi(x));
}
MUSAHOST_INLINE void sincospi(float x, float* s, float* c) { sincospif(x, s, c); }
MUSAHOST_INLINE void sincos(float x, float* s, float* c) { sincosf(x, s, c); }

MUSAHOST_C_INLINE float fdividef(float x, float y) noexcept { return x / y; }
MUSAHOST_INLINE double fdivide(double x, double y) { return x / y; }
MUSAHOST_INLINE float fdivide(float x, float y) { return x / y; }

// ---- Euclidean norms
MUSAHOST_C_INLINE double norm3d(double a, double b, double c) noexcept {
  const double v[] = {a, b, c};
  return ::musahost::norm_of(3, v);
}
MUSAHOST_C_INLINE double norm4d(double a, double b, double c, double d) noexcept {
  const double v[] = {a, b, c, d};
  return ::musahost::norm_of(4, v);
}
MUSAHOST_C_INLINE float norm3df(float a, float b, float c) noexcept {
  return static_cast<float>(norm3d(a, b, c));
}
MUSAHOST_C_INLINE float norm4df(float a, float b, float c, float d) noexcept {
  return static_cast<float>(norm4d(a, b, c, d));
}
MUSAHOST_C_INLINE double rnorm3d(double a, double b, double c) noexcept {
  return 1.0 / norm3d(a, b, c);
}
MUSAHOST_C_INLINE double rnorm4d(double a, double b, double c, double d) noexcept {
  return 1.0 / norm4d(a, b, c, d);
}
MUSAHOST_C_INLINE float rnorm3df(float a, float b, float c) noexcept {
  return static_cast<float>(rnorm3d(a, b, c));
}
MUSAHOST_C_INLINE float rnorm4df(float a, float b, float c, float d) noexcept {
  return static_cast<float>(rnorm4d(a, b, c, d));
}
MUSAHOST_C_INLINE double rhypot(double x, double y) noexcept { return 1.0 / hypot(x, y); }
MUSAHOST_C_INLINE float rhypotf(float x, float y) noexcept {
  return static_cast<float>(1.0 / hypot(static_cast<double>(x), static_cast<double>(y)));
}
MUSAHOST_INLINE float rhypot(float x, float y) { return rhypotf(x, y); }
MUSAHOST_INLINE double norm(int count, const double* values) {
  return ::musahost::norm_of(count, values);
}
MUSAHOST_INLINE float normf(int count, const float* values) {
  double sum = 0.0;
  for (int i = 0; i < count; ++i) sum += static_cast<double>(values[i]) * values[i];
  return static_cast<float>(sqrt(sum));
}
MUSAHOST_INLINE double rnorm(int count, const double* values) { return 1.0 / norm(count, values); }
MUSAHOST_INLINE float rnormf(int count, const float* values) { return 1.0f / normf(count, values); }
