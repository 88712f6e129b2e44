// CUDA's C interface to complex numbers.
#pragma once
#include "musahost/cuda.h"

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

#define MUSAHOST_COMPLEX(T, R, f, hypotenuse)                                                        \
  static inline R cuCreal##f(T a) { return a.x; }                                                    \
  static inline R cuCimag##f(T a) { return a.y; }                                                    \
  static inline T cuConj##f(T a) { return T{a.x, -a.y}; }                                            \
  static inline T cuCadd##f(T a, T b) { return T{a.x + b.x, a.y + b.y}; }                            \
  static inline T cuCsub##f(T a, T b) { return T{a.x - b.x, a.y - b.y}; }                            \
  static inline T cuCmul##f(T a, T b) { return T{a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }    \
  static inline T cuCfma##f(T a, T b, T c) { return cuCadd##f(cuCmul##f(a, b), c); }                 \
  static inline R cuCabs##f(T a) { return hypotenuse(a.x, a.y); }                                    \
  /* Scaled, so that the squares of the divisor stay in range. */                                    \
  static inline T cuCdiv##f(T a, T b) {                                                              \
    const R scale = R(1) / (fabs(b.x) + fabs(b.y));                                                  \
    const T p{a.x * scale, a.y * scale}, q{b.x * scale, b.y * scale};                                \
    const R inverse = R(1) / (q.x * q.x + q.y * q.y);                                                \
    return T{(p.x * q.x + p.y * q.y) * inverse, (p.y * q.x - p.x * q.y) * inverse};                  \
  }
MUSAHOST_COMPLEX(cuFloatComplex, float, f, hypotf)
MUSAHOST_COMPLEX(cuDoubleComplex, double, , hypot)
#undef MUSAHOST_COMPLEX

static inline cuFloatComplex make_cuFloatComplex(float real, float imaginary) {
  return cuFloatComplex{real, imaginary};
}
static inline cuDoubleComplex make_cuDoubleComplex(double real, double imaginary) {
  return cuDoubleComplex{real, imaginary};
}
static inline cuComplex make_cuComplex(float real, float imaginary) {
  return cuComplex{real, imaginary};
}
static inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex a) {
  return cuDoubleComplex{a.x, a.y};
}
static inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex a) {
  return cuFloatComplex{static_cast<float>(a.x), static_cast<float>(a.y)};
}
