// Names that glibc declares and CUDA has not: a call is an error that says so, where the linker's would
// come without a line.
#pragma once
#include <math.h>

#ifdef __GLIBC__
#define MUSAHOST_NOT_CUDA(name)                \
  extern "C" float name(float) noexcept(true) \
      __attribute__((error(#name " is not a CUDA function")));
#define MUSAHOST_NOT_CUDA_2(name)                     \
  extern "C" float name(float, float) noexcept(true) \
      __attribute__((error(#name " is not a CUDA function")));
MUSAHOST_NOT_CUDA(__acosf)
MUSAHOST_NOT_CUDA(__acoshf)
MUSAHOST_NOT_CUDA(__asinf)
MUSAHOST_NOT_CUDA(__asinhf)
MUSAHOST_NOT_CUDA(__atanf)
MUSAHOST_NOT_CUDA(__atanhf)
MUSAHOST_NOT_CUDA(__cbrtf)
MUSAHOST_NOT_CUDA(__ceilf)
MUSAHOST_NOT_CUDA(__coshf)
MUSAHOST_NOT_CUDA(__erff)
MUSAHOST_NOT_CUDA(__erfcf)
MUSAHOST_NOT_CUDA(__exp2f)
MUSAHOST_NOT_CUDA(__expm1f)
MUSAHOST_NOT_CUDA(__fabsf)
MUSAHOST_NOT_CUDA(__floorf)
MUSAHOST_NOT_CUDA(__lgammaf)
MUSAHOST_NOT_CUDA(__log1pf)
MUSAHOST_NOT_CUDA(__logbf)
MUSAHOST_NOT_CUDA(__nearbyintf)
MUSAHOST_NOT_CUDA(__rintf)
MUSAHOST_NOT_CUDA(__roundf)
MUSAHOST_NOT_CUDA(__sinhf)
MUSAHOST_NOT_CUDA(__sqrtf)
MUSAHOST_NOT_CUDA(__tgammaf)
MUSAHOST_NOT_CUDA(__truncf)
MUSAHOST_NOT_CUDA_2(__atan2f)
MUSAHOST_NOT_CUDA_2(__copysignf)
MUSAHOST_NOT_CUDA_2(__fdimf)
MUSAHOST_NOT_CUDA_2(__fmaxf)
MUSAHOST_NOT_CUDA_2(__fminf)
MUSAHOST_NOT_CUDA_2(__fmodf)
MUSAHOST_NOT_CUDA_2(__hypotf)
MUSAHOST_NOT_CUDA_2(__remainderf)
#undef MUSAHOST_NOT_CUDA
#undef MUSAHOST_NOT_CUDA_2
#endif
