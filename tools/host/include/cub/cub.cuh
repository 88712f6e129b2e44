#pragma once
#include "../musahost/block_collectives.h"
#include "../musahost/device_collectives.h"
#include "../musahost/warp_collectives.h"
