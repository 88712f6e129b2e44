// c10::ArrayRef and its kin: a view of a list that a caller holds.
#pragma once
#include "std.h"

namespace c10 {

using std::in_place;
using std::make_optional;
using std::nullopt;
using std::nullopt_t;
using std::optional;
using std::string_view;

template <class T>
class ArrayRef {
 public:
  using value_type = T;
  using iterator = const T*;
  using const_iterator = const T*;
  using size_type = size_t;

  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T& one) : data_(&one), size_(1) {}
  constexpr ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  constexpr ArrayRef(const T* first, const T* last) : data_(first), size_(last - first) {}
  template <class A>
  ArrayRef(const std::vector<T, A>& list) : data_(list.data()), size_(list.size()) {}
  template <size_t N>
  constexpr ArrayRef(const std::array<T, N>& list) : data_(list.data()), size_(N) {}
  template <size_t N>
  constexpr ArrayRef(const T (&list)[N]) : data_(list), size_(N) {}
  constexpr ArrayRef(const std::initializer_list<T>& list)
      : data_(std::is_constant_evaluated() ? list.begin() : keep(list)), size_(list.size()) {}

  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr const T* cbegin() const { return data_; }
  constexpr const T* cend() const { return data_ + size_; }
  constexpr auto rbegin() const { return std::reverse_iterator<const T*>(end()); }
  constexpr auto rend() const { return std::reverse_iterator<const T*>(begin()); }
  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T& operator[](size_t index) const { return data_[index]; }
  constexpr const T& at(size_t index) const {
    if (index >= size_) throw std::out_of_range("ArrayRef: index out of range");
    return data_[index];
  }
  constexpr const T& front() const { return at(0); }
  constexpr const T& back() const { return at(size_ - 1); }
  constexpr ArrayRef slice(size_t start, size_t count) const { return {data_ + start, count}; }
  constexpr ArrayRef slice(size_t start) const { return {data_ + start, size_ - start}; }
  bool equals(ArrayRef other) const {
    return size_ == other.size_ && std::equal(begin(), end(), other.begin());
  }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
  std::vector<T> toVec() const { return vec(); }

 private:
  // `IntArrayRef s({n, c});` views a list that is gone with the statement. Stock candidates live on
  // the stack's staying as it was; here the last lists are kept, so that they see the same.
  static const T* keep(const std::initializer_list<T>& list) {
    constexpr size_t kKept = 1024;
    if constexpr (std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>) {
      static thread_local T kept[kKept];
      static thread_local size_t next = 0;
      if (list.size() > kKept) return list.begin();
      if (next + list.size() > kKept) next = 0;
      T* const place = kept + next;
      std::copy(list.begin(), list.end(), place);
      next += list.size();
      return place;
    } else {
      return list.begin();
    }
  }

  const T* data_ = nullptr;
  size_t size_ = 0;
};

template <class T>
bool operator==(ArrayRef<T> a, ArrayRef<T> b) { return a.equals(b); }
template <class T>
bool operator!=(ArrayRef<T> a, ArrayRef<T> b) { return !a.equals(b); }
template <class T>
bool operator==(const std::vector<T>& a, ArrayRef<T> b) { return ArrayRef<T>(a).equals(b); }
template <class T>
bool operator!=(const std::vector<T>& a, ArrayRef<T> b) { return !ArrayRef<T>(a).equals(b); }
template <class T>
bool operator==(ArrayRef<T> a, const std::vector<T>& b) { return a.equals(ArrayRef<T>(b)); }
template <class T>
bool operator!=(ArrayRef<T> a, const std::vector<T>& b) { return !a.equals(ArrayRef<T>(b)); }

template <class T>
std::ostream& operator<<(std::ostream& out, ArrayRef<T> list) {
  out << "[";
  for (size_t i = 0; i < list.size(); ++i) out << (i ? ", " : "") << list[i];
  return out << "]";
}

template <class T>
ArrayRef<T> makeArrayRef(const std::vector<T>& list) { return list; }

using IntArrayRef = ArrayRef<int64_t>;
using SymIntArrayRef = IntArrayRef;
using SymInt = int64_t;

// An optional list that also takes one value or a braced list, as dim arguments do.
template <class T>
class OptionalArrayRef {
 public:
  constexpr OptionalArrayRef() = default;
  constexpr OptionalArrayRef(std::nullopt_t) {}
  constexpr OptionalArrayRef(ArrayRef<T> list) : list_(list), present_(true) {}
  constexpr OptionalArrayRef(const T& one) : list_(one), present_(true) {}
  constexpr OptionalArrayRef(const std::initializer_list<T>& list) : list_(list), present_(true) {}
  OptionalArrayRef(const std::vector<T>& list) : list_(list), present_(true) {}
  template <size_t N>
  constexpr OptionalArrayRef(const std::array<T, N>& list) : list_(list), present_(true) {}
  OptionalArrayRef(const std::optional<ArrayRef<T>>& list)
      : list_(list ? *list : ArrayRef<T>()), present_(list.has_value()) {}
  constexpr bool has_value() const { return present_; }
  constexpr explicit operator bool() const { return present_; }
  constexpr const ArrayRef<T>& value() const { return list_; }
  constexpr const ArrayRef<T>& operator*() const { return list_; }
  constexpr const ArrayRef<T>* operator->() const { return &list_; }

 private:
  ArrayRef<T> list_;
  bool present_ = false;
};

using OptionalIntArrayRef = OptionalArrayRef<int64_t>;
using OptionalSymIntArrayRef = OptionalIntArrayRef;

template <class T, unsigned N = 8>
using SmallVector = std::vector<T>;

template <class T>
using List = std::vector<T>;

}  // namespace c10
