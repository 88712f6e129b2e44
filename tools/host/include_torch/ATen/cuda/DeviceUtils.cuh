#pragma once
#include "../../musahost_thin/atomic.h"
