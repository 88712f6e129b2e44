#pragma once
#include "musahost/groups.h"
