// Hardware faults inside kernels: the process goes on, the launch does not.
#pragma once
#include <ucontext.h>

#include "state.h"

namespace musahost __attribute__((visibility("hidden"))) {

// While alive, memory faults, divisions by zero and illegal instructions of kernel code end the launch
// instead of the process. Made by the launching thread around all workers.
class FaultGuard {
 public:
  FaultGuard();
  FaultGuard(const FaultGuard&) = delete;
  ~FaultGuard();
};

// Handlers run on a stack of their own, because the faulting one may be full. For each OS thread.
void ensure_signal_stack();

// Whether the access that faulted was a store.
bool is_write(const ucontext_t& context);

// Turns what a worker's fault fields say into a finding and a pending error, and clears them.
void report_fault(Worker& w);

}  // namespace musahost
