// Block barriers, as the scheduler sees them.
#pragma once
#include "state.h"

namespace musahost __attribute__((visibility("hidden"))) {

// Lets the waiting threads go on if all live threads wait; called when one arrives or one ends.
void complete_barrier(Block& block);

}  // namespace musahost
