// Signal handlers that leave the kernel, and the findings made of what they saw.
//
// A handler only notes the fault and switches to the scheduler's context; it never returns. That is safe
// for faults of the kernel's own instructions, which hold none of our locks.
#include "faults.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "registry.h"
#include "report.h"
#include "scheduler.h"

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr size_t kSignalStackBytes = 64 << 10;
struct sigaction previous[4];

const void* faulting_pc(const ucontext_t& context) {
#if defined(__x86_64__)
  return reinterpret_cast<const void*>(context.uc_mcontext.gregs[REG_RIP]);
#else
  return reinterpret_cast<const void*>(context.uc_mcontext.pc);
#endif
}

Fault kind_of(int signal, const void* address) {
  if (signal == SIGFPE) return Fault::kDivision;
  if (signal == SIGILL) return Fault::kInstruction;
  const Thread* t = worker->thread;
  return t && t->stack && t->stack->guards(address) ? Fault::kStack : Fault::kMemory;
}

// Outside kernels the fault is not ours: with the old action back, the instruction faults again.
void handle(int signal, siginfo_t* info, void* raw) {
  if (!worker || !worker->thread || info->si_code <= 0) {
    for (int i = 0; i < 4; ++i) {
      if (kSignals[i] == signal) sigaction(signal, &previous[i], nullptr);
    }
    return;
  }
  const ucontext_t& context = *static_cast<ucontext_t*>(raw);
  worker->fault_address = info->si_addr;
  worker->fault_pc = faulting_pc(context);
  worker->fault_is_write = is_write(context);
  abandon(kind_of(signal, info->si_addr));
}

Finding memory_finding(const Worker& w) {
  Finding f = finding_here("out_of_bounds", 0);
  f.message = text("%s of an address that a device cannot reach: ", w.fault_is_write ? "write" : "read") +
              describe_address(reinterpret_cast<uintptr_t>(w.fault_address));
  return f;
}

Finding trap_finding(const std::string& message) {
  Finding f = finding_here("trap", 0);
  f.message = message;
  return f;
}

Finding finding_of(const Worker& w) {
  switch (w.fault) {
    case Fault::kMemory:
      return memory_finding(w);
    case Fault::kStack:
      return trap_finding(text("stack overflow: the thread's local variables and calls need more than "
                               "%zu KB",
                               kStackBytes >> 10));
    case Fault::kDivision:
      return trap_finding("integer division by zero (a device gives an unspecified value)");
    case Fault::kInstruction:
      return trap_finding("illegal instruction or __builtin_trap()");
    default:
      return trap_finding("the host target has no memory left for the block's threads");
  }
}

}  // namespace

bool is_write(const ucontext_t& context) {
#if defined(__x86_64__)
  return context.uc_mcontext.gregs[REG_ERR] & 2;
#else
  (void)context;
  return false;
#endif
}

FaultGuard::FaultGuard() {
  struct sigaction action {};
  action.sa_sigaction = handle;
  // SA_NODEFER: the handler never returns, so nothing would unblock the signal again.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (int i = 0; i < 4; ++i) sigaction(kSignals[i], &action, &previous[i]);
}

FaultGuard::~FaultGuard() {
  for (int i = 0; i < 4; ++i) {
    struct sigaction now {};
    sigaction(kSignals[i], nullptr, &now);
    if (now.sa_sigaction == handle) sigaction(kSignals[i], &previous[i], nullptr);
  }
}

void ensure_signal_stack() {
  stack_t stack{};
  if (sigaltstack(nullptr, &stack) == 0 && !(stack.ss_flags & SS_DISABLE)) return;
  void* memory = mmap(nullptr, kSignalStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  stack.ss_sp = memory;
  stack.ss_size = kSignalStackBytes;
  stack.ss_flags = 0;
  sigaltstack(&stack, nullptr);
}

void report_fault(Worker& w) {
  const Fault fault = w.fault;
  if (fault != Fault::kReported) {
    Finding f = finding_of(w);
    f.pc = w.fault_pc;
    add_finding(std::move(f));
    set_error(fault == Fault::kMemory ? kIllegalAddress : kLaunchFailure);
  }
  w.fault = Fault::kNone;
  w.fault_pc = w.fault_address = nullptr;
  w.thread = nullptr;
}

}  // namespace musahost

using namespace musahost;

void musahost_trap(const char* what, const char* source, int line) {
  Finding f = finding_here("trap", line);
  f.message = what ? what : "trap";
  if (source) f.source = source;
  if (first_time("trap", line)) add_finding(f);
  set_error(f.message.find("ssert") != std::string::npos ? kAssert : kLaunchFailure);
  if (worker && worker->thread) abandon(Fault::kReported);
}
