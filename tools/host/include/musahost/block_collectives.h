// CUB's collectives of a block and of a warp: reduce, scan, load, store, exchange.
//
// The results are CUB's; the algorithms are the simplest that give them, so that template parameters
// which choose an algorithm are accepted and ignored.
#pragma once
#include "cuda.h"

namespace cub {

// A line of the source, of a type of its own so that no value of a scan is taken for one.
struct Line {
  int number;
};

enum BlockReduceAlgorithm {
  BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
  BLOCK_REDUCE_RAKING,
  BLOCK_REDUCE_WARP_REDUCTIONS,
};
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockLoadAlgorithm {
  BLOCK_LOAD_DIRECT,
  BLOCK_LOAD_STRIPED,
  BLOCK_LOAD_VECTORIZE,
  BLOCK_LOAD_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED,
};
enum BlockStoreAlgorithm {
  BLOCK_STORE_DIRECT,
  BLOCK_STORE_STRIPED,
  BLOCK_STORE_VECTORIZE,
  BLOCK_STORE_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED,
};

// ---- operators
struct Sum {
  template <class A, class B>
  auto operator()(const A& a, const B& b) const {
    return a + b;
  }
};
struct Max {
  template <class T>
  T operator()(const T& a, const T& b) const {
    return a < b ? b : a;
  }
};
struct Min {
  template <class T>
  T operator()(const T& a, const T& b) const {
    return b < a ? b : a;
  }
};
template <class Key, class Value>
struct KeyValuePair {
  Key key;
  Value value;
  KeyValuePair() = default;
  KeyValuePair(const Key& k, const Value& v) : key(k), value(v) {}
};
// Ties go to the smaller index.
struct ArgMax {
  template <class K, class V>
  KeyValuePair<K, V> operator()(const KeyValuePair<K, V>& a, const KeyValuePair<K, V>& b) const {
    return b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};
struct ArgMin {
  template <class K, class V>
  KeyValuePair<K, V> operator()(const KeyValuePair<K, V>& a, const KeyValuePair<K, V>& b) const {
    return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};

namespace details {

MUSAHOST_INLINE int thread_rank() {
  return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}
template <class T, int items>
T fold(const T (&values)[items]) {
  T sum = values[0];
  for (int i = 1; i < items; ++i) sum = sum + values[i];
  return sum;
}
template <class T, int items, class Op>
T fold(const T (&values)[items], Op op) {
  T result = values[0];
  for (int i = 1; i < items; ++i) result = op(result, values[i]);
  return result;
}

}  // namespace details

template <class T, int x, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int y = 1, int z = 1,
          int = 0>
class BlockReduce {
  static constexpr int threads = x * y * z;

 public:
  struct TempStorage {
    T values[threads];
  };
  explicit BlockReduce(TempStorage& storage) : storage_(storage) {}

  // The result is thread 0's; CUB leaves it undefined elsewhere.
  template <class Op>
  MUSAHOST_INLINE_MEMBER T Reduce(T value, Op op, int valid = threads, Line line = {__builtin_LINE()}) {
    const int rank = details::thread_rank();
    storage_.values[rank] = value;
    musahost_barrier(line.number);
    if (rank != 0) return value;
    for (int i = 1; i < valid && i < threads; ++i) value = op(value, storage_.values[i]);
    return value;
  }
  template <class Op, int items>
  MUSAHOST_INLINE_MEMBER T Reduce(T (&values)[items], Op op, Line line = {__builtin_LINE()}) {
    return Reduce(details::fold(values, op), op, threads, line);
  }
  MUSAHOST_INLINE_MEMBER T Sum(T value, int valid = threads, Line line = {__builtin_LINE()}) {
    return Reduce(value, cub::Sum(), valid, line);
  }
  template <int items>
  MUSAHOST_INLINE_MEMBER T Sum(T (&values)[items], Line line = {__builtin_LINE()}) {
    return Reduce(values, cub::Sum(), line);
  }

