#pragma once
#include "../../../../musahost_thin/musa.h"
