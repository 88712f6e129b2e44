// Switching between stacks: the one place that knows the processor's calling convention.
#pragma once
#include <cstddef>

namespace musahost __attribute__((visibility("hidden"))) {

// Saves the running context and its stack pointer in *save, then goes on where `to` was saved.
extern "C" __attribute__((visibility("hidden"))) void musahost_switch(void** save, void* to);

// A stack pointer for musahost_switch that starts `entry` on the stack ending at `top`.
// `entry` must never return.
void* prepare_stack(char* top, void (*entry)());

}  // namespace musahost
