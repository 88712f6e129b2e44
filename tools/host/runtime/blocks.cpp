// Blocks: started in order, run to their end, and set aside while they wait for other blocks.
#include "blocks.h"

#include <sched.h>

#include <algorithm>
#include <deque>
#include <map>

#include "checker.h"
#include "faults.h"
#include "report.h"
#include "scheduler.h"
#include "warp.h"

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

using Waiting = std::deque<std::unique_ptr<Block>>;

// More stacks than this at once are not mapped; a waiting block beyond it has to be finished first.
constexpr int kMostResidentThreads = 32768;

void reset_order(Block& block) {
  std::vector<int>& order = block.order;
  if (static_cast<int>(order.size()) != block.size) {
    order.resize(block.size);
    for (int i = 0; i < block.size; ++i) order[i] = i;
  }
  if (options.order == Order::kReverse) {
    for (int i = 0; i < block.size; ++i) order[i] = block.size - 1 - i;
  } else if (options.order == Order::kRandom) {
    for (int i = block.size - 1; i > 0; --i) {
      std::swap(order[i], order[next_random(worker->random) % (i + 1)]);
    }
  } else if (block.size && order[0] != 0) {
    for (int i = 0; i < block.size; ++i) order[i] = i;
  }
}

size_t place_in_grid(const Launch& launch, size_t number) {
  if (options.order == Order::kReverse) return launch.block_count - 1 - number;
  if (options.order == Order::kForward) return number;
  return static_cast<size_t>((static_cast<Mask>(number) * launch.stride + launch.offset) %
                             launch.block_count);
}

// A block ready to run its first thread; null where memory is used up.
std::unique_ptr<Block> start_block(Worker& w, size_t number) {
  Launch& launch = *w.launch;
  std::unique_ptr<Block> block;
  if (w.spare_blocks.empty()) {
    block = std::make_unique<Block>();
    block->shared.start_launch();
  } else {
    block = std::move(w.spare_blocks.back());
    w.spare_blocks.pop_back();
  }
  const uint3 grid = launch.request->grid;
  const size_t at = place_in_grid(launch, number);
  block->index = {static_cast<unsigned>(at % grid.x), static_cast<unsigned>(at / grid.x % grid.y),
                  static_cast<unsigned>(at / grid.x / grid.y)};
  block->size = block->live = launch.block_size;
  block->started = block->at_grid_barrier = 0;
  block->settled = false;
  block->idle_yields = 0;
  if (static_cast<int>(block->threads.size()) < block->size) block->threads.resize(block->size);
  block->ready.clear();
  block->ready_head = 0;
  block->barrier = Barrier{};
  reset_order(*block);
  start_warps(*block);
  block->dynamic_shared = block->shared.start_block(launch.request->shared_bytes);
  if (launch.request->shared_bytes && !block->dynamic_shared) return nullptr;
  if (options.checked) start_of_block(*block);
  return block;
}

enum class Outcome { kFinished, kStalled, kFailed };

void report_deadlock(Block& block) {
  std::map<std::pair<State, int>, int> waiting;
  int most = 0, line = 0, exited = 0;
  for (int i = 0; i < block.size; ++i) {
    const Thread& t = block.threads[i];
    if (t.state == State::kDone) {
      ++exited;
      continue;
    }
    const int count = ++waiting[{t.state, t.line}];
    if (count > most) most = count, line = t.line;
  }
  std::string message = "no thread of the block can go on:";
  for (const auto& [place, count] : waiting) {
    const char* what = place.first == State::kBarrier ? "__syncthreads()"
                       : place.first == State::kGrid  ? "a grid-wide barrier"
                                                      : "a warp operation";
    message += text(" %d threads wait at %s, line %d;", count, what, place.second);
  }
  Finding f = finding_here("deadlock", line);
  f.message = message + text(" %d have exited", exited);
  add_finding(f);
  set_error(kLaunchFailure);
}

