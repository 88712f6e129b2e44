// Memory of the runtime API: allocation, copies, fills and symbols. Host and device share one memory.
#pragma once
#include "errors.h"
#include "launch.h"

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};
#define cudaMemAttachGlobal 0x01
#define cudaMemAttachHost 0x02
#define cudaHostAllocDefault 0x00
#define cudaHostAllocPortable 0x01
#define cudaHostAllocMapped 0x02
#define cudaHostAllocWriteCombined 0x04
#define cudaHostRegisterDefault 0x00
#define cudaHostRegisterPortable 0x01
#define cudaHostRegisterMapped 0x02
#define cudaCpuDeviceId (-1)

namespace musahost {

template <class T>
cudaError_t allocate(T** address, size_t bytes) {
  if (address == nullptr) return failed(cudaErrorInvalidValue);
  *address = bytes ? static_cast<T*>(musahost_malloc(bytes)) : nullptr;
  return bytes && *address == nullptr ? failed(cudaErrorMemoryAllocation) : cudaSuccess;
}
inline cudaError_t release(void* address) {
  if (address == nullptr) return cudaSuccess;
  const int error = musahost_free(address);
  return error ? failed(static_cast<cudaError_t>(error)) : cudaSuccess;
}
inline cudaError_t copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  if (to == nullptr || from == nullptr) return failed(cudaErrorInvalidValue);
  musahost_copy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t fill(void* to, int value, size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  if (to == nullptr) return failed(cudaErrorInvalidValue);
  musahost_fill(to, value, bytes);
  return cudaSuccess;
}
template <class T>
cudaError_t allocate_shared(T** address, size_t bytes) {
  if (address == nullptr) return failed(cudaErrorInvalidValue);
  *address = bytes ? static_cast<T*>(musahost_malloc_shared(bytes)) : nullptr;
  return bytes && *address == nullptr ? failed(cudaErrorMemoryAllocation) : cudaSuccess;
}
template <class T>
char* symbol_address(const T& symbol) {
  return const_cast<char*>(&reinterpret_cast<const volatile char&>(symbol));
}

}  // namespace musahost

template <class T>
cudaError_t cudaMalloc(T** address, size_t bytes) {
  return ::musahost::allocate(address, bytes);
}
template <class T>
cudaError_t cudaMallocManaged(T** address, size_t bytes, unsigned = cudaMemAttachGlobal) {
  return ::musahost::allocate_shared(address, bytes);
}
template <class T>
cudaError_t cudaMallocAsync(T** address, size_t bytes, cudaStream_t) {
  return ::musahost::allocate(address, bytes);
}
template <class T>
cudaError_t cudaMallocHost(T** address, size_t bytes, unsigned = 0) {
  return ::musahost::allocate_shared(address, bytes);
}
template <class T>
cudaError_t cudaHostAlloc(T** address, size_t bytes, unsigned) {
  return ::musahost::allocate_shared(address, bytes);
}
template <class T>
cudaError_t cudaMallocPitch(T** address, size_t* pitch, size_t width, size_t height) {
  if (pitch == nullptr) return ::musahost::failed(cudaErrorInvalidValue);
  *pitch = (width + 511) / 512 * 512;
  return ::musahost::allocate(address, *pitch * height);
}
static inline cudaError_t cudaFree(void* address) { return ::musahost::release(address); }
static inline cudaError_t cudaFreeHost(void* address) { return ::musahost::release(address); }
static inline cudaError_t cudaFreeAsync(void* address, cudaStream_t) {
  return ::musahost::release(address);
}
static inline cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned) {
  musahost_register(address, bytes, "registered host memory");
  musahost_note_host_bytes(bytes);
  return cudaSuccess;
}
static inline cudaError_t cudaHostUnregister(void* address) {
  musahost_unregister(address);
  return cudaSuccess;
}
template <class T>
cudaError_t cudaHostGetDevicePointer(T** device, void* host, unsigned) {
  if (device) *device = static_cast<T*>(host);
  return ::musahost::checked(device != nullptr);
}
static inline cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  if (available) *available = size_t(78) << 30;
  if (total) *total = size_t(80) << 30;
  return cudaSuccess;
}

static inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return ::musahost::copy(to, from, bytes);
}
static inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                                          cudaStream_t = nullptr) {
  return ::musahost::copy(to, from, bytes);
}
static inline cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) {
  return ::musahost::copy(to, from, bytes);
}
static inline cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                       size_t width, size_t height, cudaMemcpyKind) {
  if (width > to_pitch || width > from_pitch) {
    return ::musahost::failed(cudaErrorInvalidPitchValue);
  }
  for (size_t row = 0; row < height; ++row) {
    const cudaError_t error = ::musahost::copy(static_cast<char*>(to) + row * to_pitch,
                                               static_cast<const char*>(from) + row * from_pitch, width);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
static inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from,
                                            size_t from_pitch, size_t width, size_t height,
                                            cudaMemcpyKind kind, cudaStream_t = nullptr) {
  return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}
static inline cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return ::musahost::fill(to, value, bytes);
}
static inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t = nullptr) {
  return ::musahost::fill(to, value, bytes);
}
static inline cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  if (width > pitch) return ::musahost::failed(cudaErrorInvalidPitchValue);
  for (size_t row = 0; row < height; ++row) {
    const cudaError_t error = ::musahost::fill(static_cast<char*>(to) + row * pitch, value, width);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

// ---- symbols: a __constant__ or __device__ variable, passed by name
template <class T>
cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* from, size_t bytes, size_t offset = 0,
                               cudaMemcpyKind = cudaMemcpyHostToDevice) {
  if (offset > sizeof(T) || bytes > sizeof(T) - offset) {
    return ::musahost::failed(cudaErrorInvalidValue);
  }
  return ::musahost::copy(::musahost::symbol_address(symbol) + offset, from, bytes);
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* from, size_t bytes, size_t offset = 0,
                                    cudaMemcpyKind kind = cudaMemcpyHostToDevice,
                                    cudaStream_t = nullptr) {
  return cudaMemcpyToSymbol(symbol, from, bytes, offset, kind);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                 cudaMemcpyKind = cudaMemcpyDeviceToHost) {
  if (offset > sizeof(T) || bytes > sizeof(T) - offset) {
    return ::musahost::failed(cudaErrorInvalidValue);
  }
  if (bytes && to == nullptr) return ::musahost::failed(cudaErrorInvalidValue);
  musahost_copy_from_symbol(to, ::musahost::symbol_address(symbol) + offset, bytes);
  return cudaSuccess;
}
template <class T>
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                      cudaMemcpyKind kind = cudaMemcpyDeviceToHost,
                                      cudaStream_t = nullptr) {
  return cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind);
}
template <class P, class T>
cudaError_t cudaGetSymbolAddress(P** address, const T& symbol) {
  if (address) *address = reinterpret_cast<P*>(::musahost::symbol_address(symbol));
  musahost_note_symbol(::musahost::symbol_address(symbol), sizeof(T));
  return ::musahost::checked(address != nullptr);
}
template <class T>
cudaError_t cudaGetSymbolSize(size_t* bytes, const T&) {
  if (bytes) *bytes = sizeof(T);
  return ::musahost::checked(bytes != nullptr);
}

// ---- hints that change nothing here
enum cudaMemoryAdvise {
  cudaMemAdviseSetReadMostly = 1,
  cudaMemAdviseUnsetReadMostly = 2,
  cudaMemAdviseSetPreferredLocation = 3,
  cudaMemAdviseUnsetPreferredLocation = 4,
  cudaMemAdviseSetAccessedBy = 5,
  cudaMemAdviseUnsetAccessedBy = 6,
};
static inline cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, int) {
  return cudaSuccess;
}
static inline cudaError_t cudaMemPrefetchAsync(const void*, size_t, int, cudaStream_t = nullptr) {
  return cudaSuccess;
}
