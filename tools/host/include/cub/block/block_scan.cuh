#pragma once
#include "../../musahost/block_collectives.h"
