// Floating-point types of 16 bits: storage, conversion with one rounding, operators.
//
// Every operation is computed in float or double and rounded once to nearest even, which is exact for
// + - * / and square root (the wider type has more than twice the digits).
#pragma once
#include <type_traits>

#include "casts.h"

namespace c10 {
struct Half;
struct BFloat16;
}  // namespace c10

namespace musahost {

template <class T>
concept arithmetic = std::is_arithmetic_v<T>;

// A float that remembers whether digits were lost: rounded towards odd, so that rounding it again to
// fewer digits gives what rounding the double once would give.
inline float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  if (nearest == value || value != value) return nearest;
  const uint32_t pattern = bits<uint32_t>(nearest);
  if (pattern & 1) return nearest;
  return bits<float>(__builtin_fabs(nearest) > __builtin_fabs(value) ? pattern - 1 : pattern + 1);
}
// a*b + c, the sum rounded towards odd; the product of two 16-bit floats is exact in a double.
inline double fused_to_odd(double a, double b, double c) {
  const double product = a * b;
  const double sum = product + c;
  const double back = sum - product;
  const double lost = (product - (sum - back)) + (c - back);
  const uint64_t pattern = bits<uint64_t>(sum);
  if (!(lost < 0.0 || lost > 0.0) || (pattern & 1)) return sum;
  return bits<double>((lost > 0.0) == (sum > 0.0) ? pattern + 1 : pattern - 1);
}
// An integer with its low digits folded into one sticky bit, so that a double holds it.
template <class I>
double sticky_double(I value) {
  if (sizeof(I) < 8) return static_cast<double>(value);
  const bool negative = value < I(0);
  unsigned long long size = static_cast<unsigned long long>(value);
  if (negative) size = 0ull - size;
  if (size >> 53) size = (size & ~0xfffull) | (size & 0xfffull ? 0x800ull : 0ull);
  return negative ? -static_cast<double>(size) : static_cast<double>(size);
}

struct Binary16 {
  using torch = c10::Half;
  static uint16_t encode(float value) {
    const uint32_t pattern = bits<uint32_t>(value);
    const uint16_t sign = static_cast<uint16_t>(pattern >> 16 & 0x8000u);
    uint32_t size = pattern & 0x7fffffffu;
    if (size > 0x7f800000u) return 0x7fff;
    if (size >= 0x47800000u) return sign | 0x7c00u;
    if (size < 0x38800000u) {
      // Adding 1/2 leaves exactly the digits of a subnormal result in the low bits, rounded.
      const float shifted = bits<float>(size) + 0.5f;
      return static_cast<uint16_t>(sign | (bits<uint32_t>(shifted) - 0x3f000000u));
    }
    size += 0xfffu + (size >> 13 & 1u);
    return static_cast<uint16_t>(sign | ((size - 0x38000000u) >> 13));
  }
  static float decode(uint16_t pattern) {
    const uint32_t sign = static_cast<uint32_t>(pattern & 0x8000u) << 16;
    uint32_t size = static_cast<uint32_t>(pattern & 0x7fffu) << 13;
    size = bits<uint32_t>(bits<float>(size) * 0x1p112f);
    if ((pattern & 0x7c00u) == 0x7c00u) size = 0x7f800000u | (pattern & 0x3ffu) << 13;
    return bits<float>(sign | size);
  }
};

