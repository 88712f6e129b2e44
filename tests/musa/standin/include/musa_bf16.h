// bfloat16 as far as the tests use it.
#pragma once
#include "standin_attributes.h"
#include "standin_vectors.h"
struct __mt_bfloat16_raw {
  unsigned short x;
};
struct __mt_bfloat16 {
  unsigned short bits;
  __mt_bfloat16() = default;
  __host__ __device__ __mt_bfloat16(float);
  __host__ __device__ __mt_bfloat16(double);
  __host__ __device__ __mt_bfloat16(int);
  __host__ __device__ __mt_bfloat16(const __mt_bfloat16_raw&);
  __host__ __device__ operator float() const;
  __host__ __device__ __mt_bfloat16& operator+=(const __mt_bfloat16&);
  __host__ __device__ __mt_bfloat16& operator*=(const __mt_bfloat16&);
};
struct __mt_bfloat162 {
  __mt_bfloat16 x, y;
};
__host__ __device__ __mt_bfloat16 operator+(const __mt_bfloat16&, const __mt_bfloat16&);
__host__ __device__ __mt_bfloat16 operator-(const __mt_bfloat16&, const __mt_bfloat16&);
__host__ __device__ __mt_bfloat16 operator*(const __mt_bfloat16&, const __mt_bfloat16&);
__host__ __device__ __mt_bfloat16 operator/(const __mt_bfloat16&, const __mt_bfloat16&);
__host__ __device__ __mt_bfloat16 operator-(const __mt_bfloat16&);
__host__ __device__ bool operator<(const __mt_bfloat16&, const __mt_bfloat16&);
__host__ __device__ bool operator>(const __mt_bfloat16&, const __mt_bfloat16&);
__host__ __device__ bool operator==(const __mt_bfloat16&, const __mt_bfloat16&);
typedef __mt_bfloat16 mt_bfloat16;
typedef __mt_bfloat162 mt_bfloat162;
__host__ __device__ float __bfloat162float(__mt_bfloat16);
__host__ __device__ __mt_bfloat16 __float2bfloat16(float);
__host__ __device__ __mt_bfloat16 __float2bfloat16_rn(float);
__host__ __device__ __mt_bfloat162 __floats2bfloat162_rn(float, float);
__host__ __device__ float2 __bfloat1622float2(__mt_bfloat162);
__host__ __device__ __mt_bfloat162 __halves2bfloat162(__mt_bfloat16, __mt_bfloat16);
