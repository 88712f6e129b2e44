// Built-in vector types with CUDA's sizes and alignments, and their make_ functions.
#pragma once
#include "device.h"

#define MUSAHOST_VECTOR(T, name, align2, align4)                                      \
  struct name##1 {                                                                    \
    T x;                                                                              \
  };                                                                                  \
  struct alignas(align2) name##2 {                                                    \
    T x, y;                                                                           \
  };                                                                                  \
  struct name##3 {                                                                    \
    T x, y, z;                                                                        \
  };                                                                                  \
  struct alignas(align4) name##4 {                                                    \
    T x, y, z, w;                                                                     \
  };                                                                                  \
  static inline constexpr name##1 make_##name##1(T x) { return name##1{x}; }          \
  static inline constexpr name##2 make_##name##2(T x, T y) { return name##2{x, y}; }  \
  static inline constexpr name##3 make_##name##3(T x, T y, T z) {                     \
    return name##3{x, y, z};                                                          \
  }                                                                                   \
  static inline constexpr name##4 make_##name##4(T x, T y, T z, T w) {                \
    return name##4{x, y, z, w};                                                       \
  }

MUSAHOST_VECTOR(signed char, char, 2, 4)
MUSAHOST_VECTOR(unsigned char, uchar, 2, 4)
MUSAHOST_VECTOR(short, short, 4, 8)
MUSAHOST_VECTOR(unsigned short, ushort, 4, 8)
MUSAHOST_VECTOR(int, int, 8, 16)
MUSAHOST_VECTOR(long, long, 16, 16)
MUSAHOST_VECTOR(unsigned long, ulong, 16, 16)
MUSAHOST_VECTOR(long long, longlong, 16, 16)
MUSAHOST_VECTOR(unsigned long long, ulonglong, 16, 16)
MUSAHOST_VECTOR(float, float, 8, 16)
MUSAHOST_VECTOR(double, double, 16, 16)
#undef MUSAHOST_VECTOR

// uint3 comes with the runtime's interface, which carries grid and block indices in it.
struct uint1 {
  unsigned x;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
static inline constexpr uint1 make_uint1(unsigned x) { return uint1{x}; }
static inline constexpr uint2 make_uint2(unsigned x, unsigned y) { return uint2{x, y}; }
static inline constexpr uint3 make_uint3(unsigned x, unsigned y, unsigned z) {
  return uint3{x, y, z};
}
static inline constexpr uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return uint4{x, y, z, w};
}
