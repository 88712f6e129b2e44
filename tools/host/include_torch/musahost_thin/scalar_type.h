// Element types, devices, layouts and memory formats, with torch's numbers and names.
#pragma once
#include "array_ref.h"
#include "complex.h"
#include "half.h"

namespace c10 {

// name, C++ type, torch's number, torch's name in error texts is the enumerator itself.
#define MUSAHOST_FORALL_TYPES(_)    \
  _(Byte, uint8_t, 0)               \
  _(Char, int8_t, 1)                \
  _(Short, int16_t, 2)              \
  _(Int, int32_t, 3)                \
  _(Long, int64_t, 4)               \
  _(Half, ::c10::Half, 5)           \
  _(Float, float, 6)                \
  _(Double, double, 7)              \
  _(ComplexFloat, ::c10::complex<float>, 9)   \
  _(ComplexDouble, ::c10::complex<double>, 10) \
  _(Bool, bool, 11)                 \
  _(BFloat16, ::c10::BFloat16, 15)  \
  _(Float8_e5m2, ::c10::Float8_e5m2, 23)      \
  _(Float8_e4m3fn, ::c10::Float8_e4m3fn, 24)  \
  _(UInt16, uint16_t, 27)           \
  _(UInt32, uint32_t, 28)           \
  _(UInt64, uint64_t, 29)

enum class ScalarType : int8_t {
#define MUSAHOST_TYPE(name, type, number) name = number,
  MUSAHOST_FORALL_TYPES(MUSAHOST_TYPE)
#undef MUSAHOST_TYPE
  ComplexHalf = 8,
  Undefined = 127,
};

template <class T>
struct CppTypeToScalarType;
namespace impl {
template <ScalarType>
struct ScalarTypeToCPPType;
template <ScalarType type>
using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<type>::type;
}  // namespace impl

#define MUSAHOST_TYPE(name, ctype, number)                                             \
  template <>                                                                         \
  struct CppTypeToScalarType<ctype> {                                                 \
    static constexpr ScalarType value = ScalarType::name;                             \
  };                                                                                  \
  template <>                                                                         \
  struct impl::ScalarTypeToCPPType<ScalarType::name> {                                \
    using type = ctype;                                                               \
  };                                                                                  \
  constexpr ScalarType k##name = ScalarType::name;
MUSAHOST_FORALL_TYPES(MUSAHOST_TYPE)
#undef MUSAHOST_TYPE

MUSAHOST_THIN_API const char* toString(ScalarType type);
MUSAHOST_THIN_API size_t elementSize(ScalarType type);
MUSAHOST_THIN_API ScalarType promoteTypes(ScalarType a, ScalarType b);
MUSAHOST_THIN_API std::ostream& operator<<(std::ostream& out, ScalarType type);

constexpr bool isFloatingType(ScalarType t) {
  return t == ScalarType::Half || t == ScalarType::Float || t == ScalarType::Double ||
         t == ScalarType::BFloat16 || t == ScalarType::Float8_e5m2 || t == ScalarType::Float8_e4m3fn;
}
constexpr bool isReducedFloatingType(ScalarType t) {
  return isFloatingType(t) && t != ScalarType::Float && t != ScalarType::Double;
}
constexpr bool isComplexType(ScalarType t) {
  return t == ScalarType::ComplexFloat || t == ScalarType::ComplexDouble || t == ScalarType::ComplexHalf;
}
constexpr bool isIntegralType(ScalarType t, bool include_bool) {
  return (include_bool && t == ScalarType::Bool) ||
         !(isFloatingType(t) || isComplexType(t) || t == ScalarType::Bool || t == ScalarType::Undefined);
}

// PrivateUse1 (MUSA) and CUDA are one device here, so both spellings compare equal.
enum class DeviceType : int8_t {
  CPU = 0,
  CUDA = 1,
  PrivateUse1 = 1,
  MUSA = 1,
  Meta = 14,
};
constexpr DeviceType kCPU = DeviceType::CPU;
constexpr DeviceType kCUDA = DeviceType::CUDA;
constexpr DeviceType kPrivateUse1 = DeviceType::CUDA;
constexpr DeviceType kMUSA = DeviceType::CUDA;
constexpr DeviceType kMeta = DeviceType::Meta;
using DeviceIndex = int8_t;

MUSAHOST_THIN_API std::string DeviceTypeName(DeviceType type, bool lower_case = true);
MUSAHOST_THIN_API std::ostream& operator<<(std::ostream& out, DeviceType type);

class MUSAHOST_THIN_API Device {
 public:
  using Type = DeviceType;
  constexpr Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
  Device(const std::string& text);  // "cuda:1"
  Device(const char* text) : Device(std::string(text)) {}
  constexpr DeviceType type() const { return type_; }
  constexpr DeviceIndex index() const { return index_; }
  constexpr bool has_index() const { return index_ != -1; }
  void set_index(DeviceIndex index) { index_ = index; }
  constexpr bool is_cuda() const { return type_ == DeviceType::CUDA; }
  constexpr bool is_privateuseone() const { return is_cuda(); }
  constexpr bool is_musa() const { return is_cuda(); }
  constexpr bool is_cpu() const { return type_ == DeviceType::CPU; }
  constexpr bool is_meta() const { return type_ == DeviceType::Meta; }
  constexpr bool is_xpu() const { return false; }
  constexpr bool is_mps() const { return false; }
  constexpr bool is_hip() const { return false; }
  std::string str() const;
  friend constexpr bool operator==(const Device& a, const Device& b) {
    return a.type_ == b.type_ && a.index_ == b.index_;
  }
  friend constexpr bool operator!=(const Device& a, const Device& b) { return !(a == b); }

