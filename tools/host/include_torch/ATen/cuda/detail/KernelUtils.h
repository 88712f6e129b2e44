#pragma once
#include "../../../musahost_thin/kernel_loop.h"
