// c10::complex: enough for kernels that dispatch over complex types.
#pragma once
#include "macros.h"
#include <complex>

namespace c10 {

template <class T>
struct alignas(sizeof(T) * 2) complex {
  using value_type = T;
  T real_{}, imag_{};

  constexpr complex() = default;
  constexpr MUSAHOST_HD complex(T re, T im = T()) : real_(re), imag_(im) {}
  template <class U>
  constexpr MUSAHOST_HD explicit complex(const complex<U>& other)
      : real_(static_cast<T>(other.real_)), imag_(static_cast<T>(other.imag_)) {}
  complex(const std::complex<T>& other) : real_(other.real()), imag_(other.imag()) {}
  operator std::complex<T>() const { return {real_, imag_}; }
  constexpr MUSAHOST_HD T real() const { return real_; }
  constexpr MUSAHOST_HD T imag() const { return imag_; }
  constexpr MUSAHOST_HD void real(T value) { real_ = value; }
  constexpr MUSAHOST_HD void imag(T value) { imag_ = value; }
  constexpr MUSAHOST_HD complex& operator+=(const complex& o) { return *this = *this + o; }
  constexpr MUSAHOST_HD complex& operator-=(const complex& o) { return *this = *this - o; }
  constexpr MUSAHOST_HD complex& operator*=(const complex& o) { return *this = *this * o; }
  constexpr MUSAHOST_HD complex& operator/=(const complex& o) { return *this = *this / o; }
  friend constexpr MUSAHOST_HD complex operator+(const complex& a, const complex& b) {
    return {a.real_ + b.real_, a.imag_ + b.imag_};
  }
  friend constexpr MUSAHOST_HD complex operator-(const complex& a, const complex& b) {
    return {a.real_ - b.real_, a.imag_ - b.imag_};
  }
  friend constexpr MUSAHOST_HD complex operator*(const complex& a, const complex& b) {
    return {a.real_ * b.real_ - a.imag_ * b.imag_, a.real_ * b.imag_ + a.imag_ * b.real_};
  }
  friend constexpr MUSAHOST_HD complex operator/(const complex& a, const complex& b) {
    const T norm = b.real_ * b.real_ + b.imag_ * b.imag_;
    return {(a.real_ * b.real_ + a.imag_ * b.imag_) / norm,
            (a.imag_ * b.real_ - a.real_ * b.imag_) / norm};
  }
  friend constexpr MUSAHOST_HD complex operator-(const complex& a) { return {-a.real_, -a.imag_}; }
  friend constexpr MUSAHOST_HD bool operator==(const complex& a, const complex& b) {
    return a.real_ == b.real_ && a.imag_ == b.imag_;
  }
  friend constexpr MUSAHOST_HD bool operator!=(const complex& a, const complex& b) { return !(a == b); }
};

}  // namespace c10
