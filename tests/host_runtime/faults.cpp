// One planted fault a function; the line marked `// here` is what the report must name.
#include "driver.h"

EXPORT int write_past_tensor(float* y, int n) {
  return LAUNCH("write_past_tensor", dim(1), dim(64), 0)([=] {
    if (thread_x <= n) y[thread_x] = 1;  // here
  });
}

EXPORT int read_before_tensor(const float* x, float* y) {
  return LAUNCH("read_before_tensor", dim(1), dim(8), 0)([=] {
    y[thread_x] = x[thread_x - 1];  // here
  });
}

EXPORT int past_shared(float* y) {
  return LAUNCH("past_shared", dim(1), dim(32), 0)([=] {
    SHARED(float, tile, 31);
    tile[thread_x] = 1;  // here
    SYNC();
    y[thread_x] = tile[0];
  });
}

EXPORT int past_dynamic_shared() {
  return LAUNCH("past_dynamic_shared", dim(1), dim(32), 64)([=] {
    static_cast<float*>(musahost_current.dynamic_shared)[thread_x] = 1;  // here
  });
}

static float weights[9];
EXPORT int past_module_variable(float* y) {
  for (float& weight : weights) weight = y[0];
  return LAUNCH("past_module_variable", dim(1), dim(10), 0)([=] {
    y[thread_x] = weights[thread_x];  // here
  });
}

EXPORT int read_host_memory(const float* host, float* y) {
  return LAUNCH("read_host_memory", dim(1), dim(4), 0)([=] {
    y[thread_x] = host[thread_x];  // here
  });
}

EXPORT int wild_write(long address) {
  return LAUNCH("wild_write", dim(2), dim(4), 0)([=] {
    *reinterpret_cast<volatile int*>(address) = 1;  // here
  });
}

EXPORT int missing_barrier(float* y) {
  return LAUNCH("missing_barrier", dim(1), dim(64), 0)([=] {
    SHARED(float, tile, 64);
    tile[thread_x] = thread_x;
    y[thread_x] = tile[63 - thread_x];  // here
  });
}

EXPORT int missing_second_barrier(const float* x, float* y) {
  return LAUNCH("missing_second_barrier", dim(1), dim(64), 0)([=] {
    SHARED(float, tile, 64);
    float sum = 0;
    for (int k = 0; k < 4; ++k) {
      tile[thread_x] = x[k * 64 + thread_x];  // here
      SYNC();
      for (int i = 0; i < 64; ++i) sum += tile[i];
    }
    y[thread_x] = sum;
  });
}

EXPORT int warp_without_sync(float* y) {
  return LAUNCH("warp_without_sync", dim(1), dim(32), 0)([=] {
    SHARED(volatile float, cell, 64);
    cell[thread_x] = 1;
    cell[thread_x + 32] = 1;
    sync_warp(__LINE__);
    for (int step = 32; step; step /= 2) {
      if (thread_x < step) cell[thread_x] = cell[thread_x] + cell[thread_x + step];  // here
    }
    if (thread_x == 0) y[0] = cell[0];
  });
}

EXPORT int plain_update_between_blocks(int* count) {
  return LAUNCH("plain_update_between_blocks", dim(16), dim(1), 0)([=] {
    *count += 1;  // here
  });
}

EXPORT int halves_race(short* y) {
  return LAUNCH("halves_race", dim(1), dim(64), 0)([=] {
    SHARED(short, tile, 64);
    tile[thread_x] = thread_x;
    y[thread_x] = tile[thread_x ^ 33];  // here
  });
}

EXPORT int last_block_without_fence(float* partials, int* counter, float* sum, int blocks) {
  return LAUNCH("last_block_without_fence", dim(blocks), dim(1), 0)([=] {
    partials[block_x] = block_x;
    if (atomic_add(counter, 1) != blocks - 1) return;
    float total = 0;
    for (int i = 0; i < blocks; ++i) total += partials[i];  // here
    *sum = total;
  });
}

