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

// CUDA's switches, which torch's own builds set for half.
#ifdef __CUDA_NO_HALF_CONVERSIONS__
#define MUSAHOST_HALF_CONVERSIONS false
#else
#define MUSAHOST_HALF_CONVERSIONS true
#endif
#ifdef __CUDA_NO_HALF_OPERATORS__
#define MUSAHOST_HALF_OPERATORS false
#else
#define MUSAHOST_HALF_OPERATORS true
#endif
#ifdef __CUDA_NO_HALF2_OPERATORS__
#define MUSAHOST_HALF2_OPERATORS false
#else
#define MUSAHOST_HALF2_OPERATORS true
#endif
#ifdef __CUDA_NO_BFLOAT16_CONVERSIONS__
#define MUSAHOST_BFLOAT16_CONVERSIONS false
#else
#define MUSAHOST_BFLOAT16_CONVERSIONS true
#endif
#ifdef __CUDA_NO_BFLOAT16_OPERATORS__
#define MUSAHOST_BFLOAT16_OPERATORS false
#else
#define MUSAHOST_BFLOAT16_OPERATORS true
#endif
#ifdef __CUDA_NO_BFLOAT162_OPERATORS__
#define MUSAHOST_BFLOAT162_OPERATORS false
#else
#define MUSAHOST_BFLOAT162_OPERATORS true
#endif

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
  static constexpr bool converts = MUSAHOST_HALF_CONVERSIONS;
  static constexpr bool computes = MUSAHOST_HALF_OPERATORS;
  static constexpr bool computes_pairs = MUSAHOST_HALF2_OPERATORS;
  // One instruction where the processor has F16C.
#ifdef __F16C__
  static uint16_t encode(float value) {
    typedef float Four __attribute__((vector_size(16)));
    if (value != value) return 0x7fff;
    return static_cast<uint16_t>(__builtin_ia32_vcvtps2ph(Four{value}, 0)[0]);
  }
  static float decode(uint16_t pattern) {
    typedef short Eight __attribute__((vector_size(16)));
    return __builtin_ia32_vcvtph2ps(Eight{static_cast<short>(pattern)})[0];
  }
#else
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
#endif
};

struct Brain16 {
  using torch = c10::BFloat16;
  static constexpr bool converts = MUSAHOST_BFLOAT16_CONVERSIONS;
  static constexpr bool computes = MUSAHOST_BFLOAT16_OPERATORS;
  static constexpr bool computes_pairs = MUSAHOST_BFLOAT162_OPERATORS;
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
  operator NarrowRaw<Format>() const { return NarrowRaw<Format>{__x}; }

  template <arithmetic T>
    requires Format::converts
  Narrow(T value) : __x(of(value).__x) {}
  template <class Other>
    requires Format::converts
  explicit Narrow(Narrow<Other> other) : __x(of(other.wide()).__x) {}
  operator float() const
    requires Format::converts
  {
    return wide();
  }
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

  float wide() const { return Format::decode(__x); }
  static constexpr Narrow of_bits(unsigned short pattern) {
    return Narrow(NarrowRaw<Format>{pattern});
  }
  template <class T>
  static Narrow of(T value) {
    if constexpr (std::is_same_v<T, float>) {
      return of_bits(Format::encode(value));
    } else if constexpr (std::is_floating_point_v<T>) {
      return of_bits(Format::encode(round_to_odd(static_cast<double>(value))));
    } else {
      return of_bits(Format::encode(round_to_odd(sticky_double(value))));
    }
  }
  // The neighbour on the right side where rounding to nearest went the wrong way.
  template <class T>
  static Narrow rounded(T value, int direction) {
    Narrow result = of(value);
    const double got = result.wide(), wanted = static_cast<double>(value);
    const bool negative = (result.__x & 0x8000u) != 0;
    const bool down = direction == FE_DOWNWARD || (direction == FE_TOWARDZERO && wanted > 0.0);
    const bool up = direction == FE_UPWARD || (direction == FE_TOWARDZERO && wanted < 0.0);
    if (got > wanted && down) result.__x += negative ? 1 : -1;
    if (got < wanted && up) result.__x += negative ? -1 : 1;
    return result;
  }

 private:
  // A mixed expression has the type of its wider operand; integers count as narrower.
  template <class T>
  using Mixed = std::conditional_t<std::is_floating_point_v<T>, T, Narrow>;
  template <class T, class V>
  static Mixed<T> result(V value) {
    if constexpr (std::is_floating_point_v<T>) {
      return value;
    } else {
      return of(value);
    }
  }

