// Kernels that must give the right result in every mode, thread order and warp size.
#include "driver.h"

EXPORT int elementwise(const float* x, float* y, int n) {
  return LAUNCH("elementwise", dim((n + 255) / 256), dim(256), 0)([=] {
    const int i = block_x * block_width + thread_x;
    if (i < n) y[i] = 2 * x[i] + 1;
  });
}

EXPORT int matmul(const float* a, const float* b, float* c, int n) {
  return LAUNCH("matmul", dim((n + 15) / 16, (n + 15) / 16), dim(16, 16), 0)([=] {
    SHARED(float, ta, 256);
    SHARED(float, tb, 256);
    const int tx = musahost_current.thread_idx.x, ty = musahost_current.thread_idx.y;
    const int row = musahost_current.block_idx.y * 16 + ty, column = block_x * 16 + tx;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
      ta[ty * 16 + tx] = row < n && k + tx < n ? a[row * n + k + tx] : 0;
      tb[ty * 16 + tx] = column < n && k + ty < n ? b[(k + ty) * n + column] : 0;
      SYNC();
      for (int j = 0; j < 16; ++j) sum += ta[ty * 16 + j] * tb[j * 16 + tx];
      SYNC();
    }
    if (row < n && column < n) c[row * n + column] = sum;
  });
}

// Sum of each row in dynamic shared memory by a tree, then by shuffles for the last warp.
EXPORT int row_sums(const float* x, float* sums, int rows, int columns) {
  return LAUNCH("row_sums", dim(rows), dim(256), 256 * sizeof(float))([=] {
    float* partial = static_cast<float*>(musahost_current.dynamic_shared);
    float sum = 0;
    for (int i = thread_x; i < columns; i += block_width) sum += x[block_x * columns + i];
    partial[thread_x] = sum;
    SYNC();
    const int warp = musahost_current.warp_size;
    for (int step = 128; step >= warp; step /= 2) {
      if (thread_x < step) partial[thread_x] += partial[thread_x + step];
      SYNC();
    }
    if (thread_x < warp) {
      float value = partial[thread_x];
      for (int step = warp / 2; step; step /= 2) value += shuffle_down(full_mask(), value, step, __LINE__);
      if (thread_x == 0) sums[block_x] = value;
    }
  });
}

EXPORT int histogram(const int* x, int* bins, int n, int bin_count) {
  return LAUNCH("histogram", dim(8), dim(128), bin_count * sizeof(int))([=] {
    int* local = static_cast<int*>(musahost_current.dynamic_shared);
    for (int i = thread_x; i < bin_count; i += block_width) local[i] = 0;
    SYNC();
    for (int i = block_x * block_width + thread_x; i < n; i += 8 * block_width) atomic_add(&local[x[i]], 1);
    SYNC();
    for (int i = thread_x; i < bin_count; i += block_width) {
      if (local[i]) atomic_add(&bins[i], local[i]);
    }
  });
}

// The last block to finish adds up what all blocks wrote.
EXPORT int last_block_sum(const float* x, float* partials, int* counter, float* sum, int n, int blocks) {
  return LAUNCH("last_block_sum", dim(blocks), dim(64), 0)([=] {
    SHARED(float, cell, 64);
    SHARED(int, is_last, 1);
    float mine = 0;
    for (int i = block_x * 64 + thread_x; i < n; i += 64 * blocks) mine += x[i];
    cell[thread_x] = mine;
    SYNC();
    if (thread_x == 0) {
      float total = 0;
      for (int i = 0; i < 64; ++i) total += cell[i];
      partials[block_x] = total;
      musahost_fence();
      *is_last = atomic_add(counter, 1) == blocks - 1;
    }
    SYNC();
    if (!*is_last) return;
    float all = 0;
    for (int i = thread_x; i < blocks; i += 64) all += partials[i];
    cell[thread_x] = all;
    SYNC();
    if (thread_x == 0) {
      float total = 0;
      for (int i = 0; i < 64; ++i) total += cell[i];
      *sum = total;
    }
  });
}

// out: count, and, or of the predicate over the block, for every thread.
EXPORT int reduce_barriers(int* out, int threads, int threshold) {
  return LAUNCH("reduce_barriers", dim(1), dim(threads), 0)([=] {
    const int predicate = thread_x < threshold ? 2 : 0;
    for (int op = 0; op < 3; ++op) {
      out[thread_x * 3 + op] = musahost_barrier_reduce(__LINE__, op, predicate);
    }
  });
}

// Each lane's value rotated by one in its warp, several times over.
EXPORT int rotate_lanes(int* out, int threads, int times) {
  return LAUNCH("rotate_lanes", dim(2), dim(threads), 0)([=] {
    const int size = musahost_current.warp_size, lane = musahost_current.lane;
    int value = thread_x;
    for (int i = 0; i < times; ++i) value = exchange(full_mask(), value, (lane + 1) % size, __LINE__);
    out[block_x * threads + thread_x] = value;
  });
}

// Groups of 8 lanes that sum their lane numbers with masks of their own.
EXPORT int group_sums(int* out, int threads) {
  return LAUNCH("group_sums", dim(1), dim(threads), 0)([=] {
    const int lane = musahost_current.lane;
    const musahost_mask mask = musahost_mask{0xff} << (lane & ~7);
    int sum = 0;
    for (int i = 0; i < 8; ++i) sum += exchange(mask, lane, (lane & ~7) + i, __LINE__);
    out[thread_x] = sum;
  });
}

// Lanes of a branch ask who is there and meet among themselves.
EXPORT int converged(int* out, int threads) {
  return LAUNCH("converged", dim(1), dim(threads), 0)([=] {
    const int lane = musahost_current.lane;
    if (lane % 3 == 0) {
      const musahost_mask mask = musahost_active_mask();
      out[thread_x] = static_cast<int>(mask) * 100 + exchange(mask, lane, 0, __LINE__);
    } else {
      out[thread_x] = -1;
    }
  });
}

// A block waits for a flag that a later one sets, through an atomic.
EXPORT int spin_between_blocks(int* flag, int* out) {
  return LAUNCH("spin_between_blocks", dim(2), dim(32), 0)([=] {
    if (block_x == 0) {
      while (atomic_add(flag, 0) == 0) musahost_yield();
      out[thread_x] = 1;
    } else if (thread_x == 31) {
      atomic_add(flag, 1);
    }
  });
}

// All blocks add into one, wait for each other, and read it.
EXPORT int grid_barrier(int* total, int* out, int blocks, int cooperative) {
  return LAUNCH("grid_barrier", dim(blocks), dim(32), 0)([=] {
                  atomic_add(total, 1);
                  musahost_grid_barrier(__LINE__);
                  out[block_x * 32 + thread_x] = *total;
                },
                cooperative != 0);
}
