// Fibers: which thread of a block runs next, and on which stack.
#include "scheduler.h"

#include <algorithm>

#include "barrier.h"
#include "context.h"
#include "warp.h"

namespace musahost __attribute__((visibility("hidden"))) {

Options options;
__thread Worker* worker __attribute__((tls_model("initial-exec"), visibility("hidden"))) = nullptr;

namespace {

void set_current(Block& block, int thread) {
  Thread& t = block.threads[thread];
  block.current = thread;
  worker->thread = &t;
  musahost_current.thread_idx = t.index;
  musahost_current.lane = lane_of(thread);
}

int start_next(Block& block) {
  const int number = block.order[block.started++];
  Thread& t = block.threads[number];
  t.result = nullptr;
  t.index = worker->launch->thread_indices[number];
  if (options.checked) t.watch = Watch{};
  return number;
}

// Takes the next thread out of the queues, or -1. Threads that started come first, so that few stacks
// are alive at once; after a yield new ones do, because the yielding thread may wait for them.
int pick(Block& block, bool prefer_new = false) {
  const bool has_ready = block.ready_head < block.ready.size();
  const bool has_new = block.started < block.size;
  uint64_t& random = worker->random;
  const bool is_random = options.order == Order::kRandom;
  if (has_new && (!has_ready || prefer_new || (is_random && next_random(random) & 1))) {
    return start_next(block);
  }
  if (!has_ready) return -1;
  if (is_random) {
    const size_t waiting = block.ready.size() - block.ready_head;
    std::swap(block.ready[block.ready_head],
              block.ready[block.ready_head + next_random(random) % waiting]);
  }
  const int number = block.ready[block.ready_head++];
  if (block.ready_head == block.ready.size()) {
    block.ready.clear();
    block.ready_head = 0;
  }
  return number;
}

void run_fiber();

// The running fiber waits or has ended; its context goes to *save.
void switch_away(Block& block, void** save, bool prefer_new = false) {
  const int next = pick(block, prefer_new);
  if (next < 0) {
    worker->thread = nullptr;
    musahost_switch(save, worker->scheduler);
    return;
  }
  Thread& t = block.threads[next];
  if (!t.stack && !(t.stack = worker->stacks.take(run_fiber))) {
    worker->fault = Fault::kOutOfMemory;
    musahost_switch(save, worker->scheduler);
    return;
  }
  set_current(block, next);
  if (save != &t.stack->pointer) musahost_switch(save, t.stack->pointer);
}

void run_thread(Worker& w) {
  const MusahostLaunch& request = *w.launch->request;
  bool threw = false;
  try {
    request.run(request.argument);
  } catch (...) {
    threw = true;
  }
  if (threw) musahost_trap("a C++ exception left the kernel", request.source, request.line);
}

// Bookkeeping of a thread that returned; its stack is free for another.
void end_thread(Block& block) {
  const int number = block.current;
  Thread& t = block.threads[number];
  t.stack = nullptr;
  t.state = State::kDone;
  --block.live;
  block.idle_yields = 0;
  leave_warp(block, number);
  if (block.barrier.arrived) complete_barrier(block);
}

// Runs thread after thread as plain calls until one of them has waited; true if all ended so.
bool run_unsettled(Worker& w, Block& block, Stack* stack) {
  while (!block.settled) {
    if (block.started == block.size) {
      block.live = 0;
      return true;
    }
    const int number = start_next(block);
    block.threads[number].stack = stack;
    set_current(block, number);
    run_thread(w);
    if (block.settled) return false;  // this thread has yet to be counted out
    block.threads[number].stack = nullptr;
  }
  return false;
}

[[noreturn]] void leave_fiber(void* to) {
  void* dead;
  musahost_switch(&dead, to);
  __builtin_unreachable();
}

// Body of every fiber: runs threads until the next one to run has a stack of its own.
void run_fiber() {
  Worker& w = *worker;
  Block& block = *w.block;
  Stack* stack = w.thread->stack;
  run_thread(w);
  if (!block.settled) {
    w.thread->stack = nullptr;
    if (run_unsettled(w, block, stack)) {
      w.thread = nullptr;
      w.stacks.give(stack);
      leave_fiber(w.scheduler);
    }
  }
  while (true) {
    end_thread(block);
    const int next = pick(block);
    Thread* t = next < 0 ? nullptr : &block.threads[next];
    if (!t || t->stack) w.stacks.give(stack);
    if (!t) {
      w.thread = nullptr;
      leave_fiber(w.scheduler);
    }
    set_current(block, next);
    if (t->stack) leave_fiber(t->stack->pointer);
    t->stack = stack;
    run_thread(w);
  }
}

}  // namespace

Block& settled_block() {
  Block& block = *worker->block;
  if (block.settled) return block;
  block.settled = true;
  for (int i = 0; i < block.started; ++i) {
    const int number = block.order[i];
    if (number == block.current) continue;
    block.threads[number].state = State::kDone;
    --block.live;
    leave_warp(block, number);
  }
  return block;
}

void make_ready(Block& block, int thread) {
  block.threads[thread].state = State::kReady;
  block.ready.push_back(thread);
}

void wait_in(State state, int line) {
  Block& block = settled_block();
  Thread& t = *worker->thread;
  t.state = state;
  t.line = line;
  switch_away(block, &t.stack->pointer);
}

void let_others_run() {
  Block& block = settled_block();
  Thread& t = *worker->thread;
  make_ready(block, block.current);
  if (worker->stalled) {
    worker->thread = nullptr;
    musahost_switch(&t.stack->pointer, worker->scheduler);
  } else {
    switch_away(block, &t.stack->pointer, true);
  }
}

void abandon(Fault fault) {
  worker->fault = fault;
  void* dead;
  musahost_switch(&dead, worker->scheduler);
  __builtin_unreachable();
}

bool run_some(Block& block) {
  const int next = pick(block);
  if (next < 0) return false;
  Worker& w = *worker;
  Thread& t = block.threads[next];
  if (!t.stack && !(t.stack = w.stacks.take(run_fiber))) {
    w.fault = Fault::kOutOfMemory;
    return true;
  }
  set_current(block, next);
  musahost_switch(&w.scheduler, t.stack->pointer);
  return true;
}

}  // namespace musahost
