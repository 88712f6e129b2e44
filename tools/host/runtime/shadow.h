// Shadow memory: who last wrote and read each element of a region.
#pragma once
#include "region.h"

namespace musahost {

void drop_shadow(Region& region);

}  // namespace musahost
