// Half precision as far as the tests use it.
#pragma once
#include "standin_attributes.h"
#include "standin_vectors.h"
struct __half_raw {
  unsigned short x;
};
struct __half {
  unsigned short bits;
  __half() = default;
  __host__ __device__ __half(float);
  __host__ __device__ __half(double);
  __host__ __device__ __half(int);
  __host__ __device__ __half(const __half_raw&);
  __host__ __device__ operator float() const;
  __host__ __device__ __half& operator+=(const __half&);
  __host__ __device__ __half& operator*=(const __half&);
};
struct __half2 {
  __half x, y;
};
__host__ __device__ __half operator+(const __half&, const __half&);
__host__ __device__ __half operator-(const __half&, const __half&);
__host__ __device__ __half operator*(const __half&, const __half&);
__host__ __device__ __half operator/(const __half&, const __half&);
__host__ __device__ __half operator-(const __half&);
__host__ __device__ bool operator<(const __half&, const __half&);
__host__ __device__ bool operator>(const __half&, const __half&);
__host__ __device__ bool operator==(const __half&, const __half&);
typedef __half half;
typedef __half2 half2;
__host__ __device__ float __half2float(__half);
__host__ __device__ __half __float2half(float);
__host__ __device__ __half __float2half_rn(float);
__host__ __device__ __half2 __float2half2_rn(float);
__host__ __device__ __half2 __floats2half2_rn(float, float);
__host__ __device__ __half2 __float22half2_rn(float2);
__host__ __device__ float2 __half22float2(__half2);
__host__ __device__ __half2 __halves2half2(__half, __half);
__host__ __device__ __half2 __half2half2(__half);
__host__ __device__ __half2 make_half2(__half, __half);
__host__ __device__ float __low2float(__half2);
__host__ __device__ float __high2float(__half2);
__host__ __device__ __half __low2half(__half2);
__host__ __device__ __half __high2half(__half2);
__host__ __device__ __half __ushort_as_half(unsigned short);
__host__ __device__ unsigned short __half_as_ushort(__half);
__device__ __half __hadd(__half, __half);
__device__ __half2 __hadd2(__half2, __half2);
__device__ __half __hsub(__half, __half);
__device__ __half2 __hsub2(__half2, __half2);
__device__ __half __hmul(__half, __half);
__device__ __half2 __hmul2(__half2, __half2);
__device__ __half __hdiv(__half, __half);
__device__ __half2 __hdiv2(__half2, __half2);
__device__ __half __hmax(__half, __half);
__device__ __half2 __hmax2(__half2, __half2);
__device__ __half __hmin(__half, __half);
__device__ __half2 __hmin2(__half2, __half2);
__device__ __half __hfma(__half, __half, __half);
__device__ __half2 __hfma2(__half2, __half2, __half2);
__device__ __half __hneg(__half);
__device__ bool __hgt(__half, __half);
__device__ bool __hlt(__half, __half);
__device__ __half hexp(__half);
__device__ __half2 h2exp(__half2);
__device__ __half2 h2tanh(__half2);
__device__ __half atomicAdd(__half*, __half);
