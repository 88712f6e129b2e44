// Cooperative groups: thread blocks, tiles of a warp, coalesced threads, grids.
#pragma once
#include "cuda.h"

namespace cooperative_groups {

namespace details {

MUSAHOST_INLINE unsigned linear(uint3 index, uint3 extent) {
  return index.x + extent.x * (index.y + extent.y * index.z);
}
MUSAHOST_INLINE unsigned volume(uint3 extent) { return extent.x * extent.y * extent.z; }
MUSAHOST_INLINE int count(musahost_mask mask) {
  return __builtin_popcountll(static_cast<unsigned long long>(mask)) +
         __builtin_popcountll(static_cast<unsigned long long>(mask >> 64));
}
MUSAHOST_INLINE musahost_mask below(int lane) { return (static_cast<musahost_mask>(1) << lane) - 1; }

// Shuffles of any size, in pieces of a rendezvous slot.
template <class T>
T exchange(musahost_mask mask, const T& value, int source, bool valid, int line) {
  static_assert(std::is_trivially_copyable_v<T>, "shuffled values must be trivially copyable");
  struct Piece {
    char bytes[16];
  };
  constexpr size_t pieces = (sizeof(T) + 15) / 16;
  Piece buffer[pieces] = {};
  memcpy(buffer, &value, sizeof(T));
  for (Piece& piece : buffer) piece = ::musahost::shuffle(mask, piece, source, valid, line);
  T result;
  memcpy(&result, buffer, sizeof(T));
  return result;
}

// What groups within one warp share; Group gives mask(), the lane of a rank, and the own rank.
template <class Group>
struct WarpGroup {
  unsigned size() const { return self().num_threads(); }
  void sync(int line = __builtin_LINE()) const {
    char nothing = 0;
    musahost_mask arrived = 0;
    musahost_warp_exchange(self().mask(), &nothing, 1, line, &arrived);
  }
  template <class T>
  T shfl(T value, int source, int line = __builtin_LINE()) const {
    return from(value, source, true, line);
  }
  template <class T>
  T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) const {
    const int source = static_cast<int>(self().thread_rank()) - static_cast<int>(delta);
    return from(value, source, source >= 0, line);
  }
  template <class T>
  T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) const {
    const int source = static_cast<int>(self().thread_rank() + delta);
    return from(value, source, source < static_cast<int>(self().num_threads()), line);
  }
  int any(int predicate, int line = __builtin_LINE()) const {
    return ::musahost::any(self().mask(), predicate != 0, line);
  }
  int all(int predicate, int line = __builtin_LINE()) const {
    return ::musahost::all(self().mask(), predicate != 0, line);
  }
  unsigned ballot(int predicate, int line = __builtin_LINE()) const {
    return self().ranks(::musahost::ballot(self().mask(), predicate != 0, line));
  }
  template <class T>
  unsigned match_any(T value, int line = __builtin_LINE()) const {
    return self().ranks(::musahost::match_any(self().mask(), value, line));
  }
  template <class T>
  unsigned match_all(T value, int& same, int line = __builtin_LINE()) const {
    const musahost_mask equal = ::musahost::match_any(self().mask(), value, line);
    same = equal == self().mask();
    return same ? self().ranks(equal) : 0;
  }

 private:
  const Group& self() const { return static_cast<const Group&>(*this); }
  template <class T>
  T from(const T& value, int rank, bool valid, int line) const {
    const int lane = valid ? self().lane_of(rank) : ::musahost::lane();
    return exchange(self().mask(), value, lane, valid, line);
  }
};

}  // namespace details