struct Brain16 {
  using torch = c10::BFloat16;
  static uint16_t encode(float value) {
    const uint32_t pattern = bits<uint32_t>(value);
    if ((pattern & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return static_cast<uint16_t>((pattern + 0x7fffu + (pattern >> 16 & 1u)) >> 16);
  }
  static float decode(uint16_t pattern) {
    return bits<float>(static_cast<uint32_t>(pattern) << 16);
  }
};

template <class Format>
struct NarrowRaw {
  unsigned short x;
};

template <class Format>
struct alignas(2) Narrow {
  unsigned short __x;

  Narrow() = default;
  constexpr Narrow(NarrowRaw<Format> raw) : __x(raw.x) {}
  template <arithmetic T>
  Narrow(T value) : __x(from(value)) {}
  template <class Other>
  explicit Narrow(Narrow<Other> other) : __x(Format::encode(static_cast<float>(other))) {}
#ifdef MUSAHOST_FULL_TORCH
  // Torch's own type of the same format: the bits carry over. The thin headers' types do this themselves.
  template <class T>
    requires std::is_same_v<T, typename Format::torch>
  Narrow(const T& other) : __x(other.x) {}
  template <class T>
    requires std::is_same_v<T, typename Format::torch>
  operator T() const {
    return T(__x, T::from_bits());
  }
#endif

  operator float() const { return Format::decode(__x); }
  operator NarrowRaw<Format>() const { return NarrowRaw<Format>{__x}; }

  template <class T>
  static unsigned short from(T value) {
    if constexpr (std::is_same_v<T, float>) {
      return Format::encode(value);
    } else if constexpr (std::is_floating_point_v<T>) {
      return Format::encode(round_to_odd(static_cast<double>(value)));
    } else {
      return Format::encode(round_to_odd(sticky_double(value)));
    }
  }
  static Narrow of_bits(unsigned short pattern) {
    Narrow result;
    result.__x = pattern;
    return result;
  }
  // The neighbour on the right side where rounding to nearest went the wrong way.
  template <class T>
  static Narrow rounded(T value, int direction) {
    Narrow result(value);
    const double got = static_cast<float>(result), wanted = static_cast<double>(value);
    const bool too_high = got > wanted, too_low = got < wanted;
    const bool negative = (result.__x & 0x8000u) != 0;
    const bool down = direction == FE_DOWNWARD || (direction == FE_TOWARDZERO && wanted > 0.0);
    const bool up = direction == FE_UPWARD || (direction == FE_TOWARDZERO && wanted < 0.0);
    if (too_high && down) result.__x += negative ? 1 : -1;
    if (too_low && up) result.__x += negative ? -1 : 1;
    return result;
  }

  Narrow operator+() const { return *this; }
  Narrow operator-() const { return of_bits(__x ^ 0x8000u); }
  Narrow& operator++() { return *this = Narrow(static_cast<float>(*this) + 1.0f); }
  Narrow& operator--() { return *this = Narrow(static_cast<float>(*this) - 1.0f); }
  Narrow operator++(int) {
    const Narrow before = *this;
    ++*this;
    return before;
  }
  Narrow operator--(int) {
    const Narrow before = *this;
    --*this;
    return before;
  }

  // A mixed expression has the type of its wider operand; integers count as narrower.
  template <class T>
  static auto wider() {
    if constexpr (std::is_floating_point_v<T>) {
      return T();
    } else {
      return Narrow();
    }
  }
#define MUSAHOST_OPERATOR(op)                                                       \
  friend Narrow operator op(const Narrow& a, const Narrow& b) {                     \
    return Narrow(static_cast<float>(a) op static_cast<float>(b));                  \
  }                                                                                 \
  template <arithmetic T>                                                           \
  friend auto operator op(const Narrow& a, T b) {                                   \
    using R = decltype(wider<T>());                                                 \
    return static_cast<R>(static_cast<float>(a) op b);                              \
  }                                                                                 \
  template <arithmetic T>                                                           \
  friend auto operator op(T a, const Narrow& b) {                                   \
    using R = decltype(wider<T>());                                                 \
    return static_cast<R>(a op static_cast<float>(b));                              \
  }                                                                                 \
  friend Narrow& operator op##=(Narrow& a, const Narrow& b) { return a = a op b; }  \
  template <arithmetic T>                                                           \
  friend Narrow& operator op##=(Narrow& a, T b) {                                   \
    return a = Narrow(a op b);                                                      \
  }
  MUSAHOST_OPERATOR(+)
  MUSAHOST_OPERATOR(-)
  MUSAHOST_OPERATOR(*)
  MUSAHOST_OPERATOR(/)
#undef MUSAHOST_OPERATOR
#define MUSAHOST_OPERATOR(op)                                       \
  friend bool operator op(const Narrow& a, const Narrow& b) {       \
    return static_cast<float>(a) op static_cast<float>(b);          \
  }                                                                 \
  template <arithmetic T>                                           \
  friend bool operator op(const Narrow& a, T b) {                   \
    return static_cast<float>(a) op b;                              \
  }                                                                 \
  template <arithmetic T>                                           \
  friend bool operator op(T a, const Narrow& b) {                   \
    return a op static_cast<float>(b);                              \
  }
  MUSAHOST_OPERATOR(==)
  MUSAHOST_OPERATOR(!=)
  MUSAHOST_OPERATOR(<)
  MUSAHOST_OPERATOR(<=)
  MUSAHOST_OPERATOR(>)
  MUSAHOST_OPERATOR(>=)
#undef MUSAHOST_OPERATOR
};

template <class Format>
struct Narrow2Raw {
  unsigned short x, y;
};

template <class Format>
struct alignas(4) Narrow2 {
  using Half = Narrow<Format>;
  Half x, y;

  Narrow2() = default;
  Narrow2(const Half& a, const Half& b) : x(a), y(b) {}
  Narrow2(Narrow2Raw<Format> raw) : x(Half::of_bits(raw.x)), y(Half::of_bits(raw.y)) {}
  operator Narrow2Raw<Format>() const { return Narrow2Raw<Format>{x.__x, y.__x}; }

  Narrow2 operator+() const { return *this; }
  Narrow2 operator-() const { return Narrow2(-x, -y); }
#define MUSAHOST_OPERATOR(op)                                                       \
  friend Narrow2 operator op(const Narrow2& a, const Narrow2& b) {                  \
    return Narrow2(a.x op b.x, a.y op b.y);                                         \
  }                                                                                 \
  friend Narrow2& operator op##=(Narrow2& a, const Narrow2& b) { return a = a op b; }
  MUSAHOST_OPERATOR(+)
  MUSAHOST_OPERATOR(-)
  MUSAHOST_OPERATOR(*)
  MUSAHOST_OPERATOR(/)
#undef MUSAHOST_OPERATOR
#define MUSAHOST_OPERATOR(op)                                        \
  friend bool operator op(const Narrow2& a, const Narrow2& b) {      \
    return a.x op b.x && a.y op b.y;                                 \
  }
  MUSAHOST_OPERATOR(==)
  MUSAHOST_OPERATOR(<)
  MUSAHOST_OPERATOR(<=)
  MUSAHOST_OPERATOR(>)
  MUSAHOST_OPERATOR(>=)
  // False where either pair has a NaN, unlike !(a == b).
  friend bool operator!=(const Narrow2& a, const Narrow2& b) {
    const auto differ = [](Half p, Half q) { return p < q || p > q; };
    return differ(a.x, b.x) && differ(a.y, b.y);
  }
#undef MUSAHOST_OPERATOR
  friend Narrow2& operator++(Narrow2& a) { return a = Narrow2(++a.x, ++a.y); }
  friend Narrow2& operator--(Narrow2& a) { return a = Narrow2(--a.x, --a.y); }
};

}  // namespace musahost
