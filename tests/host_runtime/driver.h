// What drivers need to write kernels against the C interface alone: launches of lambdas, shuffles, atomics.
#pragma once
#include <cmath>
#include <cstring>
#include <musahost/abi.h>

#define EXPORT extern "C" __attribute__((visibility("default")))
#define thread_x ((int)musahost_current.thread_idx.x)
#define block_x ((int)musahost_current.block_idx.x)
#define block_width ((int)musahost_current.block_dim.x)
#define SYNC() musahost_barrier(__LINE__)
#define SHARED(type, name, count)                                                     \
  static const char name##_key = 0;                                                   \
  type* const name =                                                                  \
      static_cast<type*>(musahost_shared(&name##_key, sizeof(type) * (count), alignof(type), #name))
// The kernel stands outside the macro's parentheses, where each of its lines keeps its own number.
#define LAUNCH(name, grid, block, shared) Launcher{name, __FILE__, __LINE__, grid, block, shared}
#define UNWATCHED __attribute__((no_sanitize("thread")))

constexpr uint3 dim(unsigned x, unsigned y = 1, unsigned z = 1) { return {x, y, z}; }

struct Launcher {
  const char *name, *file;
  int line;
  uint3 grid, block;
  size_t shared;

  template <class Kernel>
  int operator()(Kernel kernel, bool cooperative = false, const void* function = nullptr) {
    MusahostLaunch request{grid, block, shared, [](void* k) { (*static_cast<Kernel*>(k))(); }, &kernel,
                           sizeof kernel, function, name, cooperative, file, line, nullptr, 0};
    return musahost_launch(&request);
  }
};

template <class T>
T exchange(musahost_mask mask, T value, int source, int line) {
  musahost_mask arrived;
  const char* slots = musahost_warp_exchange(mask, &value, sizeof value, line, &arrived);
  T result;
  if (arrived >> source & 1) {
    memcpy(&result, slots + 16 * source, sizeof result);
  } else {
    musahost_undefined_shuffle(line, source, &result, sizeof result);
  }
  return result;
}
inline musahost_mask full_mask() {
  return musahost_current.warp_size == 128 ? ~musahost_mask{0} : musahost_mask{0xffffffffu};
}
template <class T>
T shuffle_down(musahost_mask mask, T value, int delta, int line) {
  const int lane = musahost_current.lane, size = musahost_current.warp_size;
  return exchange(mask, value, lane + delta < size ? lane + delta : lane, line);
}
inline void sync_warp(int line) {
  musahost_mask arrived;
  char nothing = 0;
  musahost_warp_exchange(full_mask(), &nothing, 1, line, &arrived);
}

UNWATCHED inline int atomic_add(int* address, int value) {
  musahost_atomic_access(address, sizeof *address);
  return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);
}
