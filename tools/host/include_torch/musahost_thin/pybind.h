// A stand-in for pybind11's module definitions: a table of functions over boxed values.
#pragma once
#include "factory.h"

namespace musahost::thin {

// How one C++ argument or result type is described to Python, read from and written to boxes.
// `code` letters: T tensor, ? bool, struct's bBhHiIqQ integers, d float, s text, S Scalar, D dtype,
// V device, L layout, M memory format, N none, O<x> optional x, [x] list of x, (xy) tuple,
// {xy} dict, A<n>x fixed-size list.
template <class T, class = void>
struct Cast;

#define MUSAHOST_THIN_CAST(type, letter, read)                          \
  template <>                                                           \
  struct Cast<type> {                                                   \
    using Holder = type;                                                \
    static void code(std::string& out) { out += letter; }               \
    static Holder from(const MusahostValue& v) { return read; }         \
    static Box box(const type& value) { return Box(value); }            \
  };
MUSAHOST_THIN_CAST(at::Tensor, 'T', read_tensor(v))
MUSAHOST_THIN_CAST(bool, '?', v.integer != 0)
MUSAHOST_THIN_CAST(signed char, 'b', static_cast<signed char>(v.integer))
MUSAHOST_THIN_CAST(unsigned char, 'B', static_cast<unsigned char>(v.integer))
MUSAHOST_THIN_CAST(short, 'h', static_cast<short>(v.integer))
MUSAHOST_THIN_CAST(unsigned short, 'H', static_cast<unsigned short>(v.integer))
MUSAHOST_THIN_CAST(int, 'i', static_cast<int>(v.integer))
MUSAHOST_THIN_CAST(unsigned, 'I', static_cast<unsigned>(v.integer))
MUSAHOST_THIN_CAST(long, 'q', static_cast<long>(v.integer))
MUSAHOST_THIN_CAST(unsigned long, 'Q', static_cast<unsigned long>(v.integer))
MUSAHOST_THIN_CAST(long long, 'q', static_cast<long long>(v.integer))
MUSAHOST_THIN_CAST(unsigned long long, 'Q', static_cast<unsigned long long>(v.integer))
MUSAHOST_THIN_CAST(double, 'd', v.real)
MUSAHOST_THIN_CAST(float, 'd', static_cast<float>(v.real))
MUSAHOST_THIN_CAST(std::string, 's', read_text(v))
MUSAHOST_THIN_CAST(c10::Scalar, 'S', read_scalar(v))
MUSAHOST_THIN_CAST(c10::ScalarType, 'D', static_cast<c10::ScalarType>(v.integer))
MUSAHOST_THIN_CAST(c10::Device, 'V', read_device(v))
MUSAHOST_THIN_CAST(c10::Layout, 'L', static_cast<c10::Layout>(v.integer))
MUSAHOST_THIN_CAST(c10::MemoryFormat, 'M', static_cast<c10::MemoryFormat>(v.integer))
#undef MUSAHOST_THIN_CAST

template <>
struct Cast<std::string_view> : Cast<std::string> {
  static Box box(std::string_view text) { return Box(text); }
};
template <>
struct Cast<const char*> : Cast<std::string> {
  static Box box(const char* text) { return Box(text); }
};
template <>
struct Cast<c10::TypeMeta> {
  static void code(std::string& out) { out += 'D'; }
  static Box box(c10::TypeMeta meta) { return Box(meta); }
};
template <>
struct Cast<void> {
  static void code(std::string& out) { out += 'N'; }
};

template <class T>
struct Cast<std::optional<T>> {
  using Holder = std::optional<typename Cast<T>::Holder>;
  static void code(std::string& out) { out += 'O', Cast<T>::code(out); }
  static Holder from(const MusahostValue& v) {
    if (v.tag == none_tag) return std::nullopt;
    return Holder(Cast<T>::from(v));
  }
  static Box box(const std::optional<T>& value) { return value ? Cast<T>::box(*value) : Box(); }
};

template <class T>
struct Cast<std::vector<T>> {
  using Holder = std::vector<T>;
  static void code(std::string& out) { out += '[', Cast<T>::code(out), out += ']'; }
  static Holder from(const MusahostValue& v) {
    Holder list;
    list.reserve(v.length);
    for (int64_t i = 0; i < v.length; ++i) list.push_back(Cast<T>::from(items(v)[i]));
    return list;
  }
  static Box box(const std::vector<T>& list) {
    std::vector<Box> boxes;
    for (const auto& item : list) boxes.push_back(Cast<T>::box(item));
    return Box::sequence(list_tag, std::move(boxes));
  }
};
template <class T>
struct Cast<c10::ArrayRef<T>> : Cast<std::vector<T>> {
  static Box box(c10::ArrayRef<T> list) { return Cast<std::vector<T>>::box(list.vec()); }
};
template <class T>
struct Cast<c10::OptionalArrayRef<T>> : Cast<std::optional<std::vector<T>>> {};

template <class T, size_t N>
struct Cast<std::array<T, N>> {
  using Holder = std::array<T, N>;
  static void code(std::string& out) { out += 'A' + std::to_string(N) + ';', Cast<T>::code(out); }
  static Holder from(const MusahostValue& v) {
    Holder list;
    for (size_t i = 0; i < N; ++i) list[i] = Cast<T>::from(items(v)[i]);
    return list;
  }
  static Box box(const Holder& list) {
    return Cast<std::vector<T>>::box(std::vector<T>(list.begin(), list.end()));
  }
};

template <class... T>
struct Cast<std::tuple<T...>> {
  using Holder = std::tuple<T...>;
  static void code(std::string& out) { out += '(', (Cast<T>::code(out), ...), out += ')'; }
  static Holder from(const MusahostValue& v) { return read(v, std::index_sequence_for<T...>()); }
  static Box box(const Holder& value) { return write(value, std::index_sequence_for<T...>()); }

