#pragma once
#include "../../../musahost_thin/cuda.h"
