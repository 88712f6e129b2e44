// cuRAND's device functions. Philox4x32-10 gives cuRAND's own numbers (J. Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011); the other generators' states run it too, so their
// numbers are as good but not cuRAND's.
#pragma once
#include "cuda.h"

namespace musahost {

// In (0, 1].
MUSAHOST_INLINE float uniform_of(unsigned word) {
  return static_cast<float>(word) * 0x1p-32f + 0x1p-33f;
}
MUSAHOST_INLINE double uniform_double_of(unsigned low, unsigned high) {
  const unsigned long long word = static_cast<unsigned long long>(low) ^
                                  (static_cast<unsigned long long>(high) << 21);
  return static_cast<double>(word) * 0x1p-53 + 0x1p-54;
}
inline float2 box_muller(unsigned a, unsigned b) {
  const float u = uniform_of(a);
  const float angle = static_cast<float>(b) * (0x1p-32f * 6.2831855f) + 0x1p-33f * 6.2831855f;
  const float radius = sqrtf(-2.0f * logf(u));
  return make_float2(radius * sinf(angle), radius * cosf(angle));
}
inline double2 box_muller_double(uint4 words) {
  const double u = uniform_double_of(words.x, words.y);
  const double angle = uniform_double_of(words.z, words.w) * 2.0;
  const double radius = sqrt(-2.0 * log(u));
  return make_double2(radius * sine_pi(angle), radius * cosine_pi(angle));
}

struct Philox {
  uint4 counter, output;
  uint2 key;
  int used;  // words of `output` already given out
  // The second of a Box-Muller pair, where it is still to be given out.
  int normals_left, normals_left_double;
  float spare_normal;
  double spare_normal_double;

  static uint4 generate(uint4 c, uint2 k) {
    for (int round = 0; round < 10; ++round) {
      const unsigned long long a = 0xD2511F53ull * c.x, b = 0xCD9E8D57ull * c.z;
      c = make_uint4(static_cast<unsigned>(b >> 32) ^ c.y ^ k.x, static_cast<unsigned>(b),
                     static_cast<unsigned>(a >> 32) ^ c.w ^ k.y, static_cast<unsigned>(a));
      k.x += 0x9E3779B9u;
      k.y += 0xBB67AE85u;
    }
    return c;
  }
  void advance(unsigned long long blocks) {
    const unsigned __int128 low = (static_cast<unsigned long long>(counter.y) << 32) | counter.x;
    const unsigned __int128 high = (static_cast<unsigned long long>(counter.w) << 32) | counter.z;
    const unsigned __int128 next = (high << 64 | low) + blocks;
    counter = make_uint4(static_cast<unsigned>(next), static_cast<unsigned>(next >> 32),
                         static_cast<unsigned>(next >> 64), static_cast<unsigned>(next >> 96));
  }
  void skip(unsigned long long words) {
    const unsigned long long total = words + static_cast<unsigned>(used);
    advance(total / 4);
    used = static_cast<int>(total % 4);
    output = generate(counter, key);
  }
  void skip_sequence(unsigned long long count) {
    const unsigned long long high =
        ((static_cast<unsigned long long>(counter.w) << 32) | counter.z) + count;
    counter.z = static_cast<unsigned>(high);
    counter.w = static_cast<unsigned>(high >> 32);
    output = generate(counter, key);
  }
  void start(unsigned long long seed, unsigned long long sequence, unsigned long long offset) {
    *this = Philox{};
    key = make_uint2(static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32));
    skip_sequence(sequence);
    skip(offset);
  }
  unsigned next() {
    const unsigned words[4] = {output.x, output.y, output.z, output.w};
    const unsigned result = words[used++];
    if (used == 4) {
      used = 0;
      advance(1);
      output = generate(counter, key);
    }
    return result;
  }
  uint4 next4() {
    const unsigned a = next(), b = next(), c = next(), d = next();
    return make_uint4(a, b, c, d);
  }

