// CUB's collectives of a warp, or of the `width` neighbouring lanes that make a logical one.
#pragma once
#include "block_collectives.h"
#include "groups.h"

namespace cub {

namespace details {

// A logical warp as cooperative groups see it; CUB's widths need not be powers of two.
template <int width>
struct LogicalWarp {
  static int rank() { return ::musahost::lane() % width; }
  static int first() { return ::musahost::lane() - rank(); }
  static musahost_mask mask() {
    return width >= 128 ? ~static_cast<musahost_mask>(0)
                        : cooperative_groups::details::below(width) << first();
  }
  template <class T>
  static T from(const T& value, int source_rank, Line line) {
    const bool valid = source_rank >= 0 && source_rank < width;
    return cooperative_groups::details::exchange(mask(), value,
                                                 valid ? first() + source_rank : ::musahost::lane(),
                                                 valid, line.number);
  }
};

}  // namespace details

template <class T, int width = 32, int = 0>
class WarpReduce {
  using Warp = details::LogicalWarp<width>;

 public:
  struct TempStorage {};
  explicit WarpReduce(TempStorage&) {}

  // The result is lane 0's; CUB leaves it undefined elsewhere.
  template <class Op>
  T Reduce(T value, Op op, int valid = width, Line line = {__builtin_LINE()}) {
    T result = Warp::from(value, 0, line);
    for (int i = 1; i < width; ++i) {
      const T other = Warp::from(value, i, line);
      if (i < valid) result = op(result, other);
    }
    return result;
  }
  T Sum(T value, int valid = width, Line line = {__builtin_LINE()}) {
    return Reduce(value, cub::Sum(), valid, line);
  }
};

template <class T, int width = 32, int = 0>
class WarpScan {
  using Warp = details::LogicalWarp<width>;

 public:
  struct TempStorage {};
  explicit WarpScan(TempStorage&) {}

  template <class Op>
  void InclusiveScan(T value, T& out, Op op, T& all, Line line = {__builtin_LINE()}) {
    for (int delta = 1; delta < width; delta *= 2) {
      const T other = Warp::from(value, Warp::rank() - delta, line);
      if (Warp::rank() >= delta) value = op(other, value);
    }
    out = value;
    all = Warp::from(value, width - 1, line);
  }
  template <class Op>
  void InclusiveScan(T value, T& out, Op op, Line line = {__builtin_LINE()}) {
    T all;
    InclusiveScan(value, out, op, all, line);
  }
  template <class Op>
  void ExclusiveScan(T value, T& out, T initial, Op op, T& all, Line line = {__builtin_LINE()}) {
    T inclusive;
    InclusiveScan(value, inclusive, op, all, line);
    const T before = Warp::from(inclusive, Warp::rank() - 1, line);
    out = Warp::rank() == 0 ? initial : op(initial, before);
  }
  template <class Op>
  void ExclusiveScan(T value, T& out, T initial, Op op, Line line = {__builtin_LINE()}) {
    T all;
    ExclusiveScan(value, out, initial, op, all, line);
  }
  void InclusiveSum(T value, T& out, Line line = {__builtin_LINE()}) {
    InclusiveScan(value, out, cub::Sum(), line);
  }
  void InclusiveSum(T value, T& out, T& all, Line line = {__builtin_LINE()}) {
    InclusiveScan(value, out, cub::Sum(), all, line);
  }
  void ExclusiveSum(T value, T& out, Line line = {__builtin_LINE()}) {
    ExclusiveScan(value, out, T(), cub::Sum(), line);
  }
  void ExclusiveSum(T value, T& out, T& all, Line line = {__builtin_LINE()}) {
    ExclusiveScan(value, out, T(), cub::Sum(), all, line);
  }
  T Broadcast(T value, unsigned source, Line line = {__builtin_LINE()}) {
    return Warp::from(value, static_cast<int>(source), line);
  }
};

template <int width = 32, class T>
T ShuffleDown(T value, int delta, int last, unsigned, Line line = {__builtin_LINE()}) {
  using Warp = details::LogicalWarp<width>;
  const int source = Warp::rank() + delta;
  return Warp::from(value, source <= last ? source : Warp::rank(), line);
}
template <int width = 32, class T>
T ShuffleUp(T value, int delta, int first, unsigned, Line line = {__builtin_LINE()}) {
  using Warp = details::LogicalWarp<width>;
  const int source = Warp::rank() - delta;
  return Warp::from(value, source >= first ? source : Warp::rank(), line);
}
template <int width = 32, class T>
T ShuffleIndex(T value, int source, unsigned, Line line = {__builtin_LINE()}) {
  return details::LogicalWarp<width>::from(value, source, line);
}
MUSAHOST_INLINE int LaneId() { return ::musahost::lane(); }
MUSAHOST_INLINE int WarpId() { return details::thread_rank() / ::musahost::lanes(); }
MUSAHOST_INLINE int RowMajorTid(int, int, int) { return details::thread_rank(); }

}  // namespace cub
