// Keeps the checker's clocks: launches, blocks, barriers and warp operations.
#include "checker.h"

#include "accesses.h"
#include "fences.h"
#include "modules.h"
#include "races.h"
#include "segments.h"

namespace musahost __attribute__((visibility("hidden"))) {

SegmentTable segments;

namespace {

uint32_t blocks_started = 0;

}  // namespace

void SegmentTable::start_launch() {
  first_ = next();
  segments_.clear();
  if (first_ < kMost) return;
  first_ = 1;
  ++generation_;
}

void start_of_launch(Launch& launch) {
  segments.start_launch();
  launch.first_segment = segments.next();
  forget_fences();
  refresh_modules();
  forget_lookups();
  start_races();
}

void end_of_launch() { finish_races(); }

void start_of_block(Block& block) {
  block.serial = ++blocks_started;
  block.epoch = 0;
  block.first_segment = block.epoch_first_segment = segments.next();
  block.fenced_before = 0;
  block.fence_in_epoch = false;
  note_block(block);
}

void barrier_passed(Block& block) {
  settle_write();
  if (block.fence_in_epoch) block.fenced_before = block.epoch + 1;
  block.fence_in_epoch = false;
  ++block.epoch;
  block.epoch_first_segment = segments.next();
  for (int i = 0; i < block.size; ++i) block.threads[i].watch.segment = 0;
}

void grid_synchronised(Launch& launch) {
  settle_write();
  launch.first_segment = segments.next();
}

void warp_synchronised(Block& block, int number, Mask lanes) {
  settle_write();
  const uint32_t clock = ++block.warps[number].clock;
  const int first = number << options.warp_shift;
  for (int i = 0; i < options.warp_size; ++i) {
    if (!(lanes >> i & 1)) continue;
    Watch& watch = block.threads[first + i].watch;
    watch.segment = 0;
    watch.warp_clock = clock;
  }
}

}  // namespace musahost

using namespace musahost;

void musahost_atomic_access(void* address, size_t bytes) {
  check_access<Access::kAtomic>(reinterpret_cast<uintptr_t>(address), bytes,
                                static_cast<const char*>(__builtin_return_address(0)) - 1);
}

void musahost_fence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (!options.checked || !worker || !worker->thread) return;
  settle_write();
  fence(*worker->block, worker->thread->watch);
}
