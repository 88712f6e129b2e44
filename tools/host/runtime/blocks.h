// The blocks of a launch on one OS thread.
#pragma once
#include "state.h"

namespace musahost __attribute__((visibility("hidden"))) {

// Runs blocks of the launch on the calling OS thread until none is left or the launch is cancelled.
void run_blocks(Launch& launch, int worker_number);

}  // namespace musahost