 private:
  TempStorage& storage_;
};

template <class T, int x, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int y = 1, int z = 1, int = 0>
class BlockScan {
  static constexpr int threads = x * y * z;

 public:
  struct TempStorage {
    T values[threads];
    T prefix;
  };
  explicit BlockScan(TempStorage& storage) : storage_(storage) {}

  // Sums of the values before the caller's (`before`), and of all.
  template <class Op>
  MUSAHOST_INLINE_MEMBER void Scan(T value, Op op, bool& any, T& before, T& all, Line line) {
    const int rank = details::thread_rank();
    storage_.values[rank] = value;
    musahost_barrier(line.number);
    any = rank > 0;
    T sum = storage_.values[0];
    before = sum;
    for (int i = 1; i < threads; ++i) {
      if (i == rank) before = sum;
      sum = op(sum, storage_.values[i]);
    }
    all = sum;
  }

  template <class Op>
  MUSAHOST_INLINE_MEMBER void InclusiveScan(T value, T& out, Op op, T& all, Line line = {__builtin_LINE()}) {
    bool any;
    T before;
    Scan(value, op, any, before, all, line);
    out = any ? op(before, value) : value;
  }
  template <class Op>
  MUSAHOST_INLINE_MEMBER void InclusiveScan(T value, T& out, Op op, Line line = {__builtin_LINE()}) {
    T all;
    InclusiveScan(value, out, op, all, line);
  }
  template <class Op>
  MUSAHOST_INLINE_MEMBER void ExclusiveScan(T value, T& out, T initial, Op op, T& all, Line line = {__builtin_LINE()}) {
    bool any;
    T before;
    Scan(value, op, any, before, all, line);
    out = any ? op(initial, before) : initial;
  }
  template <class Op>
  MUSAHOST_INLINE_MEMBER void ExclusiveScan(T value, T& out, T initial, Op op, Line line = {__builtin_LINE()}) {
    T all;
    ExclusiveScan(value, out, initial, op, all, line);
  }
  MUSAHOST_INLINE_MEMBER void InclusiveSum(T value, T& out, Line line = {__builtin_LINE()}) {
    InclusiveScan(value, out, cub::Sum(), line);
  }
  MUSAHOST_INLINE_MEMBER void InclusiveSum(T value, T& out, T& all, Line line = {__builtin_LINE()}) {
    InclusiveScan(value, out, cub::Sum(), all, line);
  }
  MUSAHOST_INLINE_MEMBER void ExclusiveSum(T value, T& out, Line line = {__builtin_LINE()}) {
    ExclusiveScan(value, out, T(), cub::Sum(), line);
  }
  MUSAHOST_INLINE_MEMBER void ExclusiveSum(T value, T& out, T& all, Line line = {__builtin_LINE()}) {
    ExclusiveScan(value, out, T(), cub::Sum(), all, line);
  }
  // `prefix` is called by one thread with the block's total; its answer goes before all values.
  template <class Prefix>
    requires requires(Prefix p, T t) { p(t); }
  MUSAHOST_INLINE_MEMBER void ExclusiveSum(T value, T& out, Prefix& prefix, Line line = {__builtin_LINE()}) {
    T all;
    ExclusiveScan(value, out, T(), cub::Sum(), all, line);
    out = carry(prefix, all, line) + out;
  }
  template <class Prefix>
    requires requires(Prefix p, T t) { p(t); }
  MUSAHOST_INLINE_MEMBER void InclusiveSum(T value, T& out, Prefix& prefix, Line line = {__builtin_LINE()}) {
    T all;
    InclusiveScan(value, out, cub::Sum(), all, line);
    out = carry(prefix, all, line) + out;
  }
  template <int items, class Op>
  MUSAHOST_INLINE_MEMBER void InclusiveScan(T (&in)[items], T (&out)[items], Op op, T& all, Line line = {__builtin_LINE()}) {
    bool any;
    T before;
    Scan(details::fold(in, op), op, any, before, all, line);
    T sum = any ? op(before, in[0]) : in[0];
    for (int i = 0; i < items; ++i) {
      if (i > 0) sum = op(sum, in[i]);
      out[i] = sum;
    }
  }
  template <int items, class Op>
  MUSAHOST_INLINE_MEMBER void InclusiveScan(T (&in)[items], T (&out)[items], Op op, Line line = {__builtin_LINE()}) {
    T all;
    InclusiveScan(in, out, op, all, line);
  }
  template <int items>
  MUSAHOST_INLINE_MEMBER void InclusiveSum(T (&in)[items], T (&out)[items], Line line = {__builtin_LINE()}) {
    InclusiveScan(in, out, cub::Sum(), line);
  }
  template <int items>
  MUSAHOST_INLINE_MEMBER void InclusiveSum(T (&in)[items], T (&out)[items], T& all, Line line = {__builtin_LINE()}) {
    InclusiveScan(in, out, cub::Sum(), all, line);
  }
  template <int items>
  MUSAHOST_INLINE_MEMBER void ExclusiveSum(T (&in)[items], T (&out)[items], T& all, Line line = {__builtin_LINE()}) {
    bool any;
    T before;
    Scan(details::fold(in), cub::Sum(), any, before, all, line);
    T sum = any ? before : T();
    for (int i = 0; i < items; ++i) {
      const T value = in[i];
      out[i] = sum;
      sum = sum + value;
    }
  }
  template <int items>
  MUSAHOST_INLINE_MEMBER void ExclusiveSum(T (&in)[items], T (&out)[items], Line line = {__builtin_LINE()}) {
    T all;
    ExclusiveSum(in, out, all, line);
  }