 private:
  template <size_t... I>
  static Holder read(const MusahostValue& v, std::index_sequence<I...>) {
    return Holder(Cast<T>::from(items(v)[I])...);
  }
  template <size_t... I>
  static Box write(const Holder& value, std::index_sequence<I...>) {
    return Box::sequence(tuple_tag, {Cast<T>::box(std::get<I>(value))...});
  }
};
template <class A, class B>
struct Cast<std::pair<A, B>> {
  using Holder = std::pair<A, B>;
  static void code(std::string& out) { out += '(', Cast<A>::code(out), Cast<B>::code(out), out += ')'; }
  static Holder from(const MusahostValue& v) { return {Cast<A>::from(items(v)[0]), Cast<B>::from(items(v)[1])}; }
  static Box box(const Holder& value) {
    return Box::sequence(tuple_tag, {Cast<A>::box(value.first), Cast<B>::box(value.second)});
  }
};
template <class M>
struct CastMap {
  using K = typename M::key_type;
  using V = typename M::mapped_type;
  using Holder = M;
  static void code(std::string& out) { out += '{', Cast<K>::code(out), Cast<V>::code(out), out += '}'; }
  static M from(const MusahostValue& v) {
    M map;
    for (int64_t i = 0; i + 1 < v.length; i += 2)
      map.emplace(Cast<K>::from(items(v)[i]), Cast<V>::from(items(v)[i + 1]));
    return map;
  }
  static Box box(const M& map) {
    std::vector<Box> boxes;
    for (const auto& [key, value] : map) boxes.push_back(Cast<K>::box(key)), boxes.push_back(Cast<V>::box(value));
    return Box::sequence(dict_tag, std::move(boxes));
  }
};
template <class K, class V>
struct Cast<std::map<K, V>> : CastMap<std::map<K, V>> {};
template <class K, class V>
struct Cast<std::unordered_map<K, V>> : CastMap<std::unordered_map<K, V>> {};

// The holder of an argument, passed on as the parameter wants it.
template <class A, class H>
decltype(auto) pass(H& holder) {
  using Plain = std::remove_cv_t<std::remove_reference_t<A>>;
  if constexpr (std::is_same_v<Plain, H>) {
    return static_cast<A&&>(holder);
  } else if constexpr (std::is_same_v<Plain, const char*>) {
    return static_cast<const char*>(holder.c_str());
  } else {
    return Plain(holder);
  }
}

// One exported function.
struct Function {
  std::string name, doc, code;                       // code: parameters, '>', result
  std::vector<std::pair<std::string, Box>> arguments;  // name and default (default_tag: none)
  std::shared_ptr<void> capture;
  Box (*invoke)(void* capture, const MusahostValue* arguments);
};

template <class T>
using Plain = std::remove_cv_t<std::remove_reference_t<T>>;

template <class F, class R, class... A>
struct Caller {
  static Box invoke(void* capture, const MusahostValue* arguments) {
    return run(capture, arguments, std::index_sequence_for<A...>());
  }
  static std::string code() {
    std::string out;
    (Cast<Plain<A>>::code(out), ...);
    out += '>';
    Cast<Plain<R>>::code(out);
    return out;
  }

