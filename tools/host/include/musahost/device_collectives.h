// CUB's algorithms over whole arrays, as kernels of one thread: right, watched, and slow.
#pragma once
#include <algorithm>
#include <vector>

#include "block_collectives.h"

namespace cub {

namespace details {

// Asked without storage, CUB answers how much it wants; asked with it, it works.
template <class Work>
cudaError_t run(const char* name, void* storage, size_t& bytes, Work work) {
  if (storage == nullptr) {
    bytes = 1;
    return cudaSuccess;
  }
  ::musahost::launch(
      ::musahost::config(1, 1), name, 0, name, [](int) -> const void* { return nullptr; }, work);
  return cudaPeekAtLastError();
}
template <class T>
using Value = std::remove_cv_t<std::remove_reference_t<decltype(*std::declval<T>())>>;

template <class T>
constexpr T extreme(bool smallest) {
  if constexpr (std::is_floating_point_v<T>) {
    return smallest ? -static_cast<T>(HUGE_VAL) : static_cast<T>(HUGE_VAL);
  } else {
    constexpr bool is_signed = static_cast<T>(-1) < T(0);
    constexpr T low = is_signed ? static_cast<T>(1ull << (8 * sizeof(T) - 1)) : T(0);
    return smallest ? low : static_cast<T>(~low);
  }
}

}  // namespace details

struct DeviceReduce {
  template <class In, class Out, class Op, class T>
  static cudaError_t Reduce(void* storage, size_t& bytes, In in, Out out, long long n, Op op, T initial,
                            cudaStream_t = nullptr) {
    return details::run("cub::DeviceReduce", storage, bytes, [=] {
      T result = initial;
      for (long long i = 0; i < n; ++i) result = op(result, in[i]);
      *out = result;
    });
  }
  template <class In, class Out>
  static cudaError_t Sum(void* storage, size_t& bytes, In in, Out out, long long n,
                         cudaStream_t = nullptr) {
    return Reduce(storage, bytes, in, out, n, cub::Sum(), details::Value<In>(0));
  }
  template <class In, class Out>
  static cudaError_t Max(void* storage, size_t& bytes, In in, Out out, long long n,
                         cudaStream_t = nullptr) {
    return Reduce(storage, bytes, in, out, n, cub::Max(), details::extreme<details::Value<In>>(true));
  }
  template <class In, class Out>
  static cudaError_t Min(void* storage, size_t& bytes, In in, Out out, long long n,
                         cudaStream_t = nullptr) {
    return Reduce(storage, bytes, in, out, n, cub::Min(), details::extreme<details::Value<In>>(false));
  }
  template <class In, class T>
  static cudaError_t ArgMax(void* storage, size_t& bytes, In in, KeyValuePair<int, T>* out, long long n,
                            cudaStream_t = nullptr) {
    return arg(storage, bytes, in, out, n, cub::ArgMax());
  }
  template <class In, class T>
  static cudaError_t ArgMin(void* storage, size_t& bytes, In in, KeyValuePair<int, T>* out, long long n,
                            cudaStream_t = nullptr) {
    return arg(storage, bytes, in, out, n, cub::ArgMin());
  }

