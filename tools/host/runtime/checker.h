// The checked mode's hooks in the scheduler. Only called where options.checked.
#pragma once
#include "state.h"

namespace musahost {

void start_of_launch(Launch& launch);
void start_of_block(Block& block);
void end_of_thread(Block& block, Thread& thread);
void reach_barrier(Block& block, Thread& thread);
void barrier_passed(Block& block);
void grid_synchronised(Launch& launch);
void warp_synchronised(Block& block, int warp, Mask lanes);

}  // namespace musahost