 private:
  template <size_t... I>
  static Box run(void* capture, [[maybe_unused]] const MusahostValue* arguments, std::index_sequence<I...>) {
    F& f = *static_cast<F*>(capture);
    [[maybe_unused]] std::tuple<typename Cast<Plain<A>>::Holder...> holders{
        Cast<Plain<A>>::from(arguments[I])...};
    if constexpr (std::is_void_v<R>) {
      f(pass<A>(std::get<I>(holders))...);
      return Box();
    } else {
      return Cast<Plain<R>>::box(f(pass<A>(std::get<I>(holders))...));
    }
  }
};

template <class F, class S>
struct CallerOf;
template <class F, class R, class... A>
struct CallerOf<F, R(A...)> : Caller<F, R, A...> {};
template <class S>
struct Signature;
template <class R, class C, class... A>
struct Signature<R (C::*)(A...)> {
  using type = R(A...);
};
template <class R, class C, class... A>
struct Signature<R (C::*)(A...) const> {
  using type = R(A...);
};
template <class F, class = void>
struct SignatureOf {
  using type = typename Signature<decltype(&F::operator())>::type;
};
template <class R, class... A>
struct SignatureOf<R (*)(A...)> {
  using type = R(A...);
};
template <class R, class... A>
struct SignatureOf<R (*)(A...) noexcept> {
  using type = R(A...);
};

}  // namespace musahost::thin

