#pragma once
#include "../../../../include_torch/musahost_thin/kernel_loop.h"
