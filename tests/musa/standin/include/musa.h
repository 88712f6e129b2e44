// The MUSA driver's names as far as the tests use them.
#pragma once
#include "musa_runtime.h"
#define MUSA_VERSION 50200
typedef int MUdevice;
typedef unsigned long long MUdeviceptr;
typedef struct MUctx_st* MUcontext;
typedef struct MUmod_st* MUmodule;
typedef struct MUfunc_st* MUfunction;
typedef struct MUstream_st* MUstream;
typedef enum { MUSA_SUCCESS = 0, MUSA_ERROR_INVALID_VALUE = 1 } MUresult;
extern "C" MUresult muInit(unsigned);
extern "C" MUresult muDeviceGet(MUdevice*, int);
extern "C" MUresult muCtxSynchronize();
extern "C" MUresult muGetErrorString(MUresult, const char**);
