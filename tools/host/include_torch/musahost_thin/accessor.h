// Tensor accessors: pointer, sizes and strides with subscripts, on host and in kernels.
#pragma once
#include "array_ref.h"
#include "macros.h"

namespace at {

template <class T>
struct DefaultPtrTraits {
  typedef T* PtrType;
};
#if defined(__CUDACC__)
template <class T>
struct RestrictPtrTraits {
  typedef T* __restrict__ PtrType;
};
#else
// g++ warns about and drops the qualifier on a member; the plain pointer is the same type.
template <class T>
struct RestrictPtrTraits {
  typedef T* PtrType;
};
#endif

// Borrows the sizes and strides.
template <class T, size_t N, template <class> class P = DefaultPtrTraits, class I = int64_t>
class TensorAccessor {
 public:
  typedef typename P<T>::PtrType PtrType;
  MUSAHOST_HD TensorAccessor(PtrType data, const I* sizes, const I* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  MUSAHOST_HD PtrType data() const { return data_; }
  MUSAHOST_HD I size(I i) const { return sizes_[i]; }
  MUSAHOST_HD I stride(I i) const { return strides_[i]; }
  c10::ArrayRef<I> sizes() const { return {sizes_, N}; }
  c10::ArrayRef<I> strides() const { return {strides_, N}; }
  MUSAHOST_HD decltype(auto) operator[](I i) const {
    if constexpr (N == 1) {
      return (data_[strides_[0] * i]);
    } else {
      return TensorAccessor<T, N - 1, P, I>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
  }

 private:
  PtrType data_;
  const I* sizes_;
  const I* strides_;
};

// Carries the sizes and strides with it, so that it can be a kernel argument.
template <class T, size_t N, template <class> class P = DefaultPtrTraits, class I = int64_t>
class GenericPackedTensorAccessor {
 public:
  typedef typename P<T>::PtrType PtrType;
  template <class S>
  GenericPackedTensorAccessor(PtrType data, const S* sizes, const S* strides) : data_(data) {
    for (size_t i = 0; i < N; ++i) {
      sizes_[i] = static_cast<I>(sizes[i]);
      strides_[i] = static_cast<I>(strides[i]);
    }
  }
  MUSAHOST_HD PtrType data() const { return data_; }
  MUSAHOST_HD I size(I i) const { return sizes_[i]; }
  MUSAHOST_HD I stride(I i) const { return strides_[i]; }
  MUSAHOST_HD decltype(auto) operator[](I i) const {
    if constexpr (N == 1) {
      return (data_[strides_[0] * i]);
    } else {
      return TensorAccessor<T, N - 1, P, I>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
  }

 private:
  PtrType data_;
  I sizes_[N];
  I strides_[N];
};

template <class T, size_t N, template <class> class P = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, P, int32_t>;
template <class T, size_t N, template <class> class P = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, P, int64_t>;
template <class T, size_t N, template <class> class P = DefaultPtrTraits, class I = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, P, I>;

}  // namespace at