namespace pybind11 {

struct none {};
struct gil_scoped_release {
  gil_scoped_release() {}
  ~gil_scoped_release() {}
};
struct gil_scoped_acquire {
  gil_scoped_acquire() {}
  ~gil_scoped_acquire() {}
};
template <class... T>
struct call_guard {};
enum class return_value_policy {
  automatic, automatic_reference, take_ownership, copy, move, reference, reference_internal
};
template <class... A>
struct overload_cast_impl {
  template <class R>
  constexpr auto operator()(R (*f)(A...)) const { return f; }
};
template <class... A>
static constexpr overload_cast_impl<A...> overload_cast{};
struct doc {
  const char* value;
  doc(const char* text) : value(text) {}
};
struct kw_only {};
struct pos_only {};

#define MUSAHOST_THIN_PY_ERROR(name)                            \
  class MUSAHOST_THIN_API name : public std::runtime_error {    \
   public:                                                      \
    explicit name(const std::string& text = "") : std::runtime_error(text) {} \
    ~name() override;                                           \
  };
MUSAHOST_THIN_PY_ERROR(type_error)
MUSAHOST_THIN_PY_ERROR(value_error)
MUSAHOST_THIN_PY_ERROR(index_error)
MUSAHOST_THIN_PY_ERROR(key_error)
#undef MUSAHOST_THIN_PY_ERROR

struct arg_v {
  const char* name;
  ::musahost::thin::Box value;
};
struct arg {
  const char* name;
  constexpr explicit arg(const char* name) : name(name) {}
  arg& noconvert(bool = true) { return *this; }
  arg& none(bool = true) { return *this; }
  template <class T>
  arg_v operator=(T&& value) const {
    return {name, ::musahost::thin::Cast<::musahost::thin::Plain<std::decay_t<T>>>::box(value)};
  }
  arg_v operator=(pybind11::none) const { return {name, {}}; }
  arg_v operator=(std::nullopt_t) const { return {name, {}}; }
};
namespace literals {
constexpr arg operator""_a(const char* name, size_t) { return arg(name); }
}  // namespace literals

class MUSAHOST_THIN_API module_ {
 public:
  template <class F, class... Extra>
  module_& def(const char* name, F&& f, const Extra&... extra) {
    using Stored = std::decay_t<F>;
    using Call = ::musahost::thin::CallerOf<Stored, typename ::musahost::thin::SignatureOf<Stored>::type>;
    ::musahost::thin::Function function;
    function.name = name;
    function.code = Call::code();
    function.capture = std::make_shared<Stored>(std::forward<F>(f));
    function.invoke = &Call::invoke;
    (apply(function, extra), ...);
    functions.push_back(std::move(function));
    return *this;
  }
  std::string& doc() { return doc_; }
  struct Attribute {
    template <class T>
    void operator=(T&&) {}
  };
  Attribute attr(const char*) { return {}; }

  std::vector<::musahost::thin::Function> functions;

 private:
  static void apply(::musahost::thin::Function& f, const char* text) { f.doc = text; }
  static void apply(::musahost::thin::Function& f, const std::string& text) { f.doc = text; }
  static void apply(::musahost::thin::Function& f, const pybind11::doc& text) { f.doc = text.value; }
  static void apply(::musahost::thin::Function& f, const arg& argument) {
    ::musahost::thin::Box missing;
    missing.tag = ::musahost::thin::default_tag;
    f.arguments.emplace_back(argument.name, missing);
  }
  static void apply(::musahost::thin::Function& f, const arg_v& argument) {
    f.arguments.emplace_back(argument.name, argument.value);
  }
  template <class... T>
  static void apply(::musahost::thin::Function&, const call_guard<T...>&) {}
  static void apply(::musahost::thin::Function&, return_value_policy) {}
  static void apply(::musahost::thin::Function&, kw_only) {}
  static void apply(::musahost::thin::Function&, pos_only) {}

  std::string doc_;
};
using module = module_;

}  // namespace pybind11

namespace py = pybind11;

#if !defined(TORCH_EXTENSION_NAME)
#define TORCH_EXTENSION_NAME musahost_extension
#endif

// A library may hold one of each; the bridge merges the tables.
#define PYBIND11_MODULE(name, variable, ...)                                                   \
  extern "C" __attribute__((visibility("default"))) void musahost_thin_module(                 \
      ::pybind11::module_& variable)
#define MUSAHOST_EXPORT_TABLE(...)                                                             \
  extern "C" __attribute__((visibility("default"))) void musahost_thin_functions(              \
      ::pybind11::module_& musahost_module) {                                                  \
    MUSAHOST_PASS4(MUSAHOST_EXPORT_EACH(__VA_ARGS__))                                          \
  }
#define MUSAHOST_EXPORT_AGAIN() MUSAHOST_EXPORT_EACH
#define MUSAHOST_EXPORT_EACH(f, ...) \
  musahost_module.def(#f, &f);       \
  __VA_OPT__(MUSAHOST_EXPORT_AGAIN MUSAHOST_NOTHING()()(__VA_ARGS__))
