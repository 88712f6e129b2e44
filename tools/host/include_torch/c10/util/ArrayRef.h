#pragma once
#include "../../musahost_thin/torch.h"