// Runs a block until it ends, cannot get on by itself, or fails.
Outcome run_block(Worker& w, Block& block) {
  w.block = &block;
  musahost_current.block_idx = block.index;
  musahost_current.dynamic_shared = block.dynamic_shared;
  w.stalled = false;
  while (block.live) {
    if (!run_some(block)) {
      if (release_gathered(block)) continue;
      if (block.at_grid_barrier == block.live) return Outcome::kStalled;
      if (release_partial(block)) continue;
      report_deadlock(block);
      return Outcome::kFailed;
    }
    if (w.fault != Fault::kNone) {
      report_fault(w);
      return Outcome::kFailed;
    }
    if (w.stalled) {
      if (!release_gathered(block)) return Outcome::kStalled;
      w.stalled = false;
    }
  }
  return Outcome::kFinished;
}

bool all_at_grid_barrier(const Waiting& blocks) {
  return std::all_of(blocks.begin(), blocks.end(),
                     [](const auto& b) { return b->at_grid_barrier == b->live; });
}

void release_grid_barrier(const Waiting& blocks) {
  if (options.checked) grid_synchronised(*worker->launch);
  for (const auto& block : blocks) {
    if (options.checked) barrier_passed(*block);
    block->at_grid_barrier = 0;
    for (int i = 0; i < block->size; ++i) {
      if (block->threads[i].state == State::kGrid) make_ready(*block, i);
    }
  }
}

// The block to run now, or null at the end. A new one comes before a waiting one where `want_new`,
// because the waiting may wait for it.
std::unique_ptr<Block> next_block(Worker& w, Waiting& waiting, bool want_new) {
  Launch& launch = *w.launch;
  const bool room = waiting.size() * launch.block_size < kMostResidentThreads;
  if (waiting.empty() || (room && (want_new || all_at_grid_barrier(waiting)))) {
    const size_t number = launch.next_block.fetch_add(1);
    if (number < launch.block_count) {
      std::unique_ptr<Block> block = start_block(w, number);
      if (!block) {
        w.fault = Fault::kOutOfMemory;
        report_fault(w);
      }
      return block;
    }
  }
  if (waiting.empty()) return nullptr;
  if (launch.next_block >= launch.block_count && all_at_grid_barrier(waiting)) {
    release_grid_barrier(waiting);
  }
  std::unique_ptr<Block> block = std::move(waiting.front());
  waiting.pop_front();
  block->idle_yields = 0;
  sched_yield();
  return block;
}

void retire(Worker& w, std::unique_ptr<Block> block) {
  for (int i = 0; block->live && i < block->size; ++i) {
    Thread& t = block->threads[i];
    if (t.stack) w.stacks.give(t.stack);
    t.stack = nullptr;
    t.state = State::kDone;
  }
  w.spare_blocks.push_back(std::move(block));
}

void note_static_shared(Launch& launch, size_t bytes) {
  size_t most = launch.static_shared;
  while (bytes > most && !launch.static_shared.compare_exchange_weak(most, bytes)) {
  }
}

}  // namespace

void run_blocks(Launch& launch, int worker_number) {
  Worker& w = *worker;
  w.launch = &launch;
  w.random = (options.seed * 0x9e3779b97f4a7c15ull + worker_number * 0xbf58476d1ce4e5b9ull) | 1;
  for (const auto& spare : w.spare_blocks) spare->shared.start_launch();
  musahost_current.block_dim = launch.request->block;
  musahost_current.grid_dim = launch.request->grid;
  musahost_current.warp_size = options.warp_size;
  musahost_current.dynamic_bytes = launch.request->shared_bytes;
  Waiting waiting;
  bool want_new = true;
  while (!launch.cancelled) {
    std::unique_ptr<Block> block = next_block(w, waiting, want_new);
    if (!block) break;
    const Outcome outcome = run_block(w, *block);
    w.block = nullptr;
    w.thread = nullptr;
    note_static_shared(launch, block->shared.static_bytes());
    want_new = outcome == Outcome::kStalled;
    if (outcome == Outcome::kStalled) {
      waiting.push_back(std::move(block));
    } else {
      if (outcome == Outcome::kFailed) launch.cancelled = true;
      retire(w, std::move(block));
    }
  }
  for (auto& block : waiting) retire(w, std::move(block));
  if (options.checked) end_of_launch();
  w.launch = nullptr;
}

}  // namespace musahost
