#pragma once
#include "musahost/cuda.h"
#include "musahost/half.h"
