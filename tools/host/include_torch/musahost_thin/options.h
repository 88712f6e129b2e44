// c10::TensorOptions: dtype, layout, device and the rest, each given or not.
#pragma once
#include "scalar.h"

namespace c10 {

class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(ScalarType type) : dtype_(type) {}
  TensorOptions(caffe2::TypeMeta meta) : dtype_(meta.toScalarType()) {}
  TensorOptions(Device device) : device_(device) {}
  TensorOptions(DeviceType type) : device_(Device(type)) {}
  TensorOptions(const char* device) : device_(Device(device)) {}
  TensorOptions(const std::string& device) : device_(Device(device)) {}
  TensorOptions(Layout layout) : layout_(layout) {}
  explicit TensorOptions(MemoryFormat format) : memory_format_(format) {}

  TensorOptions dtype(std::optional<ScalarType> type) const { return with(&TensorOptions::dtype_, type); }
  TensorOptions dtype(ScalarType type) const { return dtype(std::optional<ScalarType>(type)); }
  TensorOptions dtype(caffe2::TypeMeta meta) const { return dtype(meta.toScalarType()); }
  template <class T>
  TensorOptions dtype() const { return dtype(CppTypeToScalarType<T>::value); }
  TensorOptions device(std::optional<Device> device) const { return with(&TensorOptions::device_, device); }
  TensorOptions device(Device device) const { return this->device(std::optional<Device>(device)); }
  TensorOptions device(DeviceType type, DeviceIndex index = -1) const { return device(Device(type, index)); }
  TensorOptions device(const char* text) const { return device(Device(text)); }
  TensorOptions device_index(DeviceIndex index) const { return device(Device(kCUDA, index)); }
  TensorOptions layout(std::optional<Layout> layout) const { return with(&TensorOptions::layout_, layout); }
  TensorOptions requires_grad(std::optional<bool> on) const { return with(&TensorOptions::requires_grad_, on); }
  TensorOptions pinned_memory(std::optional<bool> on) const { return with(&TensorOptions::pinned_memory_, on); }
  TensorOptions memory_format(std::optional<MemoryFormat> format) const {
    return with(&TensorOptions::memory_format_, format);
  }

  caffe2::TypeMeta dtype() const { return caffe2::TypeMeta(dtype_.value_or(ScalarType::Float)); }
  Device device() const { return device_.value_or(Device(kCPU)); }
  DeviceIndex device_index() const { return device().index(); }
  Layout layout() const { return layout_.value_or(kStrided); }
  bool requires_grad() const { return requires_grad_.value_or(false); }
  bool pinned_memory() const { return pinned_memory_.value_or(false); }
  bool has_dtype() const { return dtype_.has_value(); }
  bool has_device() const { return device_.has_value(); }
  bool has_layout() const { return layout_.has_value(); }
  bool has_requires_grad() const { return requires_grad_.has_value(); }
  bool has_pinned_memory() const { return pinned_memory_.has_value(); }
  bool has_memory_format() const { return memory_format_.has_value(); }
  bool is_sparse() const { return layout() != kStrided; }
  std::optional<ScalarType> dtype_opt() const { return dtype_; }
  std::optional<Device> device_opt() const { return device_; }
  std::optional<Layout> layout_opt() const { return layout_; }
  std::optional<bool> requires_grad_opt() const { return requires_grad_; }
  std::optional<bool> pinned_memory_opt() const { return pinned_memory_; }
  std::optional<MemoryFormat> memory_format_opt() const { return memory_format_; }

 private:
  template <class T>
  TensorOptions with(std::optional<T> TensorOptions::*field, const std::optional<T>& value) const {
    TensorOptions copy = *this;
    copy.*field = value;
    return copy;
  }

  std::optional<ScalarType> dtype_;
  std::optional<Device> device_;
  std::optional<Layout> layout_;
  std::optional<bool> requires_grad_, pinned_memory_;
  std::optional<MemoryFormat> memory_format_;
};

inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
inline TensorOptions dtype(caffe2::TypeMeta meta) { return TensorOptions(meta); }
template <class T>
TensorOptions dtype() { return TensorOptions(CppTypeToScalarType<T>::value); }
inline TensorOptions device(Device device) { return TensorOptions(device); }
inline TensorOptions device(DeviceType type) { return TensorOptions(type); }
inline TensorOptions device_index(DeviceIndex index) { return TensorOptions(Device(kCUDA, index)); }
inline TensorOptions layout(Layout layout) { return TensorOptions(layout); }
inline TensorOptions requires_grad(bool on = true) { return TensorOptions().requires_grad(on); }
inline TensorOptions memory_format(MemoryFormat format) { return TensorOptions().memory_format(format); }

}  // namespace c10
