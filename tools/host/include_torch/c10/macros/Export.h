#pragma once
#include "../../musahost_thin/macros.h"
