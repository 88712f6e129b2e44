// c10::Error and the TORCH_CHECK family. Message pieces are joined in the runtime library.
#pragma once
#include "scalar_type.h"

namespace at {
class Tensor;
}

namespace c10 {

class MUSAHOST_THIN_API Error : public std::exception {
 public:
  explicit Error(std::string message);
  ~Error() override;
  const char* what() const noexcept override { return message_.c_str(); }
  const std::string& msg() const { return message_; }
  const char* what_without_backtrace() const noexcept { return message_.c_str(); }

 private:
  std::string message_;
};

// Each comes out of the module as the Python exception of its name.
#define MUSAHOST_THIN_ERROR(name)              \
  class MUSAHOST_THIN_API name : public Error { \
   public:                                     \
    using Error::Error;                        \
    ~name() override;                          \
  };
MUSAHOST_THIN_ERROR(IndexError)
MUSAHOST_THIN_ERROR(ValueError)
MUSAHOST_THIN_ERROR(TypeError)
MUSAHOST_THIN_ERROR(NotImplementedError)
MUSAHOST_THIN_ERROR(OutOfMemoryError)
MUSAHOST_THIN_ERROR(LinAlgError)
#undef MUSAHOST_THIN_ERROR

}  // namespace c10

namespace musahost::thin {

// One piece of a message; the constructors spare the candidate a stream per message.
class MUSAHOST_THIN_API Piece {
 public:
  Piece(const char* text);
  Piece(const std::string& text) : text_(text) {}
  Piece(std::string_view text) : text_(text) {}
  Piece(bool value);
  Piece(char value);
  Piece(int value);
  Piece(unsigned value);
  Piece(long value);
  Piece(unsigned long value);
  Piece(long long value);
  Piece(unsigned long long value);
  Piece(double value);
  Piece(float value) : Piece(static_cast<double>(value)) {}
  Piece(c10::ScalarType type);
  Piece(caffe2::TypeMeta meta);
  Piece(c10::DeviceType type);
  Piece(const c10::Device& device);
  Piece(c10::IntArrayRef list);
  Piece(const std::vector<int64_t>& list) : Piece(c10::IntArrayRef(list)) {}
  Piece(const at::Tensor& tensor);
  template <class T>
  Piece(const T& value) {
    if constexpr (std::is_enum_v<T> && std::is_convertible_v<T, int>) {
      text_ = std::to_string(static_cast<long long>(value));
    } else {
      std::ostringstream out;
      out << value;
      text_ = out.str();
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

enum class Kind { error, index, value, type, not_implemented, linalg };
using Pieces = std::initializer_list<Piece>;

MUSAHOST_THIN_API std::string join(Pieces pieces);
// `fallback` is the text where the candidate gave none. Throws the c10 exception of `kind`.
[[noreturn]] MUSAHOST_THIN_API void fail(Kind kind, const char* fallback, Pieces pieces);
// TORCH_INTERNAL_ASSERT's wording.
[[noreturn]] MUSAHOST_THIN_API void fail_assert(const char* condition, const char* file, int line,
                                                Pieces pieces);
[[noreturn]] MUSAHOST_THIN_API void fail_compare(const char* text, Pieces sides, Pieces pieces);
MUSAHOST_THIN_API void warn(Pieces pieces);

}  // namespace musahost::thin

namespace c10 {
template <class... A>
std::string str(const A&... pieces) {
  return ::musahost::thin::join({::musahost::thin::Piece(pieces)...});
}
}  // namespace c10

#define MUSAHOST_THIN_CHECK(kind, condition, ...)                                              \
  do {                                                                                         \
    if (C10_UNLIKELY(!(condition)))                                                            \
      ::musahost::thin::fail(::musahost::thin::Kind::kind,                                     \
                             "Expected " #condition                                            \
                             " to be true, but got false.  (Could this error message be "      \
                             "improved?  If so, please report an enhancement request to "      \
                             "PyTorch.)",                                                      \
                             {__VA_ARGS__});                                                   \
  } while (false)

#define TORCH_CHECK(condition, ...) MUSAHOST_THIN_CHECK(error, condition, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(condition, ...) MUSAHOST_THIN_CHECK(index, condition, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) MUSAHOST_THIN_CHECK(value, condition, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) MUSAHOST_THIN_CHECK(type, condition, ##__VA_ARGS__)
#define TORCH_CHECK_LINALG(condition, ...) MUSAHOST_THIN_CHECK(linalg, condition, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) \
  MUSAHOST_THIN_CHECK(not_implemented, condition, ##__VA_ARGS__)
#define TORCH_CHECK_IF_NOT_ON_CUDA(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define TORCH_CHECK_WITH(error, condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)

#define MUSAHOST_THIN_COMPARE(op, a, b, ...)                                                   \
  do {                                                                                         \
    const auto& musahost_a = (a);                                                              \
    const auto& musahost_b = (b);                                                              \
    if (C10_UNLIKELY(!(musahost_a op musahost_b)))                                             \
      ::musahost::thin::fail_compare(#a " " #op " " #b, {musahost_a, musahost_b}, {__VA_ARGS__}); \
  } while (false)
#define TORCH_CHECK_EQ(a, b, ...) MUSAHOST_THIN_COMPARE(==, a, b, ##__VA_ARGS__)
#define TORCH_CHECK_NE(a, b, ...) MUSAHOST_THIN_COMPARE(!=, a, b, ##__VA_ARGS__)
#define TORCH_CHECK_LT(a, b, ...) MUSAHOST_THIN_COMPARE(<, a, b, ##__VA_ARGS__)
#define TORCH_CHECK_LE(a, b, ...) MUSAHOST_THIN_COMPARE(<=, a, b, ##__VA_ARGS__)
#define TORCH_CHECK_GT(a, b, ...) MUSAHOST_THIN_COMPARE(>, a, b, ##__VA_ARGS__)
#define TORCH_CHECK_GE(a, b, ...) MUSAHOST_THIN_COMPARE(>=, a, b, ##__VA_ARGS__)

#define TORCH_INTERNAL_ASSERT(condition, ...)                                                  \
  do {                                                                                         \
    if (C10_UNLIKELY(!(condition)))                                                            \
      ::musahost::thin::fail_assert(#condition, __FILE__, __LINE__, {__VA_ARGS__});            \
  } while (false)
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) \
  do {                                        \
  } while (false)
#define AT_ASSERT(condition, ...) TORCH_INTERNAL_ASSERT(condition, ##__VA_ARGS__)
#define AT_ASSERTM(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define AT_ERROR(...) ::musahost::thin::fail(::musahost::thin::Kind::error, "", {__VA_ARGS__})
#define AT_INDEX_ERROR(...) ::musahost::thin::fail(::musahost::thin::Kind::index, "", {__VA_ARGS__})
#define C10_THROW_ERROR(kind, message) throw ::c10::kind(message)
#define TORCH_WARN(...) ::musahost::thin::warn({__VA_ARGS__})
#define TORCH_WARN_DEPRECATION(...) TORCH_WARN(__VA_ARGS__)
#define TORCH_WARN_ONCE(...)                               \
  do {                                                     \
    static const bool musahost_warned = [&] {              \
      TORCH_WARN(__VA_ARGS__);                             \
      return true;                                         \
    }();                                                   \
    (void)musahost_warned;                                 \
  } while (false)
#define AT_WARN(...) TORCH_WARN(__VA_ARGS__)
#define C10_LOG_API_USAGE_ONCE(...)
