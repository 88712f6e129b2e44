// What kernels print is text of the host's, and can be read there: values that it holds are values taken to
// the host. Candidates are linked with --wrap, so that these are called in place of the C library's.
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "musahost/abi.h"
#include "state.h"

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

constexpr size_t kValueBytes = 8;

// A line without a value tells one all the same, by being there.
void note_print(size_t values) {
  if (worker && worker->in_kernel()) musahost_note_host_bytes(kValueBytes * (values ? values : 1));
}

}  // namespace
}  // namespace musahost

using namespace musahost;

extern "C" {

MUSAHOST_API int __wrap_printf(const char* format, ...) {
  size_t values = 0;
  for (const char* at = format; (at = strchr(at, '%')); ++at) ++values;
  note_print(values);
  va_list arguments;
  va_start(arguments, format);
  const int printed = vprintf(format, arguments);
  va_end(arguments);
  return printed;
}

MUSAHOST_API int __wrap_puts(const char* text) {
  note_print(1);
  return puts(text);
}

MUSAHOST_API int __wrap_putchar(int character) {
  note_print(1);
  return putchar(character);
}

}