 private:
  template <class In, class T, class Op>
  static cudaError_t arg(void* storage, size_t& bytes, In in, KeyValuePair<int, T>* out, long long n,
                         Op op) {
    return details::run("cub::DeviceReduce", storage, bytes, [=] {
      KeyValuePair<int, T> best(0, in[0]);
      for (long long i = 1; i < n; ++i) best = op(best, KeyValuePair<int, T>(static_cast<int>(i), in[i]));
      *out = best;
    });
  }
};

struct DeviceSegmentedReduce {
  template <class In, class Out, class Begin, class End, class Op, class T>
  static cudaError_t Reduce(void* storage, size_t& bytes, In in, Out out, int segments, Begin begin,
                            End end, Op op, T initial, cudaStream_t = nullptr) {
    return details::run("cub::DeviceSegmentedReduce", storage, bytes, [=] {
      for (int s = 0; s < segments; ++s) {
        T result = initial;
        for (auto i = begin[s]; i < end[s]; ++i) result = op(result, in[i]);
        out[s] = result;
      }
    });
  }
  template <class In, class Out, class Begin, class End>
  static cudaError_t Sum(void* storage, size_t& bytes, In in, Out out, int segments, Begin begin,
                         End end, cudaStream_t = nullptr) {
    return Reduce(storage, bytes, in, out, segments, begin, end, cub::Sum(), details::Value<In>(0));
  }
  template <class In, class Out, class Begin, class End>
  static cudaError_t Max(void* storage, size_t& bytes, In in, Out out, int segments, Begin begin,
                         End end, cudaStream_t = nullptr) {
    return Reduce(storage, bytes, in, out, segments, begin, end, cub::Max(),
                  details::extreme<details::Value<In>>(true));
  }
  template <class In, class Out, class Begin, class End>
  static cudaError_t Min(void* storage, size_t& bytes, In in, Out out, int segments, Begin begin,
                         End end, cudaStream_t = nullptr) {
    return Reduce(storage, bytes, in, out, segments, begin, end, cub::Min(),
                  details::extreme<details::Value<In>>(false));
  }
};

struct DeviceScan {
  template <class In, class Out, class Op>
  static cudaError_t InclusiveScan(void* storage, size_t& bytes, In in, Out out, Op op, long long n,
                                   cudaStream_t = nullptr) {
    return details::run("cub::DeviceScan", storage, bytes, [=] {
      if (n <= 0) return;
      auto sum = static_cast<details::Value<In>>(in[0]);
      out[0] = sum;
      for (long long i = 1; i < n; ++i) out[i] = sum = op(sum, in[i]);
    });
  }
  template <class In, class Out, class Op, class T>
  static cudaError_t ExclusiveScan(void* storage, size_t& bytes, In in, Out out, Op op, T initial,
                                   long long n, cudaStream_t = nullptr) {
    return details::run("cub::DeviceScan", storage, bytes, [=] {
      T sum = initial;
      for (long long i = 0; i < n; ++i) {
        const auto value = in[i];
        out[i] = sum;
        sum = op(sum, value);
      }
    });
  }
  template <class In, class Out>
  static cudaError_t InclusiveSum(void* storage, size_t& bytes, In in, Out out, long long n,
                                  cudaStream_t = nullptr) {
    return InclusiveScan(storage, bytes, in, out, cub::Sum(), n);
  }
  template <class In, class Out>
  static cudaError_t ExclusiveSum(void* storage, size_t& bytes, In in, Out out, long long n,
                                  cudaStream_t = nullptr) {
    return ExclusiveScan(storage, bytes, in, out, cub::Sum(), details::Value<In>(0), n);
  }
};

// Stable sorts by key; the bit range is taken as the whole key.
struct DeviceRadixSort {
  template <class K>
  static cudaError_t SortKeys(void* storage, size_t& bytes, const K* in, K* out, long long n, int = 0,
                              int = sizeof(K) * 8, cudaStream_t = nullptr) {
    return sort<K, char>(storage, bytes, in, out, nullptr, nullptr, n, false);
  }
  template <class K>
  static cudaError_t SortKeysDescending(void* storage, size_t& bytes, const K* in, K* out, long long n,
                                        int = 0, int = sizeof(K) * 8, cudaStream_t = nullptr) {
    return sort<K, char>(storage, bytes, in, out, nullptr, nullptr, n, true);
  }
  template <class K, class V>
  static cudaError_t SortPairs(void* storage, size_t& bytes, const K* in, K* out, const V* values_in,
                               V* values_out, long long n, int = 0, int = sizeof(K) * 8,
                               cudaStream_t = nullptr) {
    return sort(storage, bytes, in, out, values_in, values_out, n, false);
  }
  template <class K, class V>
  static cudaError_t SortPairsDescending(void* storage, size_t& bytes, const K* in, K* out,
                                         const V* values_in, V* values_out, long long n, int = 0,
                                         int = sizeof(K) * 8, cudaStream_t = nullptr) {
    return sort(storage, bytes, in, out, values_in, values_out, n, true);
  }

 private:
  template <class K, class V>
  static cudaError_t sort(void* storage, size_t& bytes, const K* in, K* out, const V* values_in,
                          V* values_out, long long n, bool descending) {
    if (storage == nullptr) {
      bytes = 1;
      return cudaSuccess;
    }
    // Not as a kernel: the watch on a kernel's memory knows nothing of a vector's.
    std::vector<std::pair<K, long long>> order(static_cast<size_t>(n));
    for (long long i = 0; i < n; ++i) order[static_cast<size_t>(i)] = {in[i], i};
    std::stable_sort(order.begin(), order.end(), [=](const auto& a, const auto& b) {
      return descending ? b.first < a.first : a.first < b.first;
    });
    for (long long i = 0; i < n; ++i) {
      const auto& [key, from] = order[static_cast<size_t>(i)];
      out[i] = key;
      if (values_out != nullptr) values_out[i] = values_in[from];
    }
    return cudaSuccess;
  }
};

}  // namespace cub
