// Block barriers, memory fences and what ends or delays a thread.
#pragma once
#include <time.h>

#include "device.h"

static inline void __syncthreads(int line = __builtin_LINE()) { musahost_barrier(line); }
static inline int __syncthreads_count(int predicate, int line = __builtin_LINE()) {
  return musahost_barrier_reduce(line, 0, predicate);
}
static inline int __syncthreads_and(int predicate, int line = __builtin_LINE()) {
  return musahost_barrier_reduce(line, 1, predicate);
}
static inline int __syncthreads_or(int predicate, int line = __builtin_LINE()) {
  return musahost_barrier_reduce(line, 2, predicate);
}

MUSAHOST_INLINE void __threadfence() { musahost_fence(); }
MUSAHOST_INLINE void __threadfence_system() { musahost_fence(); }
MUSAHOST_INLINE void __threadfence_block() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

static inline void __trap(const char* source = __builtin_FILE(), int line = __builtin_LINE()) {
  musahost_trap("__trap()", source, line);
}
static inline void __brkpt(const char* source = __builtin_FILE(), int line = __builtin_LINE()) {
  musahost_trap("__brkpt()", source, line);
}
static inline void __nanosleep(unsigned) { musahost_yield(); }
static inline void __prof_trigger(int) {}

// A count that grows with time; it says nothing of the time on a device.
static inline long long clock64() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}
static inline unsigned long long globaltimer() {
  return static_cast<unsigned long long>(clock64());
}
