// Context switch for the System V x86-64 and the AArch64 procedure call standards: only callee-saved
// registers are kept, the compiler has saved the others at the call.
#include "context.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
asm(R"(
.text
.globl musahost_switch
.hidden musahost_switch
.type musahost_switch, @function
musahost_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size musahost_switch, .-musahost_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl musahost_switch
.hidden musahost_switch
.type musahost_switch, %function
musahost_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size musahost_switch, .-musahost_switch
)");
#else
#error "musahost runs on x86-64 and AArch64 only"
#endif

namespace musahost __attribute__((visibility("hidden"))) {

void* prepare_stack(char* top, void (*entry)()) {
  void** slot = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t{15});
#if defined(__x86_64__)
  *--slot = nullptr;  // stands for a return address, so that `entry` finds the stack aligned
  *--slot = reinterpret_cast<void*>(entry);
  slot -= 6;
  memset(slot, 0, 6 * sizeof(void*));
#else
  slot -= 20;
  memset(slot, 0, 20 * sizeof(void*));
  slot[11] = reinterpret_cast<void*>(entry);  // x30, where `ret` goes
#endif
  return slot;
}

}  // namespace musahost
