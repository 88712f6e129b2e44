// cuRAND's device functions. Philox4x32-10 gives cuRAND's own numbers (J. Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011); the other generators' states run it too, so their
// numbers are as good but not cuRAND's.
#pragma once
#include "cuda.h"

namespace musahost {

struct Philox {
  uint4 counter, output;
  uint2 key;
  int used;           // words of `output` already given out
  int normals_left;   // halves of a Box-Muller pair still to give out
  float spare_normal;
  double spare_normal_double;
  int normals_left_double;

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
};

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

static inline void curand_init(unsigned long long seed, unsigned long long sequence,
                               unsigned long long offset, ::musahost::Philox* state) {
  state->start(seed, sequence, offset);
}
static inline void skipahead(unsigned long long n, ::musahost::Philox* state) { state->skip(n); }
static inline void skipahead_sequence(unsigned long long n, ::musahost::Philox* state) {
  state->skip_sequence(n);
}
static inline unsigned curand(::musahost::Philox* state) { return state->next(); }
static inline uint4 curand4(::musahost::Philox* state) { return state->next4(); }

static inline float curand_uniform(::musahost::Philox* state) {
  return ::musahost::uniform_of(state->next());
}
static inline float4 curand_uniform4(::musahost::Philox* state) {
  const uint4 w = state->next4();
  return make_float4(::musahost::uniform_of(w.x), ::musahost::uniform_of(w.y),
                     ::musahost::uniform_of(w.z), ::musahost::uniform_of(w.w));
}
static inline double2 curand_uniform2_double(::musahost::Philox* state) {
  const uint4 w = state->next4();
  return make_double2(::musahost::uniform_double_of(w.x, w.y), ::musahost::uniform_double_of(w.z, w.w));
}
static inline double curand_uniform_double(::musahost::Philox* state) {
  const unsigned low = state->next(), high = state->next();
  return ::musahost::uniform_double_of(low, high);
}

static inline float2 curand_normal2(::musahost::Philox* state) {
  const unsigned a = state->next(), b = state->next();
  return ::musahost::box_muller(a, b);
}
static inline float4 curand_normal4(::musahost::Philox* state) {
  const float2 a = curand_normal2(state), b = curand_normal2(state);
  return make_float4(a.x, a.y, b.x, b.y);
}
static inline float curand_normal(::musahost::Philox* state) {
  if (state->normals_left) {
    state->normals_left = 0;
    return state->spare_normal;
  }
  const float2 pair = curand_normal2(state);
  state->normals_left = 1;
  state->spare_normal = pair.y;
  return pair.x;
}
static inline double2 curand_normal2_double(::musahost::Philox* state) {
  return ::musahost::box_muller_double(state->next4());
}
static inline double curand_normal_double(::musahost::Philox* state) {
  if (state->normals_left_double) {
    state->normals_left_double = 0;
    return state->spare_normal_double;
  }
  const double2 pair = curand_normal2_double(state);
  state->normals_left_double = 1;
  state->spare_normal_double = pair.y;
  return pair.x;
}
static inline float curand_log_normal(::musahost::Philox* state, float mean, float deviation) {
  return expf(mean + deviation * curand_normal(state));
}
static inline double curand_log_normal_double(::musahost::Philox* state, double mean, double deviation) {
  return exp(mean + deviation * curand_normal_double(state));
}
