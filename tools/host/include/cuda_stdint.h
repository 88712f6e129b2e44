#pragma once
#include "musahost/cuda.h"
