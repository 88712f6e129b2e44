// Operations in which the lanes of a warp meet.
#pragma once
#include "state.h"

namespace musahost __attribute__((visibility("hidden"))) {

void start_warps(Block& block);
// The thread will take part in no more meetings.
void leave_warp(Block& block, int thread);
// Lets threads that gathered for __activemask() go on as one converged group. True if there were any.
bool release_gathered(Block& block);
// Lets one meeting go on without the lanes that cannot come, and reports it. True if there was one.
bool release_partial(Block& block);

}  // namespace musahost
