// Launches from host code that g++ compiled: the kernels lie in device.cubin beside the library, and
// are found by the name of their host stub.
#pragma once
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cooperative_groups {}
namespace nvcuda::wmma {}

namespace musacuda {

struct Config {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};
inline Config config(dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t stream = nullptr) {
  return {grid, block, shared_bytes, stream};
}

// The device's kernel for a stub; null where there is none, which the launch then reports.
inline void* kernel(const void* stub) {
  static std::mutex mutex;
  static std::map<const void*, void*> kernels;
  static std::map<std::string, cudaLibrary_t> libraries;
  const std::lock_guard<std::mutex> guard(mutex);
  if (const auto known = kernels.find(stub); known != kernels.end()) return known->second;
  Dl_info info{};
  if (!dladdr(stub, &info) || !info.dli_sname || !info.dli_fname) return nullptr;
  std::string path = info.dli_fname;
  path = path.substr(0, path.find_last_of('/') + 1) + "device.cubin";
  cudaLibrary_t& library = libraries[path];
  if (!library &&
      cudaLibraryLoadFromFile(&library, path.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0) !=
          cudaSuccess)
    return nullptr;
  cudaKernel_t found = nullptr;
  if (cudaLibraryGetKernel(&found, library, info.dli_sname) != cudaSuccess) return nullptr;
  return kernels[stub] = reinterpret_cast<void*>(found);
}

template <class... P>
class Launcher {
 public:
  Launcher(void (*stub)(P...), const Config& config) : stub_(stub), config_(config) {}
  template <class... A>
  void operator()(A&&... arguments) const {
    static_assert(sizeof...(A) == sizeof...(P), "the kernel takes another number of arguments");
    run(std::tuple<std::decay_t<P>...>(std::forward<A>(arguments)...), std::index_sequence_for<P...>());
  }

 private:
  template <class Values, size_t... I>
  void run(Values values, std::index_sequence<I...>) const {
    void* pointers[] = {static_cast<void*>(&std::get<I>(values))..., nullptr};
    (void)cudaLaunchKernel(kernel(reinterpret_cast<const void*>(stub_)), config_.grid, config_.block,
                           pointers, config_.shared_bytes, config_.stream);
  }
  void (*stub_)(P...);
  Config config_;
};

template <class... P>
Launcher<P...> launch(void (*stub)(P...), const Config& config) {
  return Launcher<P...>(stub, config);
}

template <class... P>
cudaError_t set_attribute(void (*stub)(P...), cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(kernel(reinterpret_cast<const void*>(stub)), attribute, value);
}

}  // namespace musacuda
