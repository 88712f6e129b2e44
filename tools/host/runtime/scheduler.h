// Runs the threads of blocks on fibers of one OS thread.
//
// A thread that never waits is an ordinary call: the fiber that ran it goes on with the next thread on
// the same stack. Only a thread that waits keeps its stack. Fibers never change their OS thread, so
// thread-local variables (threadIdx among them) stay right.
#pragma once
#include "state.h"

namespace musahost __attribute__((visibility("hidden"))) {

// Runs threads of the block until control comes back: none can run, one failed, or all only spin.
// False if none could run.
bool run_some(Block& block);
// The running block, with every thread that ended counted out. What waits or counts threads asks this.
Block& settled_block();
// Suspends the running thread in `state` until it is made ready; others run meanwhile.
void wait_in(State state, int line);
// Suspends it, but behind all others that can run.
void let_others_run();
void make_ready(Block& block, int thread);
// Ends the running thread's launch: nothing more of its block is executed. Does not return.
[[noreturn]] void abandon(Fault fault);

}  // namespace musahost
