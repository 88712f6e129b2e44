// at::Tensor: a counted handle on a Python tensor, with its metadata at hand.
#pragma once
#include "accessor.h"
#include "value.h"

namespace at {
using namespace c10;
class Tensor;
using TensorList = c10::ArrayRef<Tensor>;
using ITensorListRef = TensorList;
}  // namespace at

namespace musahost::thin {

constexpr int64_t kMaxDims = 25;

// One per tensor that C++ holds; shared by all Tensor copies. Python refreshes it after an
// operation that may have changed the shape in place.
struct TensorData {
  std::atomic<int64_t> references;
  int64_t handle;
  void* data;
  int64_t dim, numel, storage_offset, storage_bytes;
  c10::ScalarType dtype;
  c10::DeviceType device;
  bool contiguous, requires_grad;
  int64_t sizes[kMaxDims], strides[kMaxDims];
};

MUSAHOST_THIN_API void release(TensorData* data) noexcept;

}  // namespace musahost::thin

namespace at {

// What the deprecated Tensor::type() returns.
class MUSAHOST_THIN_API DeprecatedTypeProperties {
 public:
  explicit DeprecatedTypeProperties(ScalarType type, Device device) : type_(type), device_(device) {}
  ScalarType scalarType() const { return type_; }
  caffe2::TypeMeta typeMeta() const { return caffe2::TypeMeta(type_); }
  DeviceType device_type() const { return device_.type(); }
  bool is_cuda() const { return device_.is_cuda(); }
  TensorOptions options() const { return TensorOptions(type_).device(device_); }
  operator TensorOptions() const { return options(); }
  std::string toString() const;
  friend bool operator==(const DeprecatedTypeProperties& a, const DeprecatedTypeProperties& b) {
    return a.type_ == b.type_ && a.device_.type() == b.device_.type();
  }
  friend bool operator!=(const DeprecatedTypeProperties& a, const DeprecatedTypeProperties& b) {
    return !(a == b);
  }

 private:
  ScalarType type_;
  Device device_;
};
MUSAHOST_THIN_API std::ostream& operator<<(std::ostream& out, const DeprecatedTypeProperties& type);

struct Generator {};

class MUSAHOST_THIN_API Tensor {
 public:
  Tensor() = default;
  Tensor(std::nullptr_t) {}
  Tensor(const Tensor& other) : data_(other.data_) {
    if (data_) data_->references.fetch_add(1, std::memory_order_relaxed);
  }
  Tensor(Tensor&& other) noexcept : data_(other.data_) { other.data_ = nullptr; }
  ~Tensor() {
    if (data_) ::musahost::thin::release(data_);
  }
  Tensor& operator=(const Tensor& other) & {
    Tensor copy(other);
    std::swap(data_, copy.data_);
    return *this;
  }
  Tensor& operator=(Tensor&& other) & noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  // Assigning to a temporary, as in x[0] = y, writes into the tensor.
  Tensor& operator=(const Tensor& other) &&;
  Tensor& operator=(Tensor&& other) &&;
  Tensor& operator=(const Scalar& value) &&;

  // Takes over one reference.
  static Tensor adopt(::musahost::thin::TensorData* data) {
    Tensor tensor;
    tensor.data_ = data;
    return tensor;
  }
  ::musahost::thin::TensorData* musahost_data() const { return data_; }

  bool defined() const { return data_ != nullptr; }
  void reset() { *this = Tensor(); }
  bool is_same(const Tensor& other) const { return data_ == other.data_; }
  bool has_storage() const { return defined(); }
  int64_t use_count() const { return data_ ? data_->references.load() : 0; }
  ::musahost::thin::TensorData* unsafeGetTensorImpl() const { return data_; }

