// Right kernels whose patterns a checker easily takes for races.
#include "driver.h"

UNWATCHED static int compare_and_swap(int* address, int expected, int wanted) {
  musahost_atomic_access(address, sizeof *address);
  __atomic_compare_exchange_n(address, &expected, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;
}
UNWATCHED static int swap(int* address, int value) {
  musahost_atomic_access(address, sizeof *address);
  return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);
}

// The CUDA guide's loop: a plain read prepares the atomic operation.
EXPORT int maximum_by_swaps(const int* x, int* most, int n) {
  return LAUNCH("maximum_by_swaps", dim((n + 63) / 64), dim(64), 0)([=] {
    const int i = block_x * 64 + thread_x;
    if (i >= n) return;
    int seen = *most;
    while (x[i] > seen) {
      const int assumed = seen;
      seen = compare_and_swap(most, assumed, x[i]);
      if (seen == assumed) break;
    }
  });
}

// Every thread writes the same value to one place.
EXPORT int same_value(float* y, int blocks) {
  return LAUNCH("same_value", dim(blocks), dim(64), 0)([=] {
    SHARED(float, total, 1);
    *total = 3;
    SYNC();
    y[0] = *total;
  });
}

// A lock taken by one thread of each block, with fences.
EXPORT int locked_update(int* lock, int* value, int blocks) {
  return LAUNCH("locked_update", dim(blocks), dim(32), 0)([=] {
    SYNC();
    if (thread_x == 0) {
      while (compare_and_swap(lock, 0, 1) != 0) musahost_yield();
      musahost_fence();
      value[0] = value[0] + 1;
      value[1] = value[0];
      musahost_fence();
      swap(lock, 0);
    }
  });
}

// A lock among the threads of one block.
EXPORT int locked_in_block(int* y) {
  return LAUNCH("locked_in_block", dim(2), dim(64), 0)([=] {
    SHARED(int, lock, 1);
    SHARED(int, value, 2);
    if (thread_x == 0) *lock = value[0] = value[1] = 0;
    SYNC();
    while (compare_and_swap(lock, 0, 1) != 0) musahost_yield();
    value[0] = value[0] + 1;
    value[1] = value[0];
    swap(lock, 0);
    SYNC();
    if (thread_x == 0) y[block_x] = value[1];
  });
}

// Blocks in a chain: each waits for the sum of the one before. A ticket gives them their order.
EXPORT int chained_scan(const int* x, int* sums, volatile int* flags, int* ticket, int blocks) {
  return LAUNCH("chained_scan", dim(blocks), dim(1), 0)([=] {
    const int me = atomic_add(ticket, 1);
    int before = 0;
    if (me > 0) {
      while (flags[me - 1] == 0) musahost_yield();
      musahost_fence();
      before = sums[me - 1];
    }
    sums[me] = before + x[me];
    musahost_fence();
    flags[me] = 1;
  });
}

// All blocks meet through a counter, as hand-written grid barriers do.
EXPORT int hand_made_grid_barrier(int* values, int* counter, int* out, int blocks) {
  return LAUNCH("hand_made_grid_barrier", dim(blocks), dim(32), 0)([=] {
    values[block_x * 32 + thread_x] = block_x;
    musahost_fence();
    SYNC();
    if (thread_x == 0) {
      atomic_add(counter, 1);
      while (atomic_add(counter, 0) < blocks) musahost_yield();
      musahost_fence();
    }
    SYNC();
    const int next = (block_x + 1) % blocks;
    out[block_x * 32 + thread_x] = values[next * 32 + thread_x];
  });
}

// The fences stand before the barrier, the counter after it.
EXPORT int fence_before_barrier(int* values, int* counter, int* sum, int blocks) {
  return LAUNCH("fence_before_barrier", dim(blocks), dim(32), 0)([=] {
    SHARED(int, is_last, 1);
    values[block_x * 32 + thread_x] = 1;
    musahost_fence();
    SYNC();
    if (thread_x == 0) *is_last = atomic_add(counter, 1) == blocks - 1;
    SYNC();
    if (*is_last && thread_x == 0) {
      int total = 0;
      for (int i = 0; i < blocks * 32; ++i) total += values[i];
      *sum = total;
    }
  });
}

struct Vector4 {
  alignas(16) float v[4];
};
// In place, as wide as the device's widest access, and bytes next to each other.
EXPORT int in_place(Vector4* x, char* bytes, int n) {
  return LAUNCH("in_place", dim((n + 63) / 64), dim(64), 0)([=] {
    const int i = block_x * 64 + thread_x;
    if (i >= n) return;
    Vector4 mine = x[i];
    for (float& v : mine.v) v = 2 * v;
    x[i] = mine;
    bytes[i] = static_cast<char>(i);
  });
}

static int table[4] = {1, 2, 3, 4};
int counter_in_module = 0;
// Variables of the module: a table to read and a counter to update.
EXPORT int module_variables(int* y) {
  counter_in_module = 0;
  const int error = LAUNCH("module_variables", dim(2), dim(4), 0)([=] {
    y[block_x * 4 + thread_x] = table[thread_x];
    atomic_add(&counter_in_module, 1);
  });
  return error ? error : counter_in_module;
}

// Lanes exchange through shared memory, ordered by warp barriers alone.
EXPORT int warp_exchange(int* y) {
  return LAUNCH("warp_exchange", dim(2), dim(128), 0)([=] {
    SHARED(int, cell, 128);
    for (int round = 0; round < 4; ++round) {
      cell[thread_x] = thread_x + round;
      sync_warp(__LINE__);
      y[block_x * 128 + thread_x] = cell[thread_x ^ 1];
      sync_warp(__LINE__);
    }
  });
}

// A flag in shared memory that another thread of the block sets through an atomic.
EXPORT int wait_in_block(int* y) {
  return LAUNCH("wait_in_block", dim(1), dim(64), 0)([=] {
    SHARED(int, flag, 1);
    if (thread_x == 0) *flag = 0;
    SYNC();
    if (thread_x == 0) {
      while (atomic_add(flag, 0) < 63) musahost_yield();
      *y = 1;
    } else {
      atomic_add(flag, 1);
    }
  });
}

// The same through a volatile in global memory, with no atomic operation on the waiting side.
EXPORT int wait_for_volatile(volatile int* flag, int* data, int* y) {
  return LAUNCH("wait_for_volatile", dim(1), dim(2), 0)([=] {
    if (thread_x == 0) {
      while (*flag == 0) {
      }
      musahost_fence();
      *y = *data;
    } else {
      *data = 5;
      musahost_fence();
      *flag = 1;
    }
  });
}
