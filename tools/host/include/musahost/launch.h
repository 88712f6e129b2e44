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

template <class Call>
void submit(const Config& c, const char* source, int line, const char* name, const void* key,
            Call& call) {
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
  musahost_launch(&launch);
}

// `run(arguments...)` is one CUDA thread; the arguments were evaluated once, on the host, and every
// thread copies them from here into the kernel's own parameters. All that kernels may read of the
// host's memory lies in `call`.
template <class Key, class Run, class... A>
__attribute__((noinline)) void launch(const Config& c, const char* source, int line,
                                      const char* name, Key key, Run run, A... arguments) {
  auto call = [run, ... values = static_cast<A&&>(arguments)]() mutable { run(values...); };
  submit(c, source, line, name, key(0), call);
}

// The same for a kernel whose parameter types are known: arguments convert here, as in a call.
template <class... P>
__attribute__((noinline)) void launch_function(const Config& c, const char* source, int line,
                                               const char* name, void (*kernel)(P...),
                                               typename exactly<P>::type... arguments) {
  auto call = [kernel, ... values = static_cast<typename exactly<P>::type&&>(arguments)]() mutable { kernel(values...); };
  submit(c, source, line, name, reinterpret_cast<const void*>(kernel), call);
}

}  // namespace musahost
