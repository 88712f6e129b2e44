// __half and __nv_bfloat16 with their pairs and intrinsics.
#pragma once
#include "atomics.h"
#include "memory.h"
#include "narrow.h"
#include "warp.h"

using __half = ::musahost::Narrow<::musahost::Binary16>;
using __half2 = ::musahost::Narrow2<::musahost::Binary16>;
using __half_raw = ::musahost::NarrowRaw<::musahost::Binary16>;
using __half2_raw = ::musahost::Narrow2Raw<::musahost::Binary16>;
using half = __half;
using half2 = __half2;
using __nv_half = __half;
using __nv_half2 = __half2;
using nv_half = __half;
using nv_half2 = __half2;

using __nv_bfloat16 = ::musahost::Narrow<::musahost::Brain16>;
using __nv_bfloat162 = ::musahost::Narrow2<::musahost::Brain16>;
using __nv_bfloat16_raw = ::musahost::NarrowRaw<::musahost::Brain16>;
using __nv_bfloat162_raw = ::musahost::Narrow2Raw<::musahost::Brain16>;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

#define MUSAHOST_H __half
#define MUSAHOST_H2 __half2
#define MUSAHOST_NAME half
#include "narrow_functions.inc"
#undef MUSAHOST_H
#undef MUSAHOST_H2
#undef MUSAHOST_NAME

#define MUSAHOST_H __nv_bfloat16
#define MUSAHOST_H2 __nv_bfloat162
#define MUSAHOST_NAME bfloat16
#include "narrow_functions.inc"
#undef MUSAHOST_H
#undef MUSAHOST_H2
#undef MUSAHOST_NAME

#define CUDART_INF_FP16 __ushort_as_half(0x7c00u)
#define CUDART_NAN_FP16 __ushort_as_half(0x7fffu)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half(0x0001u)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half(0x7bffu)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half(0x8000u)
#define CUDART_ZERO_FP16 __ushort_as_half(0x0000u)
#define CUDART_ONE_FP16 __ushort_as_half(0x3c00u)
#define CUDART_INF_BF16 __ushort_as_bfloat16(0x7f80u)
#define CUDART_NAN_BF16 __ushort_as_bfloat16(0x7fffu)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16(0x0001u)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16(0x7f7fu)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16(0x8000u)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16(0x0000u)
#define CUDART_ONE_BF16 __ushort_as_bfloat16(0x3f80u)
