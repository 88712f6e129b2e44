// What the thin torch library shares between its own files.
#pragma once
// The library itself needs nothing of the device.
#define MUSAHOST_THIN_LIBRARY 1
#include "../../include_torch/musahost_thin/torch.h"
#include <iostream>

namespace musahost::thin {

// A Python exception on its way through C++; `pending` is its number on the Python side.
class PythonError : public c10::Error {
 public:
  PythonError(std::string message, int pending) : Error(std::move(message)), pending(pending) {}
  ~PythonError() override;
  int pending;
};

// An argument of a call into Python that borrows what it points to: no ownership, no destructor.
struct Arg : MusahostValue {
  Arg() : MusahostValue{} {}
  Arg(std::nullopt_t) : Arg() {}
  Arg(const at::Tensor& tensor);
  Arg(bool value) : Arg() { tag = boolean_tag, integer = value; }
  Arg(int value) : Arg(static_cast<int64_t>(value)) {}
  Arg(int64_t value) : Arg() { tag = integer_tag, integer = value; }
  Arg(double value) : Arg() { tag = real_tag, real = value; }
  Arg(const c10::Scalar& value);
  Arg(std::string_view text) : Arg() {
    tag = text_tag, pointer = text.data(), length = static_cast<int64_t>(text.size());
  }
  Arg(c10::ScalarType type) : Arg() { tag = dtype_tag, integer = static_cast<int64_t>(type); }
  Arg(c10::Device device) : Arg() {
    tag = device_tag, integer = static_cast<int64_t>(device.type()), extra = device.index();
  }
  Arg(c10::Layout layout) : Arg() { tag = layout_tag, integer = static_cast<int64_t>(layout); }
  Arg(c10::MemoryFormat format) : Arg() {
    tag = memory_format_tag, integer = static_cast<int64_t>(format);
  }
  Arg(c10::IntArrayRef list) : Arg() {
    tag = integers_tag, pointer = list.data(), length = static_cast<int64_t>(list.size());
  }
  Arg(c10::ArrayRef<double> list) : Arg() {
    tag = reals_tag, pointer = list.data(), length = static_cast<int64_t>(list.size());
  }
  Arg(c10::ArrayRef<at::Tensor> list);
  Arg(const c10::OptionalIntArrayRef& list) : Arg() {
    if (list) *this = Arg(*list);
  }
  Arg(const Box& box) : MusahostValue(box) {}
  template <class T>
  Arg(const std::optional<T>& value) : Arg() {
    if (value) *this = Arg(*value);
  }
};

at::Tensor call_tensor(const char* op, const MusahostValue* arguments, size_t count);
std::vector<at::Tensor> call_tensors(const char* op, const MusahostValue* arguments, size_t count);
c10::Scalar call_scalar(const char* op, const MusahostValue* arguments, size_t count);
void bind(MusahostCall call, MusahostRelease release);
std::vector<at::Tensor> read_tensors(const MusahostValue& value);

}  // namespace musahost::thin
