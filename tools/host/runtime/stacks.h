// Stacks of CUDA threads: lazily touched, each with a guard area below it.
#pragma once
#include <cstddef>
#include <vector>

namespace musahost __attribute__((visibility("hidden"))) {

constexpr size_t kStackBytes = 256 << 10;
constexpr size_t kGuardBytes = 16 << 10;

struct Stack {
  char* base = nullptr;  // lowest usable byte
  char* top = nullptr;
  void* pointer = nullptr;  // where musahost_switch goes on

  bool holds(const void* address) const {
    return static_cast<size_t>(static_cast<const char*>(address) - base) < kStackBytes;
  }
  bool guards(const void* address) const {
    return static_cast<size_t>(base - 1 - static_cast<const char*>(address)) < kGuardBytes;
  }
};

// Stacks of one worker; they are kept for the next launch.
class StackPool {
 public:
  // A stack prepared to start `entry`, or null where the address space is used up.
  Stack* take(void (*entry)());
  void give(Stack* stack) { free_.push_back(stack); }

 private:
  std::vector<Stack*> free_;
  size_t mapped_ = 0;
};

}  // namespace musahost