EXPORT int atomic_then_plain_read(int* y) {
  return LAUNCH("atomic_then_plain_read", dim(1), dim(64), 0)([=] {
    SHARED(int, count, 1);
    if (thread_x == 0) *count = 0;
    SYNC();
    atomic_add(count, 1);
    y[thread_x] = *count;  // here
  });
}

EXPORT int unset_shared(float* y) {
  return LAUNCH("unset_shared", dim(1), dim(64), 0)([=] {
    SHARED(float, tile, 64);
    if (thread_x < 60) tile[thread_x] = 1;
    SYNC();
    y[thread_x] = tile[63 - thread_x];  // here
  });
}

EXPORT int divergent_barrier(int* y) {
  return LAUNCH("divergent_barrier", dim(1), dim(64), 0)([=] {
    if (thread_x < 32) {
      SYNC();
      y[thread_x] = 1;
    } else {
      SYNC();  // here
      y[thread_x] = 2;
    }
  });
}

EXPORT int lonely_grid_barrier() {
  return LAUNCH("lonely_grid_barrier", dim(2), dim(4), 0)([=] {
                  if (thread_x == 0) {
                    musahost_grid_barrier(__LINE__);
                  } else {
                    SYNC();  // here
                  }
                },
                true);
}

EXPORT int absent_lanes(int* y) {
  return LAUNCH("absent_lanes", dim(1), dim(32), 0)([=] {
    const int lane = thread_x;
    if (lane < 8) y[lane] = exchange(full_mask(), lane, lane ^ 1, __LINE__);  // here
    SYNC();
  });
}

EXPORT int outside_own_mask(int* y) {
  return LAUNCH("outside_own_mask", dim(1), dim(32), 0)([=] {
    y[thread_x] = exchange(0xff, thread_x, musahost_current.lane, __LINE__);  // here
  });
}

EXPORT int reads_absent_lane(int* y) {
  return LAUNCH("reads_absent_lane", dim(1), dim(20), 0)([=] {
    y[thread_x] = exchange(full_mask(), thread_x, thread_x + 10, __LINE__);  // here
  });
}

EXPORT int launch_shape(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned long shared, int attribute) {
  static const char function = 0;
  if (attribute) {
    const int error = musahost_set_max_dynamic_shared(&function, attribute);
    if (error) return error;
  }
  return LAUNCH("launch_shape", dim(gx, gy, gz), dim(bx, by, bz), shared)([] {}, false, &function);  // here
}

EXPORT int big_static_shared() {
  return LAUNCH("big_static_shared", dim(1), dim(1), 0)([=] {
    SHARED(char, huge, 50 << 10);
    huge[0] = 1;
  });
}

EXPORT int device_trap() {
  return LAUNCH("device_trap", dim(2), dim(4), 0)([=] {
    if (thread_x == 2) musahost_trap("__trap()", __FILE__, __LINE__);  // here
  });
}

EXPORT int device_assert() {
  return LAUNCH("device_assert", dim(1), dim(1), 0)([] {
    musahost_trap("assertion failed: x > 0", __FILE__, __LINE__);  // here
  });
}

EXPORT int divide_by(int* y, int zero) {
  return LAUNCH("divide_by", dim(1), dim(4), 0)([=] {
    y[thread_x] = 7 / zero;  // here
  });
}

__attribute__((noinline)) static int deep(volatile char* previous, int depth) {
  volatile char local[512];
  local[depth % 512] = *previous;
  return depth ? deep(local, depth - 1) + local[0] : 0;
}
EXPORT int stack_overflow(int* y) {
  return LAUNCH("stack_overflow", dim(1), dim(1), 0)([=] {
    volatile char start = 0;
    *y = deep(&start, 1 << 20);
  });
}

EXPORT int throwing() {
  return LAUNCH("throwing", dim(1), dim(1), 0)([] { throw 1; });
}

EXPORT int nested_launch() {
  return LAUNCH("outer", dim(1), dim(1), 0)([] {
    LAUNCH("inner", dim(1), dim(1), 0)([] {});  // here
  });
}
