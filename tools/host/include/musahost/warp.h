// Warp shuffles, votes, matches and reductions as rendezvous of lanes.
//
// CUDA's masks have 32 bits. On a warp of 128 lanes a full mask names all of them, and any other mask
// names lanes of the caller's own group of 32.
#pragma once
#include "device.h"

namespace musahost {

MUSAHOST_INLINE int group_shift() { return lane() & ~31; }

MUSAHOST_INLINE musahost_mask wide_mask(unsigned mask) {
  if (lanes() == 32) return mask;
  if (mask == 0xffffffffu) return ~static_cast<musahost_mask>(0);
  return static_cast<musahost_mask>(mask) << group_shift();
}
MUSAHOST_INLINE bool has_lane(musahost_mask mask, int index) {
  return static_cast<bool>((mask >> index) & 1);
}
// What CUDA's 32 bits can show of a wide mask: the caller's own group.
MUSAHOST_INLINE unsigned narrow_mask(musahost_mask mask) {
  return static_cast<unsigned>(mask >> group_shift());
}

// Every lane of `mask` gives a value; `source` is the lane to read, `valid` false keeps the own value.
template <class T>
T shuffle(musahost_mask mask, T value, int source, bool valid, int line) {
  static_assert(sizeof(T) <= 16);
  musahost_mask arrived = 0;
  const char* slots = musahost_warp_exchange(mask, &value, sizeof(T), line, &arrived);
  if (!valid) return value;
  T result;
  if (has_lane(arrived, source)) {
    __builtin_memcpy(&result, slots + source * 16, sizeof(T));
  } else {
    musahost_undefined_shuffle(line, source, &result, sizeof(T));
  }
  return result;
}

// Which lanes a shuffle joins, and the width of the segments that it moves values in.
struct Reach {
  musahost_mask mask;
  int width;
};
MUSAHOST_INLINE Reach reach(unsigned mask, int width) {
  if (mask == 0xffffffffu) return Reach{wide_mask(mask), width > 0 ? width : lanes()};
  return Reach{wide_mask(mask), width > 0 && width < 32 ? width : 32};
}
inline Reach active_reach(int width) {
  return Reach{musahost_active_mask(), width > 0 ? width : lanes()};
}

// Source lanes as PTX's shfl.sync defines them.
struct Segment {
  int lane, first, last, modulus;
  explicit Segment(int width) : lane(musahost::lane()), modulus(lanes()) {
    if (width > modulus) width = modulus;
    first = lane & ~(width - 1);
    last = lane | (width - 1);
  }
};
template <class T>
T shuffle_index(Reach to, T value, int index, int line) {
  const Segment s(to.width);
  return shuffle(to.mask, value, s.first | (index & (s.last - s.first)), true, line);
}
template <class T>
T shuffle_up(Reach to, T value, unsigned delta, int line) {
  const Segment s(to.width);
  const int source = s.lane - static_cast<int>(delta & (s.modulus - 1));
  return shuffle(to.mask, value, source, source >= s.first, line);
}
template <class T>
T shuffle_down(Reach to, T value, unsigned delta, int line) {
  const Segment s(to.width);
  const int source = s.lane + static_cast<int>(delta & (s.modulus - 1));
  return shuffle(to.mask, value, source, source <= s.last, line);
}
template <class T>
T shuffle_xor(Reach to, T value, int lane_mask, int line) {
  const Segment s(to.width);
  const int source = s.lane ^ (lane_mask & (s.modulus - 1));
  return shuffle(to.mask, value, source, source <= s.last, line);
}

// Folds `step(result, lane, value)` over the lanes that took part.
template <class R, class T, class Step>
R fold_lanes(musahost_mask mask, T value, R start, int line, Step step) {
  musahost_mask arrived = 0;
  const char* slots = musahost_warp_exchange(mask, &value, sizeof(T), line, &arrived);
  for (int i = 0; i < lanes(); ++i) {
    if (!has_lane(arrived, i)) continue;
    T other;
    __builtin_memcpy(&other, slots + i * 16, sizeof(T));
    start = step(start, i, other);
  }
  return start;
}
inline musahost_mask ballot(musahost_mask mask, bool predicate, int line) {
  return fold_lanes(mask, predicate, static_cast<musahost_mask>(0), line,
                    [](musahost_mask all, int i, bool set) {
                      return all | (static_cast<musahost_mask>(set) << i);
                    });
}
inline bool any(musahost_mask mask, bool predicate, int line) {
  return ballot(mask, predicate, line) != 0;
}
inline bool all(musahost_mask mask, bool predicate, int line) {
  return ballot(mask, !predicate, line) == 0;
}
template <class T>
musahost_mask match_any(musahost_mask mask, T value, int line) {
  return fold_lanes(mask, value, static_cast<musahost_mask>(0), line,
                    [value](musahost_mask same, int i, T other) {
                      return same | (static_cast<musahost_mask>(other == value) << i);
                    });
}

}  // namespace musahost

