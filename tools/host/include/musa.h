#pragma once
#include "musahost/driver.h"
#include "musahost/musa_names.h"

#define MUdevice CUdevice
#define MUdeviceptr CUdeviceptr
#define MUcontext CUcontext
#define MUmodule CUmodule
#define MUfunction CUfunction
#define MUstream CUstream
#define MUevent CUevent
#define MUresult CUresult
#define MUSA_SUCCESS CUDA_SUCCESS
#define MUSA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE
#define muInit cuInit
#define muDeviceGet cuDeviceGet
#define muDeviceGetCount cuDeviceGetCount
#define muCtxSynchronize cuCtxSynchronize
#define muStreamSynchronize cuStreamSynchronize
#define muGetErrorString cuGetErrorString