  int64_t dim() const { return meta().dim; }
  int64_t ndimension() const { return dim(); }
  int64_t numel() const { return meta().numel; }
  int64_t storage_offset() const { return meta().storage_offset; }
  size_t element_size() const { return elementSize(meta().dtype); }
  size_t itemsize() const { return element_size(); }
  size_t nbytes() const { return static_cast<size_t>(numel()) * element_size(); }
  IntArrayRef sizes() const { return {meta().sizes, static_cast<size_t>(meta().dim)}; }
  IntArrayRef strides() const { return {meta().strides, static_cast<size_t>(meta().dim)}; }
  IntArrayRef sym_sizes() const { return sizes(); }
  int64_t size(int64_t dim) const;
  int64_t stride(int64_t dim) const;
  int64_t sym_size(int64_t dim) const { return size(dim); }
  int64_t sym_numel() const { return numel(); }
  ScalarType scalar_type() const { return data_ ? data_->dtype : ScalarType::Undefined; }
  caffe2::TypeMeta dtype() const { return caffe2::TypeMeta(scalar_type()); }
  DeprecatedTypeProperties type() const { return DeprecatedTypeProperties(scalar_type(), device()); }
  Device device() const { return Device(meta().device, meta().device == kCUDA ? 0 : -1); }
  DeviceIndex get_device() const { return meta().device == kCUDA ? 0 : -1; }
  bool is_cuda() const { return data_ && data_->device == kCUDA; }
  bool is_privateuseone() const { return is_cuda(); }
  bool is_musa() const { return is_cuda(); }
  bool is_cpu() const { return data_ && data_->device == kCPU; }
  bool is_meta() const { return false; }
  bool is_xpu() const { return false; }
  bool is_hip() const { return false; }
  bool is_mps() const { return false; }
  bool is_sparse() const { return false; }
  bool is_sparse_csr() const { return false; }
  bool is_quantized() const { return false; }
  bool is_mkldnn() const { return false; }
  bool is_nested() const { return false; }
  bool is_floating_point() const { return isFloatingType(scalar_type()); }
  bool is_complex() const { return isComplexType(scalar_type()); }
  bool is_signed() const;
  Layout layout() const { return kStrided; }
  TensorOptions options() const { return TensorOptions(scalar_type()).device(device()).layout(kStrided); }
  bool requires_grad() const { return data_ && data_->requires_grad; }
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
  bool is_non_overlapping_and_dense() const;
  MemoryFormat suggest_memory_format(bool exact = false) const;
  bool is_leaf() const;
  Tensor grad() const;
  Tensor data() const { return detach(); }
  Tensor variable_data() const { return detach(); }
  Tensor tensor_data() const { return detach(); }
  Tensor& requires_grad_(bool on = true) const;
  void set_requires_grad(bool on) const { requires_grad_(on); }
  int64_t _version() const;
  std::string toString() const { return type().toString(); }
  void print() const;

  void* data_ptr() const { return data_ ? data_->data : nullptr; }
  void* mutable_data_ptr() const { return data_ptr(); }
  const void* const_data_ptr() const { return data_ptr(); }
  template <class T>
  T* data_ptr() const {
    return static_cast<T*>(typed_data(CppTypeToScalarType<std::remove_const_t<T>>::value));
  }
  template <class T>
  T* mutable_data_ptr() const { return data_ptr<T>(); }
  template <class T>
  const std::remove_const_t<T>* const_data_ptr() const { return data_ptr<std::remove_const_t<T>>(); }
  template <class T>
  T* data() const { return data_ptr<T>(); }

  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const& {
    check_dim(N);
    return TensorAccessor<T, N>(data_ptr<T>(), data_->sizes, data_->strides);
  }
  template <class T, size_t N, template <class> class P = DefaultPtrTraits, class I = int64_t>
  GenericPackedTensorAccessor<T, N, P, I> generic_packed_accessor() const& {
    check_dim(N);
    return GenericPackedTensorAccessor<T, N, P, I>(
        static_cast<typename P<T>::PtrType>(data_ptr<T>()), data_->sizes, data_->strides);
  }
  template <class T, size_t N, template <class> class P = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, P> packed_accessor32() const& {
    check_index32();
    return generic_packed_accessor<T, N, P, int32_t>();
  }
  template <class T, size_t N, template <class> class P = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, P> packed_accessor64() const& {
    return generic_packed_accessor<T, N, P, int64_t>();
  }
  template <class T, size_t N, template <class> class P = DefaultPtrTraits, class I = int64_t>
  GenericPackedTensorAccessor<T, N, P, I> packed_accessor() const& {
    return generic_packed_accessor<T, N, P, I>();
  }

  Scalar item() const;
  template <class T>
  T item() const { return item().to<T>(); }

