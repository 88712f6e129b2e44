#pragma once
#include "musahost/cuda.h"
#include "musahost/half.h"
#include "musahost/musa_names.h"
