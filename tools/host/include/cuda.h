#pragma once
#include "musahost/driver.h"
