#pragma once
#include "musahost/pipeline.h"
