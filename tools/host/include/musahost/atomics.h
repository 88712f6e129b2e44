// Atomic read-modify-writes with CUDA's overloads: types that CUDA has not are errors here too.
#pragma once
#include "device.h"

namespace musahost {

template <size_t bytes>
struct Word;
template <>
struct Word<2> {
  using type = uint16_t;
};
template <>
struct Word<4> {
  using type = uint32_t;
};
template <>
struct Word<8> {
  using type = uint64_t;
};

// Tells the checker of an access. Always inlined, as the report's line is that of the caller.
MUSAHOST_INLINE void note_atomic(void* address, size_t bytes) {
  if constexpr (MUSAHOST_CHECKED != 0) musahost_atomic_access(address, bytes);
}

// The functions below are not watched: their accesses are atomic, and note_atomic has told of them.

// Replaces *address by change(*address) and returns the old value.
template <class T, class Change>
MUSAHOST_UNWATCHED T read_modify_write(T* address, Change change) {
  using W = typename Word<sizeof(T)>::type;
  W* const word = reinterpret_cast<W*>(address);
  W seen = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (true) {
    const T old = __builtin_bit_cast(T, seen);
    const W wanted = __builtin_bit_cast(W, static_cast<T>(change(old)));
    if (__atomic_compare_exchange_n(word, &seen, wanted, true, __ATOMIC_SEQ_CST,
                                    __ATOMIC_RELAXED)) {
      return old;
    }
  }
}

// A thread that spins on an atomic must let the one it waits for run.
MUSAHOST_INLINE void yield_if(bool spinning) {
  if (__builtin_expect(spinning, 0)) musahost_yield();
}

template <class T>
MUSAHOST_UNWATCHED T atomic_add(T* address, T value) {
  if constexpr (T(0.5f) == T(0)) {  // an integer
    const T old = __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);
    yield_if(value == 0);
    return old;
  } else {
    return read_modify_write(address, [value](T old) { return old + value; });
  }
}
template <class T>
MUSAHOST_UNWATCHED T atomic_exchange(T* address, T value) {
  using W = typename Word<sizeof(T)>::type;
  const W wanted = __builtin_bit_cast(W, value);
  const W old = __atomic_exchange_n(reinterpret_cast<W*>(address), wanted, __ATOMIC_SEQ_CST);
  yield_if(old == wanted);
  return __builtin_bit_cast(T, old);
}
template <class T>
MUSAHOST_UNWATCHED T atomic_compare_and_swap(T* address, T compare, T value) {
  using W = typename Word<sizeof(T)>::type;
  W seen = __builtin_bit_cast(W, compare);
  const bool swapped = __atomic_compare_exchange_n(
      reinterpret_cast<W*>(address), &seen, __builtin_bit_cast(W, value), false,
      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  yield_if(!swapped);
  return __builtin_bit_cast(T, seen);
}

}  // namespace musahost

// Each with its _block and _system form; the host's atomics are atomic for all.
#define MUSAHOST_ATOMIC(T, name, call)                                                 \
  MUSAHOST_INLINE T name(T* address, T value) {                                        \
    ::musahost::note_atomic(address, sizeof(T));                                       \
    return call;                                                                       \
  }                                                                                    \
  MUSAHOST_INLINE T name##_block(T* address, T value) { return name(address, value); } \
  MUSAHOST_INLINE T name##_system(T* address, T value) { return name(address, value); }

#define MUSAHOST_ATOMIC_RMW(T, name, expression) \
  MUSAHOST_ATOMIC(T, name, ::musahost::read_modify_write(address, [value](T old) -> T { return expression; }))
#define MUSAHOST_ATOMIC_ADD(T) MUSAHOST_ATOMIC(T, atomicAdd, ::musahost::atomic_add<T>(address, value))
#define MUSAHOST_ATOMIC_EXCHANGE(T) \
  MUSAHOST_ATOMIC(T, atomicExch, ::musahost::atomic_exchange<T>(address, value))

MUSAHOST_ATOMIC_ADD(int)
MUSAHOST_ATOMIC_ADD(unsigned)
MUSAHOST_ATOMIC_ADD(unsigned long long)
MUSAHOST_ATOMIC_ADD(float)
MUSAHOST_ATOMIC_ADD(double)
MUSAHOST_ATOMIC_RMW(int, atomicSub, static_cast<int>(static_cast<unsigned>(old) - static_cast<unsigned>(value)))
MUSAHOST_ATOMIC_RMW(unsigned, atomicSub, old - value)
MUSAHOST_ATOMIC_EXCHANGE(int)
MUSAHOST_ATOMIC_EXCHANGE(unsigned)
MUSAHOST_ATOMIC_EXCHANGE(unsigned long long)
MUSAHOST_ATOMIC_EXCHANGE(float)
MUSAHOST_ATOMIC_RMW(unsigned, atomicInc, old >= value ? 0u : old + 1u)
MUSAHOST_ATOMIC_RMW(unsigned, atomicDec, old == 0u || old > value ? value : old - 1u)

#define MUSAHOST_ATOMIC_ORDER(T)                              \
  MUSAHOST_ATOMIC_RMW(T, atomicMin, old < value ? old : value) \
  MUSAHOST_ATOMIC_RMW(T, atomicMax, old > value ? old : value)
MUSAHOST_ATOMIC_ORDER(int)
MUSAHOST_ATOMIC_ORDER(unsigned)
MUSAHOST_ATOMIC_ORDER(long long)
MUSAHOST_ATOMIC_ORDER(unsigned long long)

#define MUSAHOST_ATOMIC_BITS(T)                     \
  MUSAHOST_ATOMIC_RMW(T, atomicAnd, old & value)     \
  MUSAHOST_ATOMIC_RMW(T, atomicOr, old | value)      \
  MUSAHOST_ATOMIC_RMW(T, atomicXor, old ^ value)
MUSAHOST_ATOMIC_BITS(int)
MUSAHOST_ATOMIC_BITS(unsigned)
MUSAHOST_ATOMIC_BITS(unsigned long long)

#define MUSAHOST_ATOMIC_CAS(T)                                              \
  MUSAHOST_INLINE T atomicCAS(T* address, T compare, T value) {             \
    ::musahost::note_atomic(address, sizeof(T));                            \
    return ::musahost::atomic_compare_and_swap<T>(address, compare, value); \
  }                                                                         \
  MUSAHOST_INLINE T atomicCAS_block(T* address, T compare, T value) {       \
    return atomicCAS(address, compare, value);                              \
  }                                                                         \
  MUSAHOST_INLINE T atomicCAS_system(T* address, T compare, T value) {      \
    return atomicCAS(address, compare, value);                              \
  }
MUSAHOST_ATOMIC_CAS(int)
MUSAHOST_ATOMIC_CAS(unsigned)
MUSAHOST_ATOMIC_CAS(unsigned long long)
MUSAHOST_ATOMIC_CAS(unsigned short)
