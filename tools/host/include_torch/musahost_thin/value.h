// The boxed values that cross between compiled code and Python, and the calls that carry them.
#pragma once
#include "options.h"

extern "C" {

// Layout shared with bridge_values.py.
struct MusahostValue {
  int32_t tag;
  int32_t extra;  // device index
  union {
    int64_t integer;
    double real;
    const void* pointer;
  };
  union {
    int64_t length;
    double imaginary;
  };
};

// Python's half: runs torch. 0, or 1 with the message in `result` (a string) and the number of
// the pending Python exception in its `extra`.
typedef int (*MusahostCall)(const char* op, const MusahostValue* arguments, int64_t count,
                            MusahostValue* result);
typedef void (*MusahostRelease)(int64_t handle);
}

namespace at {
class Tensor;
struct TensorIndex;
}  // namespace at

namespace musahost::thin {

struct TensorData;

enum Tag : int32_t {
  none_tag,
  tensor_tag,         // pointer: TensorData, length: its handle
  integer_tag,        // integer
  real_tag,           // real
  boolean_tag,        // integer
  text_tag,           // pointer, length
  integers_tag,       // pointer to int64_t, length
  reals_tag,          // pointer to double, length
  list_tag,           // pointer to MusahostValue, length
  tuple_tag,          // likewise
  dtype_tag,          // integer: ScalarType
  device_tag,         // integer: DeviceType, extra: index
  layout_tag,         // integer
  memory_format_tag,  // integer
  complex_tag,        // real, imaginary
  default_tag,        // an argument that was not given
  dict_tag,           // list of key, value, key, value ...
  slice_tag,          // list of start, stop, step
  ellipsis_tag,
  tensors_tag,  // pointer to at::Tensor objects, length; only towards Python
};

// An owned MusahostValue.
class MUSAHOST_THIN_API Box : public MusahostValue {
 public:
  Box() : MusahostValue{} {}
  Box(const Box& other);
  Box(Box&& other) noexcept;
  Box& operator=(Box other) noexcept;
  ~Box();

  Box(std::nullopt_t) : Box() {}
  Box(const at::Tensor& tensor);
  Box(const at::TensorIndex& index);
  Box(bool value) : Box() { tag = boolean_tag, integer = value; }
  Box(int value) : Box(static_cast<int64_t>(value)) {}
  Box(unsigned value) : Box(static_cast<int64_t>(value)) {}
  Box(long value) : Box() { tag = integer_tag, integer = value; }
  Box(unsigned long value) : Box(static_cast<long>(value)) {}
  Box(long long value) : Box(static_cast<long>(value)) {}
  Box(unsigned long long value) : Box(static_cast<long>(value)) {}
  Box(double value) : Box() { tag = real_tag, real = value; }
  Box(float value) : Box(static_cast<double>(value)) {}
  Box(c10::Half value) : Box(static_cast<float>(value)) {}
  Box(c10::BFloat16 value) : Box(static_cast<float>(value)) {}
  Box(const c10::Scalar& value);
  Box(std::string_view text);
  Box(const char* text) : Box(std::string_view(text)) {}
  Box(const std::string& text) : Box(std::string_view(text)) {}
  Box(c10::ScalarType type) : Box() { tag = dtype_tag, integer = static_cast<int64_t>(type); }
  Box(caffe2::TypeMeta meta) : Box(meta.toScalarType()) {}
  Box(const c10::Device& device) : Box() {
    tag = device_tag, integer = static_cast<int64_t>(device.type()), extra = device.index();
  }
  Box(c10::DeviceType type) : Box(c10::Device(type)) {}
  Box(c10::Layout layout) : Box() { tag = layout_tag, integer = static_cast<int64_t>(layout); }
  Box(c10::MemoryFormat format) : Box() {
    tag = memory_format_tag, integer = static_cast<int64_t>(format);
  }
  Box(c10::IntArrayRef list);
  Box(const c10::OptionalIntArrayRef& list) : Box() {
    if (list) *this = Box(*list);
  }
  Box(c10::ArrayRef<double> list);
  Box(c10::ArrayRef<at::Tensor> list);
  Box(c10::ArrayRef<at::TensorIndex> list);
  template <class T>
  Box(const std::optional<T>& value) : Box() {
    if (value) *this = Box(*value);
  }
  // Takes the items over: a list, tuple or dict.
  static Box sequence(Tag tag, std::vector<Box> items);

 private:
  void clear() noexcept;
};

// Runs `op` ("sum.dim_IntList" of aten, or "@name" of the bridge's own) in Python's torch.
MUSAHOST_THIN_API Box call(const char* op, const MusahostValue* arguments, size_t count);

// Reading what Python gave. The kind was checked there.
MUSAHOST_THIN_API at::Tensor read_tensor(const MusahostValue& value);
MUSAHOST_THIN_API c10::Scalar read_scalar(const MusahostValue& value);
MUSAHOST_THIN_API std::string read_text(const MusahostValue& value);
MUSAHOST_THIN_API c10::Device read_device(const MusahostValue& value);
inline const MusahostValue* items(const MusahostValue& value) {
  return static_cast<const MusahostValue*>(value.pointer);
}

}  // namespace musahost::thin