// CUDA's overloads, by which narrower integers promote to int as they do there.
#define MUSAHOST_SHUFFLES(T)                                                                   \
  static inline T __shfl_sync(unsigned mask, T value, int source, int width = 0,               \
                       int line = __builtin_LINE()) {                                          \
    return ::musahost::shuffle_index<T>(::musahost::reach(mask, width), value, source, line);  \
  }                                                                                            \
  static inline T __shfl(T value, int source, int width = 0, int line = __builtin_LINE()) {    \
    return ::musahost::shuffle_index<T>(::musahost::active_reach(width), value, source, line); \
  }                                                                                            \
  static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 0,        \
                       int line = __builtin_LINE()) {                                          \
    return ::musahost::shuffle_up<T>(::musahost::reach(mask, width), value, delta, line);      \
  }                                                                                            \
  static inline T __shfl_up(T value, unsigned delta, int width = 0, int line = __builtin_LINE()) { \
    return ::musahost::shuffle_up<T>(::musahost::active_reach(width), value, delta, line);     \
  }                                                                                            \
  static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 0,      \
                       int line = __builtin_LINE()) {                                          \
    return ::musahost::shuffle_down<T>(::musahost::reach(mask, width), value, delta, line);    \
  }                                                                                            \
  static inline T __shfl_down(T value, unsigned delta, int width = 0, int line = __builtin_LINE()) { \
    return ::musahost::shuffle_down<T>(::musahost::active_reach(width), value, delta, line);   \
  }                                                                                            \
  static inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 0,        \
                       int line = __builtin_LINE()) {                                          \
    return ::musahost::shuffle_xor<T>(::musahost::reach(mask, width), value, lane_mask, line); \
  }                                                                                            \
  static inline T __shfl_xor(T value, int lane_mask, int width = 0, int line = __builtin_LINE()) { \
    return ::musahost::shuffle_xor<T>(::musahost::active_reach(width), value, lane_mask, line); \
  }
MUSAHOST_SHUFFLES(int)
MUSAHOST_SHUFFLES(unsigned)
MUSAHOST_SHUFFLES(long)
MUSAHOST_SHUFFLES(unsigned long)
MUSAHOST_SHUFFLES(long long)
MUSAHOST_SHUFFLES(unsigned long long)
MUSAHOST_SHUFFLES(float)
MUSAHOST_SHUFFLES(double)

static inline unsigned __activemask() {
  return ::musahost::narrow_mask(musahost_active_mask());
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
  char nothing = 0;
  musahost_mask arrived = 0;
  musahost_warp_exchange(::musahost::wide_mask(mask), &nothing, 1, line, &arrived);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return ::musahost::narrow_mask(
      ::musahost::ballot(::musahost::wide_mask(mask), predicate != 0, line));
}
static inline int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return ::musahost::any(::musahost::wide_mask(mask), predicate != 0, line);
}
static inline int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return ::musahost::all(::musahost::wide_mask(mask), predicate != 0, line);
}
static inline int __uni_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  const musahost_mask wide = ::musahost::wide_mask(mask);
  const musahost_mask set = ::musahost::ballot(wide, predicate != 0, line);
  return set == 0 || (set & wide) == wide;
}
static inline unsigned __ballot(int predicate, int line = __builtin_LINE()) {
  return ::musahost::narrow_mask(
      ::musahost::ballot(musahost_active_mask(), predicate != 0, line));
}
static inline int __any(int predicate, int line = __builtin_LINE()) {
  return ::musahost::any(musahost_active_mask(), predicate != 0, line);
}
static inline int __all(int predicate, int line = __builtin_LINE()) {
  return ::musahost::all(musahost_active_mask(), predicate != 0, line);
}

#define MUSAHOST_MATCHES(T)                                                                  \
  static inline unsigned __match_any_sync(unsigned mask, T value,                            \
                                          int line = __builtin_LINE()) {                     \
    return ::musahost::narrow_mask(                                                          \
        ::musahost::match_any<T>(::musahost::wide_mask(mask), value, line));                 \
  }                                                                                          \
  static inline unsigned __match_all_sync(unsigned mask, T value, int* same,                 \
                                          int line = __builtin_LINE()) {                     \
    *same = !::musahost::fold_lanes(                                                         \
        ::musahost::wide_mask(mask), value, false, line,                                     \
        [value](bool differs, int, T other) { return differs || !(other == value); });       \
    return *same ? mask : 0;                                                                 \
  }
MUSAHOST_MATCHES(int)
MUSAHOST_MATCHES(unsigned)
MUSAHOST_MATCHES(long)
MUSAHOST_MATCHES(unsigned long)
MUSAHOST_MATCHES(long long)
MUSAHOST_MATCHES(unsigned long long)
MUSAHOST_MATCHES(float)
MUSAHOST_MATCHES(double)
#undef MUSAHOST_MATCHES

#define MUSAHOST_WARP_REDUCTION(T, name, start, expression)                            \
  static inline T __reduce_##name##_sync(unsigned mask, T value,                       \
                                         int line = __builtin_LINE()) {                \
    return ::musahost::fold_lanes<T, T>(::musahost::wide_mask(mask), value, start,     \
                                        line, [](T a, int, T b) -> T { return expression; }); \
  }
MUSAHOST_WARP_REDUCTION(unsigned, add, 0, a + b)
MUSAHOST_WARP_REDUCTION(int, add, 0, static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b)))
MUSAHOST_WARP_REDUCTION(unsigned, min, value, a < b ? a : b)
MUSAHOST_WARP_REDUCTION(int, min, value, a < b ? a : b)
MUSAHOST_WARP_REDUCTION(unsigned, max, value, a > b ? a : b)
MUSAHOST_WARP_REDUCTION(int, max, value, a > b ? a : b)
MUSAHOST_WARP_REDUCTION(unsigned, and, ~0u, a & b)
MUSAHOST_WARP_REDUCTION(unsigned, or, 0u, a | b)
MUSAHOST_WARP_REDUCTION(unsigned, xor, 0u, a ^ b)
#undef MUSAHOST_WARP_REDUCTION
