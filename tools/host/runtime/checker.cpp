#include "checker.h"

#include "shadow.h"

namespace musahost {
void start_of_launch(Launch&) {}
void start_of_block(Block&) {}
void end_of_thread(Block&, Thread&) {}
void reach_barrier(Block&, Thread&) {}
void barrier_passed(Block&) {}
void grid_synchronised(Launch&) {}
void warp_synchronised(Block&, int, Mask) {}
void drop_shadow(Region&) {}
}  // namespace musahost

void musahost_atomic_access(void*, size_t) {}
void musahost_fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
