// cudaError_t: CUDA's numbers, names and texts.
#pragma once
#include "device.h"

#define MUSAHOST_ERRORS(E)                                                                  \
  E(cudaSuccess, 0, "no error")                                                             \
  E(cudaErrorInvalidValue, 1, "invalid argument")                                           \
  E(cudaErrorMemoryAllocation, 2, "out of memory")                                          \
  E(cudaErrorInitializationError, 3, "initialization error")                                \
  E(cudaErrorCudartUnloading, 4, "driver shutting down")                                    \
  E(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                     \
  E(cudaErrorInvalidPitchValue, 12, "invalid pitch argument")                               \
  E(cudaErrorInvalidSymbol, 13, "invalid device symbol")                                    \
  E(cudaErrorInvalidHostPointer, 16, "invalid host pointer")                                \
  E(cudaErrorInvalidDevicePointer, 17, "invalid device pointer")                            \
  E(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")               \
  E(cudaErrorInsufficientDriver, 35,                                                        \
    "CUDA driver version is insufficient for CUDA runtime version")                         \
  E(cudaErrorDevicesUnavailable, 46, "CUDA-capable device(s) is/are busy or unavailable")   \
  E(cudaErrorMissingConfiguration, 52, "__global__ function call is not configured")        \
  E(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                          \
  E(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                           \
  E(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                  \
  E(cudaErrorInvalidKernelImage, 200, "device kernel image is invalid")                     \
  E(cudaErrorNoKernelImageForDevice, 209,                                                   \
    "no kernel image is available for execution on the device")                             \
  E(cudaErrorECCUncorrectable, 214, "uncorrectable ECC error encountered")                  \
  E(cudaErrorPeerAccessUnsupported, 217,                                                    \
    "peer access is not supported between these two devices")                               \
  E(cudaErrorInvalidPtx, 218, "a PTX JIT compilation failed")                               \
  E(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                         \
  E(cudaErrorSymbolNotFound, 500, "named symbol not found")                                 \
  E(cudaErrorNotReady, 600, "device not ready")                                             \
  E(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")               \
  E(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")          \
  E(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")                 \
  E(cudaErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled")               \
  E(cudaErrorPeerAccessNotEnabled, 705, "peer access has not been enabled")                 \
  E(cudaErrorAssert, 710, "device-side assert triggered")                                   \
  E(cudaErrorIllegalInstruction, 715, "an illegal instruction was encountered")             \
  E(cudaErrorMisalignedAddress, 716, "misaligned address")                                  \
  E(cudaErrorInvalidAddressSpace, 717,                                                      \
    "operation not supported on global/shared address space")                               \
  E(cudaErrorInvalidPc, 718, "invalid program counter")                                     \
  E(cudaErrorLaunchFailure, 719, "unspecified launch failure")                              \
  E(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch")       \
  E(cudaErrorNotPermitted, 800, "operation not permitted")                                  \
  E(cudaErrorNotSupported, 801, "operation not supported")                                  \
  E(cudaErrorStreamCaptureUnsupported, 900,                                                 \
    "operation not permitted when stream is capturing")                                     \
  E(cudaErrorUnknown, 999, "unknown error")

enum cudaError {
#define MUSAHOST_ERROR(name, number, text) name = number,
  MUSAHOST_ERRORS(MUSAHOST_ERROR)
#undef MUSAHOST_ERROR
};
typedef enum cudaError cudaError_t;

static inline const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define MUSAHOST_ERROR(name, number, text) \
  case name:                               \
    return #name;
    MUSAHOST_ERRORS(MUSAHOST_ERROR)
#undef MUSAHOST_ERROR
  }
  return "unrecognized error code";
}
static inline const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define MUSAHOST_ERROR(name, number, text) \
  case name:                               \
    return text;
    MUSAHOST_ERRORS(MUSAHOST_ERROR)
#undef MUSAHOST_ERROR
  }
  return "unrecognized error code";
}
static inline cudaError_t cudaGetLastError() {
  return static_cast<cudaError_t>(musahost_last_error(1));
}
static inline cudaError_t cudaPeekAtLastError() {
  return static_cast<cudaError_t>(musahost_last_error(0));
}

namespace musahost {

// A failed call is also the last error, until somebody asks for it. To the runtime 700 and above are
// faults of kernels, which stay; a call that is refused must not end the device.
inline cudaError_t failed(cudaError_t error) {
  if (error < cudaErrorIllegalAddress) musahost_set_error(error);
  return error;
}
inline cudaError_t checked(bool valid) {
  return valid ? cudaSuccess : failed(cudaErrorInvalidValue);
}

}  // namespace musahost
