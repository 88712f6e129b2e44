// Host-callable arithmetic of the device headers over arrays, called from Python.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

template <class H>
H from_bits(unsigned short pattern) {
  return H::of_bits(pattern);
}

#define FORMAT(H, name)                                                                          \
  EXPORT void name##_decode(const unsigned short* in, float* out, int n) {                       \
    for (int i = 0; i < n; ++i) out[i] = from_bits<H>(in[i]).wide();                \
  }                                                                                              \
  EXPORT void name##_from_float(const float* in, unsigned short* out, int n) {                   \
    for (int i = 0; i < n; ++i) out[i] = H::of(in[i]).__x;                                           \
  }                                                                                              \
  EXPORT void name##_from_double(const double* in, unsigned short* out, int n) {                 \
    for (int i = 0; i < n; ++i) out[i] = H::of(in[i]).__x;                                           \
  }                                                                                              \
  EXPORT void name##_from_long(const long long* in, unsigned short* out, int n) {                \
    for (int i = 0; i < n; ++i) out[i] = H::of(in[i]).__x;                                           \
  }                                                                                              \
  EXPORT void name##_directed(const float* in, unsigned short* out, int n, int direction) {      \
    const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};                   \
    for (int i = 0; i < n; ++i) out[i] = H::rounded(in[i], modes[direction]).__x;                \
  }                                                                                              \
  EXPORT void name##_binary(const unsigned short* a, const unsigned short* b,                    \
                            unsigned short* out, int n, int op) {                                \
    for (int i = 0; i < n; ++i) {                                                                \
      const H x = from_bits<H>(a[i]), y = from_bits<H>(b[i]);                                    \
      const H r = op == 0   ? __hadd(x, y)                                                       \
                  : op == 1 ? __hsub(x, y)                                                       \
                  : op == 2 ? __hmul(x, y)                                                       \
                  : op == 3 ? __hdiv(x, y)                                                       \
                  : op == 4 ? __hmax(x, y)                                                       \
                            : __hmin(x, y);                                                      \
      out[i] = r.__x;                                                                            \
    }                                                                                            \
  }                                                                                              \
  EXPORT void name##_fma(const unsigned short* a, const unsigned short* b,                       \
                         const unsigned short* c, unsigned short* out, int n) {                  \
    for (int i = 0; i < n; ++i) {                                                                \
      out[i] = __hfma(from_bits<H>(a[i]), from_bits<H>(b[i]), from_bits<H>(c[i])).__x;           \
    }                                                                                            \
  }                                                                                              \
  EXPORT void name##_unary(const unsigned short* in, unsigned short* out, int n, int op) {       \
    for (int i = 0; i < n; ++i) {                                                                \
      const H x = from_bits<H>(in[i]);                                                           \
      const H r = op == 0 ? hsqrt(x) : op == 1 ? hexp(x) : op == 2 ? hlog(x) : hrint(x);         \
      out[i] = r.__x;                                                                            \
    }                                                                                            \
  }
FORMAT(__half, half)
FORMAT(__nv_bfloat16, bfloat16)

// ---- single functions by name
#define FLOAT_FUNCTION(name) \
  EXPORT float f_##name(float x) { return name(x); }
#define DOUBLE_FUNCTION(name) \
  EXPORT double d_##name(double x) { return name(x); }
DOUBLE_FUNCTION(rsqrt)
DOUBLE_FUNCTION(rcbrt)
DOUBLE_FUNCTION(sinpi)
DOUBLE_FUNCTION(cospi)
DOUBLE_FUNCTION(normcdf)
DOUBLE_FUNCTION(normcdfinv)
DOUBLE_FUNCTION(erfinv)
DOUBLE_FUNCTION(erfcinv)
DOUBLE_FUNCTION(erfcx)
DOUBLE_FUNCTION(cyl_bessel_i0)
DOUBLE_FUNCTION(cyl_bessel_i1)
DOUBLE_FUNCTION(exp10)
FLOAT_FUNCTION(rsqrtf)
FLOAT_FUNCTION(erfinvf)
FLOAT_FUNCTION(normcdff)
FLOAT_FUNCTION(__saturatef)
FLOAT_FUNCTION(__frcp_rn)
FLOAT_FUNCTION(__fsqrt_rn)
FLOAT_FUNCTION(__frsqrt_rn)

#define ROUNDED(name)                                                          \
  EXPORT float name##_mode(float a, float b, int mode) {                       \
    return mode == 0   ? name##_rn(a, b)                                       \
           : mode == 1 ? name##_rd(a, b)                                       \
           : mode == 2 ? name##_ru(a, b)                                       \
                       : name##_rz(a, b);                                      \
  }
ROUNDED(__fadd)
ROUNDED(__fsub)
ROUNDED(__fmul)
ROUNDED(__fdiv)

// Fused, the products would not cancel.
EXPORT float difference_of_products(float a, float b, float c, float d) {
  return __fsub_rn(__fmul_rn(a, b), __fmul_rn(c, d));
}

#define TO_INTEGER(from, F, to, I)                               \
  EXPORT long long from##2##to##_mode(F x, int mode) {           \
    const I r = mode == 0   ? __##from##2##to##_rn(x)            \
                : mode == 1 ? __##from##2##to##_rd(x)            \
                : mode == 2 ? __##from##2##to##_ru(x)            \
                            : __##from##2##to##_rz(x);           \
    return static_cast<long long>(r);                            \
  }
TO_INTEGER(float, float, int, int)
TO_INTEGER(float, float, uint, unsigned)
TO_INTEGER(double, double, int, int)
TO_INTEGER(double, double, ll, long long)

EXPORT float int2float_mode(int x, int mode) {
  return mode == 0 ? __int2float_rn(x) : mode == 1 ? __int2float_rd(x) : mode == 2 ? __int2float_ru(x) : __int2float_rz(x);
}

// ---- integers: one entry with a selector keeps the Python side a table
EXPORT unsigned integer(const char* name, unsigned a, unsigned b, unsigned c) {
#define CASE(f, call) \
  if (!strcmp(name, #f)) return static_cast<unsigned>(call);
  CASE(__popc, __popc(a))
  CASE(__clz, __clz(a))
  CASE(__ffs, __ffs(a))
  CASE(__brev, __brev(a))
  CASE(__byte_perm, __byte_perm(a, b, c))
  CASE(__funnelshift_l, __funnelshift_l(a, b, c))
  CASE(__funnelshift_r, __funnelshift_r(a, b, c))
  CASE(__funnelshift_lc, __funnelshift_lc(a, b, c))
  CASE(__funnelshift_rc, __funnelshift_rc(a, b, c))
  CASE(__umulhi, __umulhi(a, b))
  CASE(__mulhi, __mulhi(a, b))
  CASE(__mul24, __mul24(a, b))
  CASE(__umul24, __umul24(a, b))
  CASE(__sad, __sad(static_cast<int>(a), static_cast<int>(b), c))
  CASE(__usad, __usad(a, b, c))
  CASE(__dp4a, __dp4a(static_cast<int>(a), static_cast<int>(b), static_cast<int>(c)))
  CASE(__dp4a_u, __dp4a(a, b, c))
  CASE(__vadd4, __vadd4(a, b))
  CASE(__vsub2, __vsub2(a, b))
  CASE(__vmaxs4, __vmaxs4(a, b))
  CASE(__vminu2, __vminu2(a, b))
  CASE(__vabsdiffu4, __vabsdiffu4(a, b))
  CASE(__vcmpgtu4, __vcmpgtu4(a, b))
  CASE(__vaddss2, __vaddss2(a, b))
#undef CASE
  return 0xdeadbeefu;
}

