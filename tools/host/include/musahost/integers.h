// Integer intrinsics: bits, wide products, dot products, and bytes or halves packed in a word.
#pragma once
#include "device.h"

MUSAHOST_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
MUSAHOST_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
MUSAHOST_INLINE int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
MUSAHOST_INLINE int __clzll(long long x) {
  return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64;
}
MUSAHOST_INLINE int __ffs(int x) { return __builtin_ffs(x); }
MUSAHOST_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
static inline unsigned long long __brevll(unsigned long long x) {
  return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 |
         __brev(static_cast<unsigned>(x >> 32));
}
// The position of the offset-th set bit from `base`, upwards or (offset < 0) downwards; ~0 if none.
static inline unsigned __fns(unsigned mask, unsigned base, int offset) {
  if (offset == 0) return (mask >> base & 1) ? base : ~0u;
  const int step = offset > 0 ? 1 : -1;
  int left = offset > 0 ? offset : -offset;
  for (int i = static_cast<int>(base); i >= 0 && i < 32; i += step) {
    if ((mask >> i & 1) && --left == 0) return static_cast<unsigned>(i);
  }
  return ~0u;
}

static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const unsigned long long both = static_cast<unsigned long long>(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned pick = selector >> (4 * i);
    unsigned byte = static_cast<unsigned>(both >> (8 * (pick & 7))) & 0xff;
    if (pick & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}
MUSAHOST_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  const unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
  return static_cast<unsigned>(both << (shift & 31) >> 32);
}
MUSAHOST_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  const unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
  return static_cast<unsigned>(both >> (shift & 31));
}
MUSAHOST_INLINE unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
  return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
MUSAHOST_INLINE unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
  return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

MUSAHOST_INLINE int __mulhi(int a, int b) {
  return static_cast<int>(static_cast<long long>(a) * b >> 32);
}
MUSAHOST_INLINE unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
MUSAHOST_INLINE long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
MUSAHOST_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
MUSAHOST_INLINE int __mul24(int a, int b) {
  const auto low24 = [](int v) { return static_cast<int>(static_cast<unsigned>(v) << 8) >> 8; };
  return static_cast<int>(static_cast<unsigned>(low24(a)) * static_cast<unsigned>(low24(b)));
}
MUSAHOST_INLINE unsigned __umul24(unsigned a, unsigned b) {
  return (a & 0xffffffu) * (b & 0xffffffu);
}
MUSAHOST_INLINE int __rhadd(int a, int b) {
  return static_cast<int>((static_cast<long long>(a) + b + 1) >> 1);
}
MUSAHOST_INLINE int __hadd(int a, int b) {
  return static_cast<int>((static_cast<long long>(a) + b) >> 1);
}
MUSAHOST_INLINE unsigned __urhadd(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) + b + 1) >> 1);
}
MUSAHOST_INLINE unsigned __uhadd(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) + b) >> 1);
}
MUSAHOST_INLINE unsigned __sad(int a, int b, unsigned c) {
  const long long d = static_cast<long long>(a) - b;
  return c + static_cast<unsigned>(d < 0 ? -d : d);
}
MUSAHOST_INLINE unsigned __usad(unsigned a, unsigned b, unsigned c) {
  return c + (a > b ? a - b : b - a);
}

namespace musahost {

// Lane i of a word of 32 bits split into lanes of type T.
template <class T>
MUSAHOST_INLINE T packed(unsigned word, int i) {
  return static_cast<T>(word >> (i * 8 * sizeof(T)));
}
template <class T, class Operation>
MUSAHOST_INLINE unsigned per_lane(unsigned a, unsigned b, Operation operation) {
  constexpr unsigned ones = sizeof(T) == 1 ? 0xffu : 0xffffu;
  unsigned result = 0;
  for (int i = 0; i < static_cast<int>(4 / sizeof(T)); ++i) {
    const long value = operation(static_cast<long>(packed<T>(a, i)), static_cast<long>(packed<T>(b, i)));
    result |= (static_cast<unsigned>(value) & ones) << (i * 8 * sizeof(T));
  }
  return result;
}
template <class T>
MUSAHOST_INLINE long saturated(long value) {
  constexpr long most = static_cast<T>(-1) < T(0) ? (1l << (sizeof(T) * 8 - 1)) - 1 : static_cast<T>(-1);
  constexpr long least = static_cast<T>(-1) < T(0) ? -most - 1 : 0;
  return value > most ? most : value < least ? least : value;
}
template <class T>
MUSAHOST_INLINE unsigned lane_sum(unsigned word) {
  unsigned sum = 0;
  for (int i = 0; i < static_cast<int>(4 / sizeof(T)); ++i) sum += packed<T>(word, i);
  return sum;
}
template <class A, class B>
MUSAHOST_INLINE int dot4(unsigned a, unsigned b, int c) {
  for (int i = 0; i < 4; ++i) c += static_cast<int>(packed<A>(a, i)) * static_cast<int>(packed<B>(b, i));
  return c;
}
template <class A, class B>
MUSAHOST_INLINE int dot2(unsigned a, unsigned b, int c, int offset) {
  for (int i = 0; i < 2; ++i) {
    c += static_cast<int>(packed<A>(a, i)) * static_cast<int>(packed<B>(b, i + offset));
  }
  return c;
}

}  // namespace musahost

