// torch_musa's C++ names over the thin headers, for mcc: cuda.h beside it was ported to MUSA.
#pragma once
#include "cuda.h"

namespace c10::musa {
inline MUSAStream getMUSAStreamFromPool(bool high = false, DeviceIndex index = -1) {
  return getStreamFromPool(high, index);
}
}  // namespace c10::musa

namespace at::musa {
using c10::musa::getMUSAStreamFromPool;
static constexpr DeviceType kMUSA = DeviceType::PrivateUse1;
}  // namespace at::musa

namespace torch::musa {
using namespace at::musa;
}  // namespace torch::musa