 private:
  template <class Prefix>
  MUSAHOST_INLINE_MEMBER T carry(Prefix& prefix, T all, Line line) {
    if (details::thread_rank() == 0) storage_.prefix = prefix(all);
    musahost_barrier(line.number);
    return storage_.prefix;
  }
  TempStorage& storage_;
};

// Items of a thread are neighbours ("blocked") unless the algorithm is a striped one.
template <class T, int x, int items, BlockLoadAlgorithm algorithm = BLOCK_LOAD_DIRECT, int y = 1,
          int z = 1>
class BlockLoad {
 public:
  struct TempStorage {};
  BlockLoad() = default;
  explicit BlockLoad(TempStorage&) {}
  template <class Iterator>
  MUSAHOST_INLINE_MEMBER void Load(Iterator from, T (&to)[items]) {
    for (int i = 0; i < items; ++i) to[i] = from[at(i)];
  }
  template <class Iterator>
  MUSAHOST_INLINE_MEMBER void Load(Iterator from, T (&to)[items], int valid) {
    for (int i = 0; i < items; ++i) {
      if (at(i) < valid) to[i] = from[at(i)];
    }
  }
  template <class Iterator, class Default>
  MUSAHOST_INLINE_MEMBER void Load(Iterator from, T (&to)[items], int valid, Default other) {
    for (int i = 0; i < items; ++i) to[i] = at(i) < valid ? static_cast<T>(from[at(i)]) : T(other);
  }

 private:
  static int at(int i) {
    const int rank = details::thread_rank();
    return algorithm == BLOCK_LOAD_STRIPED ? rank + i * x * y * z : rank * items + i;
  }
};
template <class T, int x, int items, BlockStoreAlgorithm algorithm = BLOCK_STORE_DIRECT, int y = 1,
          int z = 1>
class BlockStore {
 public:
  struct TempStorage {};
  BlockStore() = default;
  explicit BlockStore(TempStorage&) {}
  template <class Iterator>
  MUSAHOST_INLINE_MEMBER void Store(Iterator to, T (&from)[items], int valid = 2147483647) {
    const int rank = details::thread_rank();
    for (int i = 0; i < items; ++i) {
      const int at = algorithm == BLOCK_STORE_STRIPED ? rank + i * x * y * z : rank * items + i;
      if (at < valid) to[at] = from[i];
    }
  }
};

}  // namespace cub