MUSAHOST_INLINE int __dp4a(int a, int b, int c) { return ::musahost::dot4<int8_t, int8_t>(a, b, c); }
MUSAHOST_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  return ::musahost::dot4<uint8_t, uint8_t>(a, b, c);
}
MUSAHOST_INLINE int __dp2a_lo(int a, int b, int c) {
  return ::musahost::dot2<int16_t, int8_t>(a, b, c, 0);
}
MUSAHOST_INLINE unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) {
  return ::musahost::dot2<uint16_t, uint8_t>(a, b, c, 0);
}
MUSAHOST_INLINE int __dp2a_hi(int a, int b, int c) {
  return ::musahost::dot2<int16_t, int8_t>(a, b, c, 2);
}
MUSAHOST_INLINE unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c) {
  return ::musahost::dot2<uint16_t, uint8_t>(a, b, c, 2);
}

// ---- packed arithmetic: s is signed, u unsigned; the suffix 2 or 4 counts the lanes of a word
#define MUSAHOST_PACKED(S, U, suffix)                                                           \
  MUSAHOST_PACKED_BINARY(__vadd##suffix, U, a + b)                                              \
  MUSAHOST_PACKED_BINARY(__vsub##suffix, U, a - b)                                              \
  MUSAHOST_PACKED_BINARY(__vaddss##suffix, S, ::musahost::saturated<S>(a + b))                  \
  MUSAHOST_PACKED_BINARY(__vaddus##suffix, U, ::musahost::saturated<U>(a + b))                  \
  MUSAHOST_PACKED_BINARY(__vsubss##suffix, S, ::musahost::saturated<S>(a - b))                  \
  MUSAHOST_PACKED_BINARY(__vsubus##suffix, U, ::musahost::saturated<U>(a - b))                  \
  MUSAHOST_PACKED_BINARY(__vavgs##suffix, S, (a + b + (a + b >= 0)) >> 1)                       \
  MUSAHOST_PACKED_BINARY(__vavgu##suffix, U, (a + b + 1) >> 1)                                  \
  MUSAHOST_PACKED_BINARY(__vhaddu##suffix, U, (a + b) >> 1)                                     \
  MUSAHOST_PACKED_BINARY(__vmaxs##suffix, S, a > b ? a : b)                                     \
  MUSAHOST_PACKED_BINARY(__vmaxu##suffix, U, a > b ? a : b)                                     \
  MUSAHOST_PACKED_BINARY(__vmins##suffix, S, a < b ? a : b)                                     \
  MUSAHOST_PACKED_BINARY(__vminu##suffix, U, a < b ? a : b)                                     \
  MUSAHOST_PACKED_BINARY(__vabsdiffs##suffix, S, a > b ? a - b : b - a)                         \
  MUSAHOST_PACKED_BINARY(__vabsdiffu##suffix, U, a > b ? a - b : b - a)                         \
  MUSAHOST_PACKED_COMPARE(eq##suffix, U, a == b)                                                \
  MUSAHOST_PACKED_COMPARE(ne##suffix, U, a != b)                                                \
  MUSAHOST_PACKED_COMPARE(ges##suffix, S, a >= b)                                               \
  MUSAHOST_PACKED_COMPARE(geu##suffix, U, a >= b)                                               \
  MUSAHOST_PACKED_COMPARE(gts##suffix, S, a > b)                                                \
  MUSAHOST_PACKED_COMPARE(gtu##suffix, U, a > b)                                                \
  MUSAHOST_PACKED_COMPARE(les##suffix, S, a <= b)                                               \
  MUSAHOST_PACKED_COMPARE(leu##suffix, U, a <= b)                                               \
  MUSAHOST_PACKED_COMPARE(lts##suffix, S, a < b)                                                \
  MUSAHOST_PACKED_COMPARE(ltu##suffix, U, a < b)                                                \
  MUSAHOST_INLINE unsigned __vabs##suffix(unsigned a) {                                         \
    return ::musahost::per_lane<S>(a, 0, [](long x, long) { return x < 0 ? -x : x; });          \
  }                                                                                             \
  MUSAHOST_INLINE unsigned __vneg##suffix(unsigned a) {                                         \
    return ::musahost::per_lane<S>(a, 0, [](long x, long) { return -x; });                      \
  }                                                                                             \
  MUSAHOST_INLINE unsigned __vsads##suffix(unsigned x, unsigned y) {                            \
    return ::musahost::lane_sum<U>(__vabsdiffs##suffix(x, y));                                  \
  }                                                                                             \
  MUSAHOST_INLINE unsigned __vsadu##suffix(unsigned x, unsigned y) {                            \
    return ::musahost::lane_sum<U>(__vabsdiffu##suffix(x, y));                                  \
  }
#define MUSAHOST_PACKED_BINARY(name, T, expression)                                             \
  MUSAHOST_INLINE unsigned name(unsigned x, unsigned y) {                                       \
    return ::musahost::per_lane<T>(x, y, [](long a, long b) -> long { return expression; });    \
  }
#define MUSAHOST_PACKED_COMPARE(name, T, expression)                                            \
  MUSAHOST_PACKED_BINARY(__vcmp##name, T, (expression) ? -1 : 0)                                \
  MUSAHOST_PACKED_BINARY(__vset##name, T, (expression) ? 1 : 0)
MUSAHOST_PACKED(int8_t, uint8_t, 4)
MUSAHOST_PACKED(int16_t, uint16_t, 2)
#undef MUSAHOST_PACKED
#undef MUSAHOST_PACKED_BINARY
#undef MUSAHOST_PACKED_COMPARE
