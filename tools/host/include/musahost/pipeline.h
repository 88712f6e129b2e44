// Asynchronous copies, barriers and pipelines of CUDA C++, done at once. What is wrong in the use of a
// pipeline therefore does not show here.
#pragma once
#include "groups.h"

// ---- cuda_pipeline.h
MUSAHOST_INLINE void __pipeline_memcpy_async(void* shared, const void* global, size_t bytes,
                                           size_t zero_fill = 0) {
  if (zero_fill == 0 && bytes == 4) {
    *static_cast<uint32_t*>(shared) = *static_cast<const uint32_t*>(global);
    return;
  }
  if (zero_fill == 0 && bytes == 8) {
    *static_cast<uint64_t*>(shared) = *static_cast<const uint64_t*>(global);
    return;
  }
  if (zero_fill == 0 && bytes == 16) {
    *static_cast<uint4*>(shared) = *static_cast<const uint4*>(global);
    return;
  }
  for (size_t i = 0; i < bytes; ++i) {
    static_cast<char*>(shared)[i] =
        i < bytes - zero_fill ? static_cast<const char*>(global)[i] : char(0);
  }
}
static inline void __pipeline_commit() {}
static inline void __pipeline_wait_prior(size_t) {}

// ---- cuda/barrier, cuda/pipeline, cuda/atomic
namespace cuda {

enum thread_scope {
  thread_scope_system,
  thread_scope_device,
  thread_scope_block,
  thread_scope_thread,
};

template <size_t bytes>
struct aligned_size_t {
  size_t value;
  constexpr explicit aligned_size_t(size_t size) : value(size) {}
  constexpr operator size_t() const { return value; }
};

// One object of a block's shared memory; its count is the block's barrier.
template <thread_scope scope = thread_scope_system>
class pipeline {
 public:
  void producer_acquire() {}
  void producer_commit() {}
  void consumer_wait(int line = __builtin_LINE()) {
    if (whole_block_) musahost_barrier(line);
  }
  void consumer_release(int line = __builtin_LINE()) {
    if (whole_block_) musahost_barrier(line);
  }
  explicit pipeline(bool whole_block = false) : whole_block_(whole_block) {}

 private:
  bool whole_block_;
};
template <thread_scope scope, unsigned stages>
struct pipeline_shared_state {};
inline pipeline<thread_scope_thread> make_pipeline() { return pipeline<thread_scope_thread>(); }
template <class Group, thread_scope scope, unsigned stages>
pipeline<scope> make_pipeline(const Group&, pipeline_shared_state<scope, stages>*) {
  return pipeline<scope>(true);
}
template <unsigned stages, thread_scope scope>
void pipeline_consumer_wait_prior(pipeline<scope>&) {}

template <class Size, thread_scope scope>
MUSAHOST_INLINE void memcpy_async(void* to, const void* from, Size bytes, pipeline<scope>&) {
  __pipeline_memcpy_async(to, from, static_cast<size_t>(bytes));
}
template <class Group, class Size, thread_scope scope>
MUSAHOST_INLINE void memcpy_async(const Group& group, void* to, const void* from, Size bytes, pipeline<scope>&) {
  cooperative_groups::memcpy_async(group, to, from, static_cast<size_t>(bytes));
}

// A barrier for all threads of the block, which is how kernels use it with asynchronous copies.
template <thread_scope scope = thread_scope_system>
class barrier {
 public:
  struct arrival_token {};
  barrier() = default;
  explicit barrier(ptrdiff_t) {}
  arrival_token arrive(ptrdiff_t = 1) { return {}; }
  void wait(arrival_token&&, int line = __builtin_LINE()) const { musahost_barrier(line); }
  void arrive_and_wait(int line = __builtin_LINE()) { musahost_barrier(line); }
};
template <thread_scope scope>
void init(barrier<scope>*, ptrdiff_t) {}
template <class Size, thread_scope scope>
MUSAHOST_INLINE void memcpy_async(void* to, const void* from, Size bytes, barrier<scope>&) {
  __pipeline_memcpy_async(to, from, static_cast<size_t>(bytes));
}
template <class Group, class Size, thread_scope scope>
MUSAHOST_INLINE void memcpy_async(const Group& group, void* to, const void* from, Size bytes, barrier<scope>&) {
  cooperative_groups::memcpy_async(group, to, from, static_cast<size_t>(bytes));
}

}  // namespace cuda
