// Maps stacks for CUDA threads.
#include "stacks.h"

#include <sys/mman.h>

#include "context.h"

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

// Tops are spread over cache sets: equal offsets in all stacks would share a few of them.
constexpr size_t kColourBytes = 192;
constexpr size_t kColours = 40;

Stack* map_stack(size_t number) {
  void* memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  mprotect(memory, kGuardBytes, PROT_NONE);
  Stack* stack = new Stack;
  stack->base = static_cast<char*>(memory) + kGuardBytes;
  stack->top = stack->base + kStackBytes - number % kColours * kColourBytes;
  return stack;
}

}  // namespace

Stack* StackPool::take(void (*entry)()) {
  Stack* stack;
  if (free_.empty()) {
    stack = map_stack(mapped_++);
    if (!stack) return nullptr;
  } else {
    stack = free_.back();
    free_.pop_back();
  }
  stack->pointer = prepare_stack(stack->top, entry);
  return stack;
}

}  // namespace musahost
