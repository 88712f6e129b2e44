// The core of CUDA C++ as the host target gives it: what every translation unit may use.
#pragma once
#include <type_traits>
#include <utility>

#include "atomics.h"
#include "casts.h"
#include "device.h"
#include "functions.h"
#include "integers.h"
#include "intrinsics.h"
#include "kernels.h"
#include "launch.h"
#include "memory.h"
#include "not_cuda.h"
#include "query.h"
#include "streams.h"
#include "sync.h"
#include "transfers.h"
#include "vector.h"
#include "warp.h"

// Last, as it may be read again: NDEBUG decides.
#include "../assert.h"