 public:
#define MUSAHOST_OPERATOR(op)                                                        \
  friend Narrow operator op(const Narrow& a, const Narrow& b)                        \
    requires Format::computes                                                        \
  {                                                                                  \
    return of(a.wide() op b.wide());                                                 \
  }                                                                                  \
  template <arithmetic T>                                                            \
    requires(Format::computes && Format::converts)                                   \
  friend Mixed<T> operator op(const Narrow& a, T b) {                                \
    return result<T>(a.wide() op b);                                                 \
  }                                                                                  \
  template <arithmetic T>                                                            \
    requires(Format::computes && Format::converts)                                   \
  friend Mixed<T> operator op(T a, const Narrow& b) {                                \
    return result<T>(a op b.wide());                                                 \
  }                                                                                  \
  friend Narrow& operator op##=(Narrow& a, const Narrow& b)                          \
    requires Format::computes                                                        \
  {                                                                                  \
    return a = of(a.wide() op b.wide());                                             \
  }                                                                                  \
  template <arithmetic T>                                                            \
    requires(Format::computes && Format::converts)                                   \
  friend Narrow& operator op##=(Narrow& a, T b) {                                    \
    return a = of(a.wide() op b);                                                    \
  }
  MUSAHOST_OPERATOR(+)
  MUSAHOST_OPERATOR(-)
  MUSAHOST_OPERATOR(*)
  MUSAHOST_OPERATOR(/)
#undef MUSAHOST_OPERATOR
#define MUSAHOST_OPERATOR(op)                                     \
  friend bool operator op(const Narrow& a, const Narrow& b)       \
    requires Format::computes                                     \
  {                                                               \
    return a.wide() op b.wide();                                  \
  }                                                               \
  template <arithmetic T>                                         \
    requires(Format::computes && Format::converts)                \
  friend bool operator op(const Narrow& a, T b) {                 \
    return a.wide() op b;                                         \
  }                                                               \
  template <arithmetic T>                                         \
    requires(Format::computes && Format::converts)                \
  friend bool operator op(T a, const Narrow& b) {                 \
    return a op b.wide();                                         \
  }
  MUSAHOST_OPERATOR(==)
  MUSAHOST_OPERATOR(!=)
  MUSAHOST_OPERATOR(<)
  MUSAHOST_OPERATOR(<=)
  MUSAHOST_OPERATOR(>)
  MUSAHOST_OPERATOR(>=)
#undef MUSAHOST_OPERATOR
  friend Narrow operator+(const Narrow& a)
    requires Format::computes
  {
    return a;
  }
  friend Narrow operator-(const Narrow& a)
    requires Format::computes
  {
    return of_bits(a.__x ^ 0x8000u);
  }
  friend Narrow& operator++(Narrow& a)
    requires Format::computes
  {
    return a = of(a.wide() + 1.0f);
  }
  friend Narrow& operator--(Narrow& a)
    requires Format::computes
  {
    return a = of(a.wide() - 1.0f);
  }
  friend Narrow operator++(Narrow& a, int)
    requires Format::computes
  {
    const Narrow before = a;
    ++a;
    return before;
  }
  friend Narrow operator--(Narrow& a, int)
    requires Format::computes
  {
    const Narrow before = a;
    --a;
    return before;
  }
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
  constexpr Narrow2(const Half& a, const Half& b) : x(a), y(b) {}
  constexpr Narrow2(Narrow2Raw<Format> raw) : x(Half::of_bits(raw.x)), y(Half::of_bits(raw.y)) {}
  operator Narrow2Raw<Format>() const { return Narrow2Raw<Format>{x.__x, y.__x}; }

#define MUSAHOST_OPERATOR(op)                                                       \
  friend Narrow2 operator op(const Narrow2& a, const Narrow2& b)                    \
    requires Format::computes_pairs                                                 \
  {                                                                                 \
    return Narrow2(Half::of(a.x.wide() op b.x.wide()), Half::of(a.y.wide() op b.y.wide())); \
  }                                                                                 \
  friend Narrow2& operator op##=(Narrow2& a, const Narrow2& b)                      \
    requires Format::computes_pairs                                                 \
  {                                                                                 \
    return a = a op b;                                                              \
  }
  MUSAHOST_OPERATOR(+)
  MUSAHOST_OPERATOR(-)
  MUSAHOST_OPERATOR(*)
  MUSAHOST_OPERATOR(/)
#undef MUSAHOST_OPERATOR
#define MUSAHOST_OPERATOR(op, condition)                           \
  friend bool operator op(const Narrow2& a, const Narrow2& b)      \
    requires Format::computes_pairs                                \
  {                                                                \
    const auto holds = [](float p, float q) { return condition; }; \
    return holds(a.x.wide(), b.x.wide()) && holds(a.y.wide(), b.y.wide()); \
  }
  MUSAHOST_OPERATOR(==, p == q)
  // False where a pair has a NaN, unlike !(a == b).
  MUSAHOST_OPERATOR(!=, p < q || p > q)
  MUSAHOST_OPERATOR(<, p < q)
  MUSAHOST_OPERATOR(<=, p <= q)
  MUSAHOST_OPERATOR(>, p > q)
  MUSAHOST_OPERATOR(>=, p >= q)
#undef MUSAHOST_OPERATOR
  friend Narrow2 operator+(const Narrow2& a)
    requires Format::computes_pairs
  {
    return a;
  }
  friend Narrow2 operator-(const Narrow2& a)
    requires Format::computes_pairs
  {
    return Narrow2(Half::of_bits(a.x.__x ^ 0x8000u), Half::of_bits(a.y.__x ^ 0x8000u));
  }
};

}  // namespace musahost
