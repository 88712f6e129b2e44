// torch::tensor, from_blob and what else is not an aten operation.
#pragma once
#include "ops_functions.h"

namespace at {

MUSAHOST_THIN_API Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides,
                                   const TensorOptions& options = {});
MUSAHOST_THIN_API Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {});
template <class D, class = decltype(std::declval<D>()(static_cast<void*>(nullptr)))>
Tensor from_blob(void* data, IntArrayRef sizes, const D&, const TensorOptions& options = {}) {
  return from_blob(data, sizes, options);
}
template <class D, class = decltype(std::declval<D>()(static_cast<void*>(nullptr)))>
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const D&,
                 const TensorOptions& options = {}) {
  return from_blob(data, sizes, strides, options);
}

// `values` is a scalar or a (nested) list of scalars; `type` is its C++ element type.
MUSAHOST_THIN_API Tensor tensor_of(const ::musahost::thin::Box& values, ScalarType type,
                                   const TensorOptions& options);

namespace detail {
template <class T>
constexpr ScalarType literal_type() {
  if constexpr (std::is_same_v<T, double>) {
    return ScalarType::Float;  // torch::tensor(1.0) has the default dtype
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return ScalarType::Long;
  } else {
    return CppTypeToScalarType<T>::value;
  }
}
template <class T>
Tensor tensor_from_list(ArrayRef<T> values, const TensorOptions& options) {
  std::vector<::musahost::thin::Box> boxes(values.begin(), values.end());
  return tensor_of(::musahost::thin::Box::sequence(::musahost::thin::list_tag, std::move(boxes)),
                   literal_type<T>(), options);
}
}  // namespace detail

template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
Tensor tensor(T value, const TensorOptions& options = {}) {
  return tensor_of(::musahost::thin::Box(value), detail::literal_type<T>(), options);
}
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
Tensor tensor(std::initializer_list<T> values, const TensorOptions& options = {}) {
  return detail::tensor_from_list(ArrayRef<T>(values), options);
}
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, const TensorOptions& options = {}) {
  std::vector<::musahost::thin::Box> boxes;
  for (const auto& row : rows)
    boxes.push_back(::musahost::thin::Box::sequence(
        ::musahost::thin::list_tag, std::vector<::musahost::thin::Box>(row.begin(), row.end())));
  return tensor_of(::musahost::thin::Box::sequence(::musahost::thin::list_tag, std::move(boxes)),
                   detail::literal_type<T>(), options);
}
template <class T>
Tensor tensor(ArrayRef<T> values, const TensorOptions& options = {}) {
  return detail::tensor_from_list(values, options);
}
template <class T>
Tensor tensor(const std::vector<T>& values, const TensorOptions& options = {}) {
  return detail::tensor_from_list(ArrayRef<T>(values), options);
}

MUSAHOST_THIN_API void manual_seed(uint64_t seed);
MUSAHOST_THIN_API bool grad_mode(int set);  // 0 off, 1 on, -1 only asks; returns the mode before

struct GradMode {
  static bool is_enabled() { return grad_mode(-1); }
  static void set_enabled(bool on) { grad_mode(on); }
};
struct AutoGradMode {
  explicit AutoGradMode(bool on) : before_(grad_mode(on)) {}
  ~AutoGradMode() { grad_mode(before_); }
  AutoGradMode(const AutoGradMode&) = delete;
  AutoGradMode& operator=(const AutoGradMode&) = delete;

 private:
  bool before_;
};
struct NoGradGuard : AutoGradMode {
  NoGradGuard() : AutoGradMode(false) {}
};
using InferenceMode = NoGradGuard;
struct AutoDispatchBelowAutograd : NoGradGuard {};
struct AutoNonVariableTypeMode : NoGradGuard {
  explicit AutoNonVariableTypeMode(bool = true) {}
};

inline bool hasCUDA() { return true; }
inline int get_num_threads() { return 1; }

namespace Reduction {
enum Reduction { None, Mean, Sum, END };
}

// Host loops of at::parallel_for, in one thread.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t, const F& f) {
  if (begin < end) f(begin, end);
}

template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
constexpr MUSAHOST_HD T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}
template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
constexpr MUSAHOST_HD T round_up(T a, T b) {
  return ceil_div(a, b) * b;
}

inline std::optional<Device> device_of(const Tensor& tensor) {
  return tensor.defined() ? std::optional<Device>(tensor.device()) : std::nullopt;
}
inline std::optional<Device> device_of(TensorList list) {
  return list.empty() ? std::nullopt : device_of(list.front());
}

inline int64_t maybe_wrap_dim(int64_t dim, int64_t count) { return dim < 0 ? dim + count : dim; }
MUSAHOST_THIN_API std::vector<int64_t> infer_size(IntArrayRef a, IntArrayRef b);
inline std::vector<Tensor> unbind_all(const Tensor& tensor) { return tensor.unbind(0); }

}  // namespace at

namespace c10 {
using at::maybe_wrap_dim;

// for (const auto i : c10::irange(n))
template <class T>
class irange_type {
 public:
  struct iterator {
    T value;
    T operator*() const { return value; }
    iterator& operator++() {
      ++value;
      return *this;
    }
    bool operator!=(const iterator& other) const { return value < other.value; }
  };
  irange_type(T begin, T end) : begin_(begin), end_(end) {}
  iterator begin() const { return {begin_}; }
  iterator end() const { return {end_}; }

 private:
  T begin_, end_;
};
template <class T>
irange_type<T> irange(T end) { return {T(0), end}; }
template <class A, class B>
irange_type<B> irange(A begin, B end) { return {static_cast<B>(begin), end}; }

template <class C>
int64_t multiply_integers(const C& list) {
  return std::accumulate(list.begin(), list.end(), int64_t{1}, std::multiplies<int64_t>());
}
}  // namespace c10

// Accumulation types: what at::acc_type and at::opmath_type say for device code.
namespace at {
namespace detail {
template <class T>
struct Opmath {
  using type = T;
};
template <>
struct Opmath<Half> {
  using type = float;
};
template <>
struct Opmath<BFloat16> {
  using type = float;
};
template <class T, bool cuda>
struct Accumulate {
  using type = std::conditional_t<
      std::is_same_v<T, bool>, bool,
      std::conditional_t<std::is_integral_v<T>, int64_t, typename Opmath<T>::type>>;
};
template <>
struct Accumulate<float, false> {
  using type = double;
};
}  // namespace detail

template <class T>
using opmath_type = typename detail::Opmath<T>::type;
template <class T>
struct OpMathType {
  using type = opmath_type<T>;
};
template <class T, bool cuda>
using acc_type = typename detail::Accumulate<T, cuda>::type;
template <class T, bool cuda>
struct AccumulateType {
  using type = acc_type<T, cuda>;
};
template <class T>
using acc_type_device = acc_type<T, true>;
}  // namespace at