class thread_block {
 public:
  static void sync(int line = __builtin_LINE()) { musahost_barrier(line); }
  static unsigned thread_rank() { return details::linear(threadIdx, blockDim); }
  static unsigned num_threads() { return details::volume(blockDim); }
  static unsigned size() { return num_threads(); }
  static uint3 thread_index() { return threadIdx; }
  static uint3 group_index() { return blockIdx; }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

class grid_group {
 public:
  // Only a cooperative launch has all its blocks alive at once.
  static void sync(int line = __builtin_LINE()) { musahost_grid_barrier(line); }
  static bool is_valid() { return true; }
  static unsigned long long thread_rank() {
    return static_cast<unsigned long long>(block_rank()) * thread_block::num_threads() +
           thread_block::thread_rank();
  }
  static unsigned long long num_threads() {
    return static_cast<unsigned long long>(num_blocks()) * thread_block::num_threads();
  }
  static unsigned long long size() { return num_threads(); }
  static unsigned block_rank() { return details::linear(blockIdx, gridDim); }
  static unsigned num_blocks() { return details::volume(gridDim); }
  static dim3 group_dim() { return gridDim; }
  static dim3 dim_blocks() { return gridDim; }
  static uint3 block_index() { return blockIdx; }
};
inline grid_group this_grid() { return {}; }

// The threads of a warp that are together at this point, ranked by lane.
class coalesced_group : public details::WarpGroup<coalesced_group> {
 public:
  explicit coalesced_group(musahost_mask mask) : mask_(mask) {}
  musahost_mask mask() const { return mask_; }
  unsigned num_threads() const { return static_cast<unsigned>(details::count(mask_)); }
  unsigned thread_rank() const {
    return static_cast<unsigned>(details::count(mask_ & details::below(::musahost::lane())));
  }
  unsigned meta_group_rank() const { return 0; }
  unsigned meta_group_size() const { return 1; }
  int lane_of(int rank) const {
    for (int lane = 0; lane < ::musahost::lanes(); ++lane) {
      if (::musahost::has_lane(mask_, lane) && rank-- == 0) return lane;
    }
    return ::musahost::lane();
  }
  unsigned ranks(musahost_mask lanes) const {
    unsigned result = 0, rank = 0;
    for (int lane = 0; lane < ::musahost::lanes(); ++lane) {
      if (!::musahost::has_lane(mask_, lane)) continue;
      if (rank < 32 && ::musahost::has_lane(lanes, lane)) result |= 1u << rank;
      ++rank;
    }
    return result;
  }

 private:
  musahost_mask mask_;
};
inline coalesced_group coalesced_threads() { return coalesced_group(musahost_active_mask()); }

template <unsigned Size, class Parent = void>
class thread_block_tile : public details::WarpGroup<thread_block_tile<Size, Parent>> {
  static_assert((Size & (Size - 1)) == 0, "the size of a tile is a power of two");
  static_assert(Size <= 128, "musahost: unsupported construct: tiles wider than a warp");

 public:
  thread_block_tile() = default;
  template <class Other>
  thread_block_tile(const thread_block_tile<Size, Other>&) {}
  static unsigned num_threads() { return Size; }
  static constexpr unsigned size() { return Size; }
  static unsigned thread_rank() { return static_cast<unsigned>(::musahost::lane()) & (Size - 1); }
  static unsigned meta_group_rank() { return thread_block::thread_rank() / Size; }
  static unsigned meta_group_size() { return (thread_block::num_threads() + Size - 1) / Size; }
  static int first_lane() { return ::musahost::lane() & ~static_cast<int>(Size - 1); }
  static musahost_mask mask() {
    constexpr musahost_mask ones =
        Size == 128 ? ~static_cast<musahost_mask>(0)
                    : (static_cast<musahost_mask>(1) << (Size & 127)) - 1;
    return ones << first_lane();
  }
  static int lane_of(int rank) { return first_lane() + (rank & static_cast<int>(Size - 1)); }
  static unsigned ranks(musahost_mask lanes) { return static_cast<unsigned>(lanes >> first_lane()); }
  template <class T>
  T shfl_xor(T value, unsigned mask, int line = __builtin_LINE()) const {
    return this->shfl(value, static_cast<int>(thread_rank() ^ mask), line);
  }
};

// A group whose kind is known at run time only: a block, or a tile of one.
class thread_group {
 public:
  thread_group(const thread_block&) : size_(0) {}
  explicit thread_group(unsigned tile_size) : size_(tile_size) {}
  template <unsigned Size, class Parent>
  thread_group(const thread_block_tile<Size, Parent>&) : size_(Size) {}
  unsigned num_threads() const { return size_ ? size_ : thread_block::num_threads(); }
  unsigned size() const { return num_threads(); }
  unsigned thread_rank() const {
    return size_ ? static_cast<unsigned>(::musahost::lane()) & (size_ - 1)
                 : thread_block::thread_rank();
  }
  void sync(int line = __builtin_LINE()) const {
    if (size_ == 0) return thread_block::sync(line);
    char nothing = 0;
    musahost_mask arrived = 0;
    const int first = ::musahost::lane() & ~static_cast<int>(size_ - 1);
    musahost_warp_exchange(details::below(static_cast<int>(size_)) << first, &nothing, 1, line,
                           &arrived);
  }