 private:
  DeviceType type_;
  DeviceIndex index_;
};
MUSAHOST_THIN_API std::ostream& operator<<(std::ostream& out, const Device& device);

enum class Layout : int8_t { Strided, Sparse, SparseCsr, Mkldnn, SparseCsc, SparseBsr, SparseBsc, Jagged };
constexpr Layout kStrided = Layout::Strided;
constexpr Layout kSparse = Layout::Sparse;

enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

}  // namespace c10

namespace caffe2 {

// What Tensor::dtype() returns. Not a ScalarType, as in torch, though the two compare.
class MUSAHOST_THIN_API TypeMeta {
 public:
  TypeMeta() = default;
  explicit TypeMeta(c10::ScalarType type) : type_(type) {}
  static TypeMeta fromScalarType(c10::ScalarType type) { return TypeMeta(type); }
  template <class T>
  static TypeMeta Make() { return TypeMeta(c10::CppTypeToScalarType<T>::value); }
  template <class T>
  bool Match() const { return type_ == c10::CppTypeToScalarType<T>::value; }
  c10::ScalarType toScalarType() const { return type_; }
  bool isScalarType(c10::ScalarType type) const { return type_ == type; }
  size_t itemsize() const { return c10::elementSize(type_); }
  std::string_view name() const;
  friend bool operator==(TypeMeta a, TypeMeta b) { return a.type_ == b.type_; }
  friend bool operator!=(TypeMeta a, TypeMeta b) { return a.type_ != b.type_; }
  friend bool operator==(TypeMeta a, c10::ScalarType b) { return a.type_ == b; }
  friend bool operator!=(TypeMeta a, c10::ScalarType b) { return a.type_ != b; }
  friend bool operator==(c10::ScalarType a, TypeMeta b) { return a == b.type_; }
  friend bool operator!=(c10::ScalarType a, TypeMeta b) { return a != b.type_; }

 private:
  c10::ScalarType type_ = c10::ScalarType::Undefined;
};
MUSAHOST_THIN_API std::ostream& operator<<(std::ostream& out, TypeMeta meta);

}  // namespace caffe2

namespace c10 {

using caffe2::TypeMeta;
inline ScalarType typeMetaToScalarType(caffe2::TypeMeta meta) { return meta.toScalarType(); }
inline caffe2::TypeMeta scalarTypeToTypeMeta(ScalarType type) { return caffe2::TypeMeta(type); }

}  // namespace c10
