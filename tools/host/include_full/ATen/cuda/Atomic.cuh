#pragma once
#include "../../../include_torch/musahost_thin/atomic.h"
