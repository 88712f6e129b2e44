// Device side: built-in variables, barriers, shuffles, atomics, arithmetic. Declarations only.
#pragma once
#include "standin_vectors.h"
extern const __device__ uint3 threadIdx;
extern const __device__ uint3 blockIdx;
extern const __device__ dim3 blockDim;
extern const __device__ dim3 gridDim;
extern const __device__ int warpSize;
__device__ void __syncthreads();
__device__ int __syncthreads_count(int);
__device__ int __syncthreads_and(int);
__device__ int __syncthreads_or(int);
__device__ void __syncwarp(unsigned = 0xffffffff);
__device__ void __threadfence();
__device__ void __threadfence_block();
__device__ void __threadfence_system();
__device__ unsigned __activemask();
__device__ unsigned __ballot_sync(unsigned, int);
__device__ int __any_sync(unsigned, int);
__device__ int __all_sync(unsigned, int);
__device__ int __popc(unsigned);
__device__ int __popcll(unsigned long long);
__device__ int __ffs(int);
__device__ int __clz(int);
__device__ unsigned __brev(unsigned);
__device__ int __float_as_int(float);
__device__ float __int_as_float(int);
__device__ unsigned __float_as_uint(float);
__device__ float __uint_as_float(unsigned);
__device__ long long __double_as_longlong(double);
__device__ double __longlong_as_double(long long);
__device__ long long clock64();
__device__ void __trap();
template <class T>
__device__ T __ldg(const T* p) { return *p; }
template <class T>
__device__ T __ldcs(const T* p) { return *p; }
template <class T>
__device__ void __stcs(T* p, T v) { *p = v; }
template <class T>
__device__ T __shfl_sync(unsigned, T, int, int = 0);
template <class T>
__device__ T __shfl_up_sync(unsigned, T, unsigned, int = 0);
template <class T>
__device__ T __shfl_down_sync(unsigned, T, unsigned, int = 0);
template <class T>
__device__ T __shfl_xor_sync(unsigned, T, int, int = 0);
extern "C" __device__ int printf(const char*, ...);
extern "C" __device__ void* memcpy(void*, const void*, size_t) noexcept;
extern "C" __device__ void* memset(void*, int, size_t) noexcept;
extern "C" __device__ void __assert_fail(const char*, const char*, unsigned, const char*) noexcept;
__device__ int atomicAdd(int*, int);
__device__ unsigned atomicAdd(unsigned*, unsigned);
__device__ unsigned long long atomicAdd(unsigned long long*, unsigned long long);
__device__ float atomicAdd(float*, float);
__device__ double atomicAdd(double*, double);
__device__ int atomicSub(int*, int);
__device__ unsigned atomicSub(unsigned*, unsigned);
__device__ int atomicMax(int*, int);
__device__ unsigned atomicMax(unsigned*, unsigned);
__device__ unsigned long long atomicMax(unsigned long long*, unsigned long long);
__device__ int atomicMin(int*, int);
__device__ unsigned atomicMin(unsigned*, unsigned);
__device__ unsigned long long atomicMin(unsigned long long*, unsigned long long);
__device__ int atomicAnd(int*, int);
__device__ unsigned atomicAnd(unsigned*, unsigned);
__device__ int atomicOr(int*, int);
__device__ unsigned atomicOr(unsigned*, unsigned);
__device__ int atomicXor(int*, int);
__device__ unsigned atomicXor(unsigned*, unsigned);
__device__ int atomicExch(int*, int);
__device__ unsigned atomicExch(unsigned*, unsigned);
__device__ unsigned long long atomicExch(unsigned long long*, unsigned long long);
__device__ float atomicExch(float*, float);
__device__ int atomicCAS(int*, int, int);
__device__ unsigned atomicCAS(unsigned*, unsigned, unsigned);
__device__ unsigned long long atomicCAS(unsigned long long*, unsigned long long, unsigned long long);
__device__ unsigned atomicInc(unsigned*, unsigned);
__device__ float expf(float);
__device__ double exp(double);
__device__ float exp(float);
__device__ float exp2f(float);
__device__ double exp2(double);
__device__ float exp2(float);
__device__ float exp10f(float);
__device__ double exp10(double);
__device__ float expm1f(float);
__device__ double expm1(double);
__device__ float expm1(float);
__device__ float logf(float);
__device__ double log(double);
__device__ float log(float);
__device__ float log2f(float);
__device__ double log2(double);
__device__ float log2(float);
__device__ float log10f(float);
__device__ double log10(double);
__device__ float log10(float);
__device__ float log1pf(float);
__device__ double log1p(double);
__device__ float log1p(float);
__device__ float sinf(float);
__device__ double sin(double);
__device__ float sin(float);
__device__ float cosf(float);
__device__ double cos(double);
__device__ float cos(float);
__device__ float tanf(float);
__device__ double tan(double);
__device__ float tan(float);
__device__ float asinf(float);
__device__ double asin(double);
__device__ float asin(float);
__device__ float acosf(float);
__device__ double acos(double);
__device__ float acos(float);
__device__ float atanf(float);
__device__ double atan(double);
__device__ float atan(float);
__device__ float sinhf(float);
__device__ double sinh(double);
__device__ float sinh(float);
__device__ float coshf(float);
__device__ double cosh(double);
__device__ float cosh(float);
__device__ float tanhf(float);
__device__ double tanh(double);
__device__ float tanh(float);
__device__ float asinhf(float);
__device__ double asinh(double);
__device__ float asinh(float);
__device__ float acoshf(float);
__device__ double acosh(double);
__device__ float acosh(float);
__device__ float atanhf(float);
__device__ double atanh(double);
__device__ float atanh(float);
__device__ float sqrtf(float);
__device__ double sqrt(double);
__device__ float sqrt(float);
__host__ __device__ float rsqrtf(float);
__device__ double rsqrt(double);
__device__ float cbrtf(float);
__device__ double cbrt(double);
__device__ float cbrt(float);
__device__ float fabsf(float);
__device__ double fabs(double);
__device__ float fabs(float);
__device__ float floorf(float);
__device__ double floor(double);
__device__ float floor(float);
__device__ float ceilf(float);
__device__ double ceil(double);
__device__ float ceil(float);
__device__ float roundf(float);
__device__ double round(double);
__device__ float round(float);
__device__ float truncf(float);
__device__ double trunc(double);
__device__ float trunc(float);
__device__ float rintf(float);
__device__ double rint(double);
__device__ float rint(float);
__device__ float nearbyintf(float);
__device__ double nearbyint(double);
__device__ float nearbyint(float);
__device__ float erff(float);
__device__ double erf(double);
__device__ float erf(float);
__device__ float erfcf(float);
__device__ double erfc(double);
__device__ float erfc(float);
__device__ float tgammaf(float);
__device__ double tgamma(double);
__device__ float tgamma(float);
__device__ float lgammaf(float);
__device__ double lgamma(double);
__device__ float lgamma(float);
__device__ float logbf(float);
__device__ double logb(double);
__device__ float logb(float);
__device__ float normcdff(float);
__device__ double normcdf(double);
__device__ float powf(float, float);
__device__ double pow(double, double);
__device__ float pow(float, float);
__device__ float fmodf(float, float);
__device__ double fmod(double, double);
__device__ float fmod(float, float);
__device__ float fmaxf(float, float);
__device__ double fmax(double, double);
__device__ float fmax(float, float);
__device__ float fminf(float, float);
__device__ double fmin(double, double);
__device__ float fmin(float, float);
__device__ float atan2f(float, float);
__device__ double atan2(double, double);
__device__ float atan2(float, float);
__device__ float hypotf(float, float);
__device__ double hypot(double, double);
__device__ float hypot(float, float);
__device__ float copysignf(float, float);
__device__ double copysign(double, double);
__device__ float copysign(float, float);
__device__ float fdimf(float, float);
__device__ double fdim(double, double);
__device__ float fdim(float, float);
__device__ float remainderf(float, float);
__device__ double remainder(double, double);
__device__ float remainder(float, float);
__device__ float fmaf(float, float, float);
__device__ double fma(double, double, double);
__device__ float fma(float, float, float);
__device__ void sincosf(float, float*, float*);
__device__ float ldexpf(float, int);
__device__ float frexpf(float, int*);
__device__ long lroundf(float);
__device__ float __expf(float);
__device__ float __exp10f(float);
__device__ float __logf(float);
__device__ float __log2f(float);
__device__ float __log10f(float);
__device__ float __sinf(float);
__device__ float __cosf(float);
__device__ float __tanf(float);
__device__ float __fsqrt_rn(float);
__device__ float __frcp_rn(float);
__device__ float __frsqrt_rn(float);
__device__ float __saturatef(float);
__device__ float __powf(float, float);
__device__ float __fdividef(float, float);
__device__ float __fadd_rn(float, float);
__device__ float __fsub_rn(float, float);
__device__ float __fmul_rn(float, float);
__device__ float __fdiv_rn(float, float);
__device__ float __fmaf_rn(float, float, float);
__device__ int __float2int_rn(float);
__device__ int __float2int_rz(float);
__device__ int __float2int_rd(float);
__device__ float __int2float_rn(int);
__device__ int __mul24(int, int);
__device__ unsigned __umulhi(unsigned, unsigned);
__host__ __device__ inline int min(int a, int b) { return a < b ? a : b; }
__host__ __device__ inline int max(int a, int b) { return a > b ? a : b; }
__host__ __device__ inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
__host__ __device__ inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
__host__ __device__ inline long min(long a, long b) { return a < b ? a : b; }
__host__ __device__ inline long max(long a, long b) { return a > b ? a : b; }
__host__ __device__ inline unsigned long min(unsigned long a, unsigned long b) { return a < b ? a : b; }
__host__ __device__ inline unsigned long max(unsigned long a, unsigned long b) { return a > b ? a : b; }
__host__ __device__ inline long long min(long long a, long long b) { return a < b ? a : b; }
__host__ __device__ inline long long max(long long a, long long b) { return a > b ? a : b; }
__host__ __device__ inline unsigned long long min(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
__host__ __device__ inline unsigned long long max(unsigned long long a, unsigned long long b) { return a > b ? a : b; }
__host__ __device__ inline float min(float a, float b) { return a < b ? a : b; }
__host__ __device__ inline float max(float a, float b) { return a > b ? a : b; }
__host__ __device__ inline double min(double a, double b) { return a < b ? a : b; }
__host__ __device__ inline double max(double a, double b) { return a > b ? a : b; }
__device__ int abs(int);
__device__ long abs(long);
__device__ long long abs(long long);
__device__ float abs(float);
__device__ double abs(double);
__device__ bool isnan(float);
__device__ bool isinf(float);
__device__ bool isfinite(float);
__device__ bool isnan(double);
__device__ bool isinf(double);
__device__ bool isfinite(double);
__device__ bool signbit(float);
namespace std {
using ::exp;
using ::log;
using ::sqrt;
using ::fabs;
using ::floor;
using ::ceil;
using ::pow;
using ::abs;
using ::fmax;
using ::fmin;
using ::tanh;
using ::sin;
using ::cos;
using ::isnan;
using ::isinf;
using ::isfinite;
using ::round;
using ::trunc;
using ::log1p;
using ::exp2;
using ::log2;
using ::erf;
}  // namespace std
