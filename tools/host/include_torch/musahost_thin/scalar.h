// c10::Scalar: one number of any kind.
#pragma once
#include "error.h"

namespace c10 {

class MUSAHOST_THIN_API Scalar {
 public:
  enum class Tag : int8_t { integer, floating, boolean, complex };

  Scalar() : Scalar(int64_t{0}) {}
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Scalar(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      tag_ = Tag::boolean;
      integer_ = value;
    } else if constexpr (std::is_integral_v<T>) {
      tag_ = Tag::integer;
      integer_ = static_cast<int64_t>(value);
    } else {
      tag_ = Tag::floating;
      real_ = static_cast<double>(value);
    }
  }
  Scalar(Half value) : Scalar(static_cast<double>(static_cast<float>(value))) {}
  Scalar(BFloat16 value) : Scalar(static_cast<double>(static_cast<float>(value))) {}
  template <class T>
  Scalar(const c10::complex<T>& value) : tag_(Tag::complex), real_(value.real()), imaginary_(value.imag()) {}

  Tag tag() const { return tag_; }
  bool isFloatingPoint() const { return tag_ == Tag::floating; }
  bool isComplex() const { return tag_ == Tag::complex; }
  bool isBoolean() const { return tag_ == Tag::boolean; }
  bool isIntegral(bool include_bool) const {
    return tag_ == Tag::integer || (include_bool && isBoolean());
  }
  ScalarType type() const;
  double toDouble() const { return isIntegral(true) ? static_cast<double>(integer_) : real_; }
  int64_t toLong() const { return isIntegral(true) ? integer_ : static_cast<int64_t>(real_); }
  double imaginary() const { return imaginary_; }
  float toFloat() const { return static_cast<float>(toDouble()); }
  int toInt() const { return static_cast<int>(toLong()); }
  bool toBool() const { return isIntegral(true) ? integer_ != 0 : real_ != 0; }
  Half toHalf() const { return Half(toFloat()); }
  BFloat16 toBFloat16() const { return BFloat16(toFloat()); }
  template <class T>
  T to() const {
    if constexpr (std::is_same_v<T, bool>) {
      return toBool();
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(toLong());
    } else if constexpr (std::is_same_v<T, c10::complex<float>>) {
      return {toFloat(), static_cast<float>(imaginary_)};
    } else if constexpr (std::is_same_v<T, c10::complex<double>>) {
      return {toDouble(), imaginary_};
    } else if constexpr (std::is_same_v<T, double>) {
      return toDouble();
    } else {
      return T(toFloat());
    }
  }
  Scalar operator-() const;
  template <class T>
  bool equal(T value) const { return toDouble() == static_cast<double>(value); }

 private:
  Tag tag_ = Tag::integer;
  union {
    int64_t integer_;
    double real_;
  };
  double imaginary_ = 0;
};

MUSAHOST_THIN_API std::ostream& operator<<(std::ostream& out, const Scalar& value);

}  // namespace c10