  // Conversions
  Tensor cuda() const;
  Tensor musa() const { return cuda(); }
  Tensor cpu() const;
  Tensor toType(ScalarType type) const { return to(type); }
  Tensor to(ScalarType dtype, bool non_blocking = false, bool copy = false,
            std::optional<MemoryFormat> format = std::nullopt) const;
  Tensor to(caffe2::TypeMeta meta, bool non_blocking = false, bool copy = false) const {
    return to(meta.toScalarType(), non_blocking, copy);
  }
  Tensor to(Device device, ScalarType dtype, bool non_blocking = false, bool copy = false,
            std::optional<MemoryFormat> format = std::nullopt) const;
  Tensor to(const Tensor& other, bool non_blocking = false, bool copy = false,
            std::optional<MemoryFormat> format = std::nullopt) const;
  Tensor to(TensorOptions options = {}, bool non_blocking = false, bool copy = false,
            std::optional<MemoryFormat> format = std::nullopt) const;
  Tensor to(Device device, bool non_blocking = false, bool copy = false) const {
    return to(TensorOptions(device), non_blocking, copy);
  }
  Tensor to(DeviceType device, bool non_blocking = false, bool copy = false) const {
    return to(TensorOptions(device), non_blocking, copy);
  }
  Tensor contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;

  // Indexing
  Tensor operator[](int64_t index) const;
  Tensor operator[](const Scalar& index) const { return (*this)[index.toLong()]; }
  Tensor operator[](const Tensor& index) const;
  Tensor index(ArrayRef<TensorIndex> indices) const;
  Tensor index(std::initializer_list<TensorIndex> indices) const;
  Tensor& index_put_(ArrayRef<TensorIndex> indices, const Tensor& value) const;
  Tensor& index_put_(ArrayRef<TensorIndex> indices, const Scalar& value) const;
  Tensor& index_put_(std::initializer_list<TensorIndex> indices, const Tensor& value) const;
  Tensor& index_put_(std::initializer_list<TensorIndex> indices, const Scalar& value) const;

  Tensor operator-() const;
  Tensor operator~() const;
  Tensor& operator+=(const Tensor& other) { return add_(other); }
  Tensor& operator+=(const Scalar& other) { return add_(other); }
  Tensor& operator-=(const Tensor& other) { return sub_(other); }
  Tensor& operator-=(const Scalar& other) { return sub_(other); }
  Tensor& operator*=(const Tensor& other) { return mul_(other); }
  Tensor& operator*=(const Scalar& other) { return mul_(other); }
  Tensor& operator/=(const Tensor& other) { return div_(other); }
  Tensor& operator/=(const Scalar& other) { return div_(other); }

#include "ops_methods.h"

 private:
  const ::musahost::thin::TensorData& meta() const {
    if (C10_UNLIKELY(!data_)) fail_undefined();
    return *data_;
  }
  [[noreturn]] static void fail_undefined();
  void* typed_data(ScalarType wanted) const;
  void check_dim(size_t wanted) const;
  void check_index32() const;

  ::musahost::thin::TensorData* data_ = nullptr;
};

using TensorBase = Tensor;
using OptionalTensorRef = std::optional<Tensor>;

MUSAHOST_THIN_API std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

#define MUSAHOST_THIN_OPERATOR(op)                                        \
  MUSAHOST_THIN_API Tensor operator op(const Tensor& a, const Tensor& b); \
  MUSAHOST_THIN_API Tensor operator op(const Tensor& a, const Scalar& b); \
  MUSAHOST_THIN_API Tensor operator op(const Scalar& a, const Tensor& b);
MUSAHOST_THIN_OPERATOR(+)
MUSAHOST_THIN_OPERATOR(-)
MUSAHOST_THIN_OPERATOR(*)
MUSAHOST_THIN_OPERATOR(/)
MUSAHOST_THIN_OPERATOR(%)
MUSAHOST_THIN_OPERATOR(&)
MUSAHOST_THIN_OPERATOR(|)
MUSAHOST_THIN_OPERATOR(^)
MUSAHOST_THIN_OPERATOR(<)
MUSAHOST_THIN_OPERATOR(<=)
MUSAHOST_THIN_OPERATOR(>)
MUSAHOST_THIN_OPERATOR(>=)
MUSAHOST_THIN_OPERATOR(==)
MUSAHOST_THIN_OPERATOR(!=)
#undef MUSAHOST_THIN_OPERATOR

}  // namespace at
