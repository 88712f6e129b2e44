// Kernel launches: what `kernel<<<grid, block, shared, stream>>>(arguments)` is rewritten to.
#pragma once
#include "device.h"

#ifndef MUSAHOST_STREAM_TYPES
#define MUSAHOST_STREAM_TYPES
typedef struct CUstream_st* cudaStream_t;
#endif

namespace musahost {

struct Config {
  dim3 grid, block;
  size_t shared_bytes;
  bool cooperative = false;
};

// The stream is accepted in any form that a launch accepts (CUDAStream converts, 0 is the default).
inline Config config(dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t = nullptr) {
  return Config{grid, block, shared_bytes};
}

// Address of a kernel where its name denotes one function, as the key of its attributes.
// `Tag` makes the call dependent, so that `requires` can ask whether it compiles.
template <class Tag, class... P>
const void* function_key(void (*kernel)(P...)) {
  return reinterpret_cast<const void*>(kernel);
}

// What warpSize shows follows the runtime's setting, which the host thread that launches need not know.
#if MUSAHOST_CHECKED
MUSAHOST_UNWATCHED __attribute__((noinline))
#endif
inline void adopt_warp_size() {
  const int now = static_cast<int>(musahost_current.warp_size);
  if (__builtin_expect(now != warp_size, 0)) warp_size = now;
}

extern "C" {
extern __attribute__((weak, visibility("hidden"))) char __start_musahost_managed[], __stop_musahost_managed[];
}

// The address that an argument is; null where it is no pointer.
template <class T>
const void* pointer_of(const T&) {
  return nullptr;
}
template <class T>
const void* pointer_of(T* const& argument) {
  if constexpr (requires { static_cast<const volatile void*>(argument); }) {
    const auto at = const_cast<const void*>(static_cast<const volatile void*>(argument));
    return at >= __start_musahost_managed && at < __stop_musahost_managed ? nullptr : at;
  } else {
    return reinterpret_cast<const void*>(argument);  // of a function
  }
}

template <class Call>
void submit(const Config& c, const char* source, int line, const char* name, const void* key,
            const void* const* pointers, int pointer_count, Call& call) {
  MusahostLaunch launch{};
  launch.grid = c.grid;
  launch.block = c.block;
  launch.shared_bytes = c.shared_bytes;
  launch.run = [](void* argument) {
    adopt_warp_size();
    (*static_cast<Call*>(argument))();
  };
  launch.argument = &call;
  launch.argument_bytes = sizeof call;
  launch.function = key;
  launch.kernel = name;
  launch.cooperative = c.cooperative;
  launch.source = source;
  launch.line = line;
  launch.pointers = pointers;
  launch.pointer_count = pointer_count;
  musahost_launch(&launch);
}

// `run(arguments...)` is one CUDA thread; the arguments were evaluated once, on the host, and every
// thread copies them from here into the kernel's own parameters. All that kernels may read of the
// host's memory lies in `call`.
template <class Key, class Run, class... A>
__attribute__((noinline)) void launch(const Config& c, const char* source, int line,
                                      const char* name, Key key, Run run, A... arguments) {
  const void* const pointers[] = {nullptr, pointer_of(arguments)...};
  auto call = [run, ... values = static_cast<A&&>(arguments)]() mutable { run(values...); };
  submit(c, source, line, name, key(0), pointers, 1 + sizeof...(A), call);
}

// The same for a kernel whose parameter types are known: arguments convert here, as in a call.
template <class... P>
__attribute__((noinline)) void launch_function(const Config& c, const char* source, int line,
                                               const char* name, void (*kernel)(P...),
                                               typename exactly<P>::type... arguments) {
  const void* const pointers[] = {nullptr, pointer_of(arguments)...};
  auto call = [kernel, ... values = static_cast<typename exactly<P>::type&&>(arguments)]() mutable { kernel(values...); };
  submit(c, source, line, name, reinterpret_cast<const void*>(kernel), pointers, 1 + sizeof...(P), call);
}

}  // namespace musahost
