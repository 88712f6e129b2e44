// The checked mode's hooks in the scheduler. Only called where options.checked.
#pragma once
#include "state.h"

namespace musahost __attribute__((visibility("hidden"))) {

void start_of_launch(Launch& launch);
void end_of_launch();
void start_of_block(Block& block);
void barrier_passed(Block& block);
void grid_synchronised(Launch& launch);
void warp_synchronised(Block& block, int warp, Mask lanes);

}  // namespace musahost
