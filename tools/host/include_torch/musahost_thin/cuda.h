// c10::cuda and at::cuda: one device, in-order streams, torch's error texts.
#pragma once
#if defined(MUSAHOST_FULL_TORCH)
#include <ATen/ATen.h>
#include "macros_full.h"
#else
#include "torch.h"
#endif
#include <cuda_runtime.h>

#define C10_CUDA_CHECK(expression)                                                        \
  do {                                                                                    \
    const cudaError_t musahost_status = (expression);                                     \
    TORCH_CHECK(musahost_status == cudaSuccess,                                           \
                "CUDA error: ", cudaGetErrorString(musahost_status));                     \
  } while (false)
#define C10_CUDA_CHECK_WARN(expression)                                                   \
  do {                                                                                    \
    const cudaError_t musahost_status = (expression);                                     \
    if (musahost_status != cudaSuccess)                                                   \
      TORCH_WARN("CUDA warning: ", cudaGetErrorString(musahost_status));                  \
  } while (false)
#define C10_CUDA_ERROR_HANDLED(expression) (expression)
#define C10_CUDA_IGNORE_ERROR(expression) (void)(expression)
#define C10_CUDA_CLEAR_ERROR() (void)cudaGetLastError()
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define TORCH_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_KERNEL_LAUNCH_CHECK()
#define AT_CUDA_CHECK(expression) C10_CUDA_CHECK(expression)

namespace c10::cuda {

using StreamId = int64_t;

class CUDAStream {
 public:
  CUDAStream() = default;
  explicit CUDAStream(cudaStream_t stream) : stream_(stream) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  void synchronize() const { C10_CUDA_CHECK(cudaStreamSynchronize(stream_)); }
  bool query() const { return true; }
  DeviceIndex device_index() const { return 0; }
  DeviceType device_type() const { return kCUDA; }
  Device device() const { return Device(kCUDA, 0); }
  StreamId id() const { return reinterpret_cast<intptr_t>(stream_); }
  int priority() const { return 0; }
  CUDAStream unwrap() const { return *this; }
  friend bool operator==(const CUDAStream& a, const CUDAStream& b) { return a.stream_ == b.stream_; }
  friend bool operator!=(const CUDAStream& a, const CUDAStream& b) { return !(a == b); }

 private:
  cudaStream_t stream_ = nullptr;
};

#if defined(MUSACUDA_DEVICE)
// On a real GPU it is the stream that torch had when Python called; see tools/cuda/runtime.
extern "C" void* musacuda_stream();
extern "C" void musacuda_set_stream(void*);
inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) {
  return CUDAStream(static_cast<cudaStream_t>(musacuda_stream()));
}
inline void setCurrentCUDAStream(CUDAStream stream) { musacuda_set_stream(stream.stream()); }
#else
inline CUDAStream& musahost_current_stream() {
  static thread_local CUDAStream stream;
  return stream;
}
inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) { return musahost_current_stream(); }
inline void setCurrentCUDAStream(CUDAStream stream) { musahost_current_stream() = stream; }
#endif
inline CUDAStream getDefaultCUDAStream(DeviceIndex = -1) { return {}; }
inline CUDAStream getStreamFromPool(bool = false, DeviceIndex = -1) { return {}; }
inline CUDAStream getStreamFromPool(int, DeviceIndex = -1) { return {}; }
inline CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex) { return CUDAStream(stream); }

inline DeviceIndex current_device() { return 0; }
inline DeviceIndex device_count() { return 1; }
inline DeviceIndex device_count_ensure_non_zero() { return 1; }
inline void set_device(DeviceIndex) {}
inline void device_synchronize() { C10_CUDA_CHECK(cudaDeviceSynchronize()); }
inline cudaError_t GetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t SetDevice(int) { return cudaSuccess; }

struct CUDAGuard {
  explicit CUDAGuard(DeviceIndex) {}
  explicit CUDAGuard(Device) {}
  CUDAGuard(const CUDAGuard&) = delete;
  CUDAGuard& operator=(const CUDAGuard&) = delete;
  ~CUDAGuard() {}
  void set_device(Device) {}
  void reset_device(Device) {}
  void set_index(DeviceIndex) {}
  Device original_device() const { return Device(kCUDA, 0); }
  Device current_device() const { return Device(kCUDA, 0); }
};
struct OptionalCUDAGuard {
  OptionalCUDAGuard() {}
  explicit OptionalCUDAGuard(std::optional<Device>) {}
  explicit OptionalCUDAGuard(std::optional<DeviceIndex>) {}
  explicit OptionalCUDAGuard(Device) {}
  explicit OptionalCUDAGuard(DeviceIndex) {}
  OptionalCUDAGuard(const OptionalCUDAGuard&) = delete;
  ~OptionalCUDAGuard() {}
  void set_device(Device) {}
  void reset_device(Device) {}
  void set_index(DeviceIndex) {}
  void reset() {}
};
struct CUDAStreamGuard {
  explicit CUDAStreamGuard(CUDAStream stream) : before_(getCurrentCUDAStream()) {
    setCurrentCUDAStream(stream);
  }
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;
  ~CUDAStreamGuard() { setCurrentCUDAStream(before_); }
  void reset_stream(CUDAStream stream) { setCurrentCUDAStream(stream); }
  CUDAStream original_stream() const { return before_; }
  CUDAStream current_stream() const { return getCurrentCUDAStream(); }

 private:
  CUDAStream before_;
};
struct OptionalCUDAStreamGuard {
  OptionalCUDAStreamGuard() {}
  template <class T>
  explicit OptionalCUDAStreamGuard(T) {}
  ~OptionalCUDAStreamGuard() {}
};

// Device memory by torch's caching allocator.
namespace CUDACachingAllocator {
inline void* raw_alloc(size_t bytes) {
  void* memory = nullptr;
  C10_CUDA_CHECK(cudaMalloc(&memory, bytes));
  return memory;
}
inline void* raw_alloc_with_stream(size_t bytes, cudaStream_t) { return raw_alloc(bytes); }
inline void raw_delete(void* memory) { C10_CUDA_CHECK(cudaFree(memory)); }
inline void emptyCache() {}
}  // namespace CUDACachingAllocator

}  // namespace c10::cuda

namespace at::cuda {

using namespace c10::cuda;
using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStream;
using c10::cuda::CUDAStreamGuard;
using c10::cuda::current_device;
using c10::cuda::device_count;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::getDefaultCUDAStream;
using c10::cuda::getStreamFromPool;
using c10::cuda::OptionalCUDAGuard;
using c10::cuda::setCurrentCUDAStream;

inline cudaDeviceProp* getDeviceProperties(DeviceIndex = 0) {
  static cudaDeviceProp properties = [] {
    cudaDeviceProp p;
    C10_CUDA_CHECK(cudaGetDeviceProperties(&p, 0));
    return p;
  }();
  return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(); }
inline int warp_size() { return getCurrentDeviceProperties()->warpSize; }
inline bool is_available() { return true; }
inline int64_t getNumGPUs() { return 1; }
template <class T>
constexpr MUSAHOST_HD T ATenCeilDiv(T a, T b) {
  return (a + b - 1) / b;
}

}  // namespace at::cuda

#if !defined(MUSAHOST_FULL_TORCH)
namespace torch::cuda {
inline void synchronize(int64_t = -1) { C10_CUDA_CHECK(cudaDeviceSynchronize()); }
}  // namespace torch::cuda
#endif
