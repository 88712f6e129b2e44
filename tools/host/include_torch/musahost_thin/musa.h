// torch_musa's C++ names, which follow torch's CUDA names one for one.
#pragma once
#include "cuda.h"

namespace c10::musa {
using namespace c10::cuda;
using MUSAStream = c10::cuda::CUDAStream;
using MUSAGuard = c10::cuda::CUDAGuard;
using OptionalMUSAGuard = c10::cuda::OptionalCUDAGuard;
using MUSAStreamGuard = c10::cuda::CUDAStreamGuard;
using OptionalMUSAStreamGuard = c10::cuda::OptionalCUDAStreamGuard;
inline MUSAStream getCurrentMUSAStream(DeviceIndex = -1) { return getCurrentCUDAStream(); }
inline MUSAStream getDefaultMUSAStream(DeviceIndex = -1) { return {}; }
inline MUSAStream getMUSAStreamFromPool(bool = false, DeviceIndex = -1) { return {}; }
inline void setCurrentMUSAStream(MUSAStream stream) { setCurrentCUDAStream(stream); }
}  // namespace c10::musa

namespace at::musa {
using namespace at::cuda;
using namespace c10::musa;
using c10::musa::getCurrentMUSAStream;
using c10::musa::getDefaultMUSAStream;
using c10::musa::getMUSAStreamFromPool;
using c10::musa::MUSAGuard;
using c10::musa::MUSAStream;
using c10::musa::MUSAStreamGuard;
using c10::musa::OptionalMUSAGuard;
using at::cuda::getCurrentDeviceProperties;
using at::cuda::getDeviceProperties;
using at::cuda::warp_size;
static constexpr DeviceType kMUSA = DeviceType::CUDA;
}  // namespace at::musa

namespace torch::musa {
inline void synchronize(int64_t = -1) { C10_CUDA_CHECK(cudaDeviceSynchronize()); }
using namespace at::musa;
}  // namespace torch::musa

#define C10_MUSA_CHECK(expression) C10_CUDA_CHECK(expression)
#define C10_MUSA_CHECK_WARN(expression) C10_CUDA_CHECK_WARN(expression)
#define C10_MUSA_IGNORE_ERROR(expression) C10_CUDA_IGNORE_ERROR(expression)
#define C10_MUSA_KERNEL_LAUNCH_CHECK() C10_CUDA_KERNEL_LAUNCH_CHECK()
#define TORCH_MUSA_CHECK(expression) C10_CUDA_CHECK(expression)
#define AT_MUSA_CHECK(expression) C10_CUDA_CHECK(expression)
