#pragma once
#include "../../musahost/device_collectives.h"
