#pragma once
#include "musahost/random.h"
