// Everything that `#include <torch/extension.h>` brings, but CUDA's own parts.
#pragma once
#include "dispatch.h"
#include "factory.h"
#include "pybind.h"

namespace at {
namespace native {}
}  // namespace at

namespace torch {

using namespace at;
using at::Tensor;
using c10::make_optional;
using std::make_tuple;
using std::nullopt;
using std::optional;
using std::tuple;
using Dtype = ScalarType;
namespace indexing = at::indexing;

constexpr ScalarType kUInt8 = kByte, kInt8 = kChar, kInt16 = kShort, kInt32 = kInt, kInt64 = kLong;
constexpr ScalarType kFloat16 = kHalf, kFloat32 = kFloat, kFloat64 = kDouble, kF16 = kHalf;
constexpr ScalarType kF32 = kFloat, kF64 = kDouble, kI8 = kChar, kI16 = kShort, kI32 = kInt;
constexpr ScalarType kI64 = kLong, kU8 = kByte;
constexpr ScalarType kComplex64 = kComplexFloat, kComplex128 = kComplexDouble;

namespace cuda {
inline bool is_available() { return true; }
inline size_t device_count() { return 1; }
inline bool cudnn_is_available() { return false; }
}  // namespace cuda

namespace autograd {
using Variable = at::Tensor;
using variable_list = std::vector<at::Tensor>;
}  // namespace autograd

}  // namespace torch
