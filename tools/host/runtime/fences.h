// Order between blocks: what was written before a __threadfence() and an atomic operation may be read
// by who sees that operation with one of its own.
#pragma once
#include "segments.h"

namespace musahost __attribute__((visibility("hidden"))) {

void forget_fences();
void fence(Block& block, Watch& watch);
// The running thread uses `address` atomically (or through a volatile): it publishes what it fenced, and
// sees what others published there.
void synchronise(Block& block, Watch& watch, uintptr_t address);
// Whether fences and atomics put `earlier`, of any block, before now.
bool before_by_fences(const Segment& earlier, uint32_t number, const Block& block, const Watch& watch);

}  // namespace musahost
