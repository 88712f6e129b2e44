// Block and grid barriers, and threads that wait by spinning.
#include "barrier.h"

#include <algorithm>

#include "checker.h"
#include "report.h"
#include "scheduler.h"

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

// Yields of a block without progress until another block gets its turn.
constexpr unsigned kPatience = 256;

void report_divergence(const Block& block, int line) {
  const Barrier& barrier = block.barrier;
  const int low = std::min(line, barrier.line), high = std::max(line, barrier.line);
  if (!first_time("divergent_barrier", low, high)) return;
  Finding f = finding_here("divergent_barrier", line);
  f.message = text("threads of one block meet at different barriers: thread %s waits at line %d, "
                   "thread %s at line %d",
                   describe(block.threads[barrier.first_thread].index).c_str(), barrier.line,
                   describe(f.thread).c_str(), line);
  add_finding(f);
}

// Waits at the block's barrier; true where the running thread was the last.
void arrive(Block& block, int line) {
  Barrier& barrier = block.barrier;
  if (!barrier.arrived) {
    barrier.line = line;
    barrier.first_thread = block.current;
  } else if (barrier.line != line) {
    report_divergence(block, line);
  }
  if (++barrier.arrived == block.live) {
    complete_barrier(block);
  } else {
    wait_in(State::kBarrier, line);
  }
}

}  // namespace

void complete_barrier(Block& block) {
  Barrier& barrier = block.barrier;
  if (barrier.arrived != block.live) return;
  std::copy(std::begin(barrier.reductions), std::end(barrier.reductions), barrier.results);
  barrier.reductions[0] = 0;
  barrier.reductions[1] = 1;
  barrier.reductions[2] = 0;
  barrier.arrived = 0;
  block.idle_yields = 0;
  if (options.checked) barrier_passed(block);
  const bool reverse = options.order == Order::kReverse;
  for (int i = 0; i < block.size; ++i) {
    const int thread = reverse ? block.size - 1 - i : i;
    if (block.threads[thread].state == State::kBarrier) make_ready(block, thread);
  }
}

}  // namespace musahost

using namespace musahost;

void musahost_barrier(int line) {
  if (worker && worker->thread) arrive(settled_block(), line);
}

int musahost_barrier_reduce(int line, int op, int predicate) {
  if (!worker || !worker->thread) return predicate != 0;
  Block& block = settled_block();
  Barrier& barrier = block.barrier;
  barrier.reductions[0] += predicate != 0;
  barrier.reductions[1] &= predicate != 0;
  barrier.reductions[2] |= predicate != 0;
  arrive(block, line);
  return barrier.results[op];
}

void musahost_grid_barrier(int line) {
  if (!worker || !worker->thread) return;
  const MusahostLaunch& request = *worker->launch->request;
  if (!request.cooperative) {
    musahost_trap("a grid-wide barrier needs a cooperative launch", request.source, line);
  }
  ++worker->block->at_grid_barrier;
  wait_in(State::kGrid, line);
}

void musahost_yield() {
  if (!worker || !worker->thread) return;
  Block& block = *worker->block;
  worker->stalled = ++block.idle_yields > kPatience && worker->launch->block_count > 1;
  let_others_run();
}