  float uniform() { return uniform_of(next()); }
  float4 uniform4() {
    const uint4 w = next4();
    return make_float4(uniform_of(w.x), uniform_of(w.y), uniform_of(w.z), uniform_of(w.w));
  }
  double uniform_double() {
    const unsigned low = next(), high = next();
    return uniform_double_of(low, high);
  }
  double2 uniform2_double() {
    const uint4 w = next4();
    return make_double2(uniform_double_of(w.x, w.y), uniform_double_of(w.z, w.w));
  }
  float2 normal2() {
    const unsigned a = next(), b = next();
    return box_muller(a, b);
  }
  float4 normal4() {
    const float2 a = normal2(), b = normal2();
    return make_float4(a.x, a.y, b.x, b.y);
  }
  float normal() {
    if (normals_left) {
      normals_left = 0;
      return spare_normal;
    }
    const float2 pair = normal2();
    normals_left = 1;
    spare_normal = pair.y;
    return pair.x;
  }
  double2 normal2_double() { return box_muller_double(next4()); }
  double normal_double() {
    if (normals_left_double) {
      normals_left_double = 0;
      return spare_normal_double;
    }
    const double2 pair = normal2_double();
    normals_left_double = 1;
    spare_normal_double = pair.y;
    return pair.x;
  }
};

// Works on a copy, so that the accesses to the state are in the caller and reported with its line.
template <class Operation>
MUSAHOST_INLINE auto with(Philox* state, Operation operation) {
  Philox copy = *state;
  const auto result = operation(copy);
  *state = copy;
  return result;
}

}  // namespace musahost

using curandStatePhilox4_32_10 = ::musahost::Philox;
using curandStatePhilox4_32_10_t = ::musahost::Philox;
// Own types, as candidates overload on them.
struct curandStateXORWOW : ::musahost::Philox {};
struct curandStateMRG32k3a : ::musahost::Philox {};
using curandStateXORWOW_t = curandStateXORWOW;
using curandStateMRG32k3a_t = curandStateMRG32k3a;
using curandState = curandStateXORWOW;
using curandState_t = curandStateXORWOW;

MUSAHOST_INLINE void curand_init(unsigned long long seed, unsigned long long sequence,
                                 unsigned long long offset, ::musahost::Philox* state) {
  ::musahost::Philox fresh;
  fresh.start(seed, sequence, offset);
  *state = fresh;
}
MUSAHOST_INLINE void skipahead(unsigned long long n, ::musahost::Philox* state) {
  ::musahost::with(state, [n](::musahost::Philox& s) { return s.skip(n), 0; });
}
MUSAHOST_INLINE void skipahead_sequence(unsigned long long n, ::musahost::Philox* state) {
  ::musahost::with(state, [n](::musahost::Philox& s) { return s.skip_sequence(n), 0; });
}

#define MUSAHOST_DRAW(T, name, member)                                                \
  MUSAHOST_INLINE T name(::musahost::Philox* state) {                                 \
    return ::musahost::with(state, [](::musahost::Philox& s) { return s.member(); }); \
  }
MUSAHOST_DRAW(unsigned, curand, next)
MUSAHOST_DRAW(uint4, curand4, next4)
MUSAHOST_DRAW(float, curand_uniform, uniform)
MUSAHOST_DRAW(float4, curand_uniform4, uniform4)
MUSAHOST_DRAW(double, curand_uniform_double, uniform_double)
MUSAHOST_DRAW(double2, curand_uniform2_double, uniform2_double)
MUSAHOST_DRAW(float, curand_normal, normal)
MUSAHOST_DRAW(float2, curand_normal2, normal2)
MUSAHOST_DRAW(float4, curand_normal4, normal4)
MUSAHOST_DRAW(double, curand_normal_double, normal_double)
MUSAHOST_DRAW(double2, curand_normal2_double, normal2_double)
#undef MUSAHOST_DRAW
MUSAHOST_INLINE float curand_log_normal(::musahost::Philox* state, float mean, float deviation) {
  return expf(mean + deviation * curand_normal(state));
}
MUSAHOST_INLINE double curand_log_normal_double(::musahost::Philox* state, double mean,
                                                double deviation) {
  return exp(mean + deviation * curand_normal_double(state));
}