 private:
  unsigned size_;
};

template <unsigned Size, class Parent>
thread_block_tile<Size, Parent> tiled_partition(const Parent&) {
  return {};
}
inline thread_group tiled_partition(const thread_group&, unsigned size) { return thread_group(size); }
inline thread_group tiled_partition(const thread_block&, unsigned size) { return thread_group(size); }

template <class Group>
coalesced_group labeled_partition(const Group& group, int label, int line = __builtin_LINE()) {
  return coalesced_group(::musahost::match_any(group.mask(), label, line));
}
template <class Group>
coalesced_group binary_partition(const Group& group, bool label, int line = __builtin_LINE()) {
  return coalesced_group(::musahost::match_any(group.mask(), static_cast<int>(label), line));
}

template <class Group>
void sync(const Group& group, int line = __builtin_LINE()) {
  group.sync(line);
}
template <class Group, class F, class... A>
void invoke_one(const Group& group, F&& f, A&&... arguments) {
  if (group.thread_rank() == 0) f(static_cast<A&&>(arguments)...);
}

// ---- operations of reduce and scan
#define MUSAHOST_OPERATION(name, expression)     \
  template <class T = void>                      \
  struct name {                                  \
    T operator()(const T& a, const T& b) const { \
      return expression;                         \
    }                                            \
  };                                             \
  template <>                                    \
  struct name<void> {                            \
    template <class T>                           \
    T operator()(const T& a, const T& b) const { \
      return expression;                         \
    }                                            \
  };
MUSAHOST_OPERATION(plus, a + b)
MUSAHOST_OPERATION(less, b < a ? b : a)
MUSAHOST_OPERATION(greater, a < b ? b : a)
MUSAHOST_OPERATION(bit_and, a& b)
MUSAHOST_OPERATION(bit_or, a | b)
MUSAHOST_OPERATION(bit_xor, a ^ b)
#undef MUSAHOST_OPERATION

// Every thread gets the same result, folded in the order of ranks.
template <class Group, class T, class Operation>
T reduce(const Group& group, T value, Operation operation, int line = __builtin_LINE()) {
  if constexpr (sizeof(T) <= 16) {
    bool first = true;
    return ::musahost::fold_lanes(group.mask(), value, value, line, [&](T sum, int, T other) -> T {
      if (!first) return operation(sum, other);
      first = false;
      return other;
    });
  } else {
    T result = group.shfl(value, 0, line);
    for (unsigned rank = 1; rank < group.num_threads(); ++rank) {
      result = operation(result, group.shfl(value, static_cast<int>(rank), line));
    }
    return result;
  }
}
template <class Group, class T, class Operation = plus<T>>
T inclusive_scan(const Group& group, T value, Operation operation = {}, int line = __builtin_LINE()) {
  const unsigned own = group.thread_rank();
  for (unsigned delta = 1; delta < group.num_threads(); delta *= 2) {
    const T other = group.shfl_up(value, delta, line);
    if (own >= delta) value = operation(other, value);
  }
  return value;
}
template <class Group, class T, class Operation = plus<T>>
T exclusive_scan(const Group& group, T value, Operation operation = {}, int line = __builtin_LINE()) {
  const T before = group.shfl_up(inclusive_scan(group, value, operation, line), 1, line);
  return group.thread_rank() == 0 ? T() : before;
}

// ---- asynchronous copies, done at once: each thread moves its share
template <class Group>
MUSAHOST_INLINE void memcpy_async(const Group& group, void* to, const void* from, size_t bytes) {
  const size_t stride = group.num_threads();
  for (size_t i = group.thread_rank(); i < bytes / 4; i += stride) {
    static_cast<uint32_t*>(to)[i] = static_cast<const uint32_t*>(from)[i];
  }
  for (size_t i = bytes / 4 * 4 + group.thread_rank(); i < bytes; i += stride) {
    static_cast<char*>(to)[i] = static_cast<const char*>(from)[i];
  }
}
template <class Group>
void wait(const Group& group, int line = __builtin_LINE()) {
  group.sync(line);
}
template <unsigned Stages, class Group>
void wait_prior(const Group& group, int line = __builtin_LINE()) {
  group.sync(line);
}

}  // namespace cooperative_groups
