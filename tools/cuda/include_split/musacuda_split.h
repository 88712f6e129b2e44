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

// Only nvcc knows these. libstdc++ writes __attribute__((__noinline__)), where an empty macro is
// harmless and any other is not.
#undef __launch_bounds__
#undef __maxnreg__
#undef __cluster_dims__
#undef __block_size__
#undef __noinline__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __block_size__(...)
#define __noinline__

namespace cooperative_groups {}
namespace nvcuda::wmma {}

extern "C" int musacuda_dry();  // of libmusacuda.so

namespace musacuda {

struct Config {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};
inline Config config(dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t stream = nullptr) {
  return {grid, block, shared_bytes, stream};
}

// Name of a stub and the library of its cubin, loaded once; false where there is none.
inline bool locate(const void* stub, cudaLibrary_t& library, std::string& name) {
  static std::map<std::string, cudaLibrary_t> libraries;
  Dl_info info{};
  if (!dladdr(stub, &info) || !info.dli_sname || !info.dli_fname || info.dli_saddr != stub) return false;
  std::string path = info.dli_fname;
  path = path.substr(0, path.find_last_of('/') + 1) + "device.cubin";
  cudaLibrary_t& known = libraries[path];
  if (!known && cudaLibraryLoadFromFile(&known, path.c_str(), nullptr, nullptr, 0, nullptr, nullptr,
                                        0) != cudaSuccess)
    return false;
  library = known;
  name = info.dli_sname;
  return true;
}

inline std::mutex& guard() {
  static std::mutex mutex;
  return mutex;
}

// The device's kernel for a stub; null where there is none, which the launch then reports.
inline void* kernel(const void* stub) {
  static std::map<const void*, void*> kernels;
  const std::lock_guard<std::mutex> hold(guard());
  if (const auto known = kernels.find(stub); known != kernels.end()) return known->second;
  cudaLibrary_t library{};
  std::string name;
  cudaKernel_t found = nullptr;
  if (!locate(stub, library, name)) return nullptr;
  if (cudaLibraryGetKernel(&found, library, name.c_str()) != cudaSuccess) return nullptr;
  return kernels[stub] = reinterpret_cast<void*>(found);
}
template <class R, class... P>
void* kernel(R (*stub)(P...)) {
  return kernel(reinterpret_cast<const void*>(stub));
}

// Address and size of a __device__ or __constant__ variable on the current card.
inline cudaError_t find_symbol(const void* stub, char*& address, size_t& bytes) {
  const std::lock_guard<std::mutex> hold(guard());
  cudaLibrary_t library{};
  std::string name;
  if (!locate(stub, library, name)) return cudaErrorInvalidSymbol;
  void* found = nullptr;
  const cudaError_t status = cudaLibraryGetGlobal(&found, &bytes, library, name.c_str());
  address = static_cast<char*>(found);
  return status;
}

template <class T>
cudaError_t copy_to_symbol_async(const T& symbol, const void* from, size_t count, size_t offset,
                                 cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
  char* address = nullptr;
  size_t bytes = 0;
  const cudaError_t status = find_symbol(&symbol, address, bytes);
  if (status != cudaSuccess) return status;
  if (offset > bytes || count > bytes - offset) return cudaErrorInvalidValue;
  return cudaMemcpyAsync(address + offset, from, count, kind, stream);
}
template <class T>
cudaError_t copy_to_symbol(const T& symbol, const void* from, size_t count, size_t offset = 0,
                           cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  char* address = nullptr;
  size_t bytes = 0;
  const cudaError_t status = find_symbol(&symbol, address, bytes);
  if (status != cudaSuccess) return status;
  if (offset > bytes || count > bytes - offset) return cudaErrorInvalidValue;
  return cudaMemcpy(address + offset, from, count, kind);
}
template <class T>
cudaError_t copy_from_symbol(void* to, const T& symbol, size_t count, size_t offset = 0,
                             cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  char* address = nullptr;
  size_t bytes = 0;
  const cudaError_t status = find_symbol(&symbol, address, bytes);
  if (status != cudaSuccess) return status;
  if (offset > bytes || count > bytes - offset) return cudaErrorInvalidValue;
  return cudaMemcpy(to, address + offset, count, kind);
}
template <class T>
cudaError_t symbol_address(void** out, const T& symbol) {
  char* address = nullptr;
  size_t bytes = 0;
  const cudaError_t status = find_symbol(&symbol, address, bytes);
  *out = address;
  return status;
}

template <class F>
cudaError_t set_cache_config(F stub, cudaFuncCache config) {
  return cudaFuncSetCacheConfig(kernel(stub), config);
}
template <class F>
cudaError_t get_attributes(cudaFuncAttributes* attributes, F stub) {
  return cudaFuncGetAttributes(attributes, kernel(stub));
}
template <class F>
cudaError_t launch_kernel(F stub, dim3 grid, dim3 block, void** arguments, size_t shared_bytes = 0,
                          cudaStream_t stream = nullptr) {
  if (musacuda_dry()) return cudaSuccess;
  return cudaLaunchKernel(kernel(stub), grid, block, arguments, shared_bytes, stream);
}
template <class F>
cudaError_t launch_cooperative(F stub, dim3 grid, dim3 block, void** arguments,
                               size_t shared_bytes = 0, cudaStream_t stream = nullptr) {
  if (musacuda_dry()) return cudaSuccess;
  return cudaLaunchCooperativeKernel(kernel(stub), grid, block, arguments, shared_bytes, stream);
}
template <class F>
cudaError_t max_active_blocks(int* blocks, F stub, int block_size, size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel(stub), block_size, shared_bytes);
}

// The block size with the most resident threads, among multiples of the warp; as CUDA's own does.
template <class F>
cudaError_t max_potential_block_size(int* grid, int* block, F stub, size_t shared_bytes = 0,
                                     int limit = 0) {
  int device = 0, processors = 0, per_processor = 0;
  cudaFuncAttributes attributes{};
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, kernel(stub));
  if (status == cudaSuccess)
    status = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (status == cudaSuccess)
    status = cudaDeviceGetAttribute(&per_processor, cudaDevAttrMaxThreadsPerMultiProcessor, device);
  if (status != cudaSuccess) return status;
  int most = attributes.maxThreadsPerBlock;
  if (limit > 0 && limit < most) most = limit;
  int best = 0;
  *grid = *block = 0;
  for (int threads = (most + 31) / 32 * 32; threads > 0; threads -= 32) {
    const int size = threads < most ? threads : most;
    int blocks = 0;
    status = max_active_blocks(&blocks, stub, size, shared_bytes);
    if (status != cudaSuccess) return status;
    if (blocks * size > best) {
      best = blocks * size;
      *block = size;
      *grid = blocks * processors;
    }
    if (best == per_processor) break;
  }
  return cudaSuccess;
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
    if (musacuda_dry()) return;
    void* pointers[] = {static_cast<void*>(&std::get<I>(values))..., nullptr};
    (void)cudaLaunchKernel(kernel(stub_), config_.grid, config_.block, pointers,
                           config_.shared_bytes, config_.stream);
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
  return cudaFuncSetAttribute(kernel(stub), attribute, value);
}
inline cudaError_t set_attribute(const void* stub, cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(kernel(stub), attribute, value);
}

}  // namespace musacuda
