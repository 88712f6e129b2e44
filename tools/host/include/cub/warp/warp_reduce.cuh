#pragma once
#include "../../musahost/warp_collectives.h"
