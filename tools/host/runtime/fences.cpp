// Publications by address and what each block has seen of them.
#include "fences.h"

#include <unordered_map>
#include <unordered_set>

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

constexpr size_t kMostSteps = 20000;  // of one search; longer ones count as ordered

// Covers what the fence ended, and all of the block before epoch `bound`.
struct Publication {
  uint32_t block;
  uint32_t fence_segment;  // 0 for none
  uint32_t bound;
};

struct Variable {
  std::vector<Publication> publications;
  std::unordered_map<uint32_t, std::vector<uint32_t>> by_block;
};

// A thread saw the first `count` publications of a variable when it was in `segment`.
struct Sighting {
  uint32_t segment;
  const Variable* variable;
  size_t count;
};

std::unordered_map<uintptr_t, Variable> variables;
std::unordered_map<uint32_t, std::vector<Sighting>> sightings;  // by block

bool covers(const Publication& p, const Segment& earlier, uint32_t number) {
  if (p.block != earlier.block) return false;
  if (earlier.epoch < p.bound) return true;
  if (!p.fence_segment) return false;
  const Segment& fenced = segments[p.fence_segment];
  if (earlier.thread == fenced.thread) return number <= p.fence_segment;
  return before_in_block(earlier, fenced.thread, fenced.epoch, fenced.warp_clock);
}

bool saw_directly(const Sighting& sighting, const Segment& earlier, uint32_t number) {
  const auto at = sighting.variable->by_block.find(earlier.block);
  if (at == sighting.variable->by_block.end()) return false;
  for (const uint32_t i : at->second) {
    if (i < sighting.count && covers(sighting.variable->publications[i], earlier, number)) return true;
  }
  return false;
}

// Follows publications back through what their own blocks had seen.
class Search {
 public:
  Search(const Segment& earlier, uint32_t number) : earlier_(earlier), number_(number) {}

  bool from(uint32_t block, uint32_t thread, uint32_t epoch, uint32_t warp_clock) {
    const auto seen = sightings.find(block);
    if (seen == sightings.end()) return false;
    for (const Sighting& s : seen->second) {
      const Segment& when = segments[s.segment];
      if (!before_in_block(when, thread, epoch, warp_clock)) continue;
      if (saw_directly(s, earlier_, number_)) return true;
      for (size_t i = 0; i < s.count; ++i) pending_.push_back(&s.variable->publications[i]);
    }
    return false;
  }

  bool run() {
    size_t steps = 0;
    while (!pending_.empty()) {
      const Publication* p = pending_.back();
      pending_.pop_back();
      if (!visited_.insert(p).second) continue;
      if (++steps > kMostSteps) return true;
      if (from(p->block, ~0u, p->bound, 0)) return true;
      if (!p->fence_segment) continue;
      const Segment& fenced = segments[p->fence_segment];
      if (from(p->block, fenced.thread, fenced.epoch, fenced.warp_clock)) return true;
    }
    return false;
  }

 private:
  const Segment& earlier_;
  uint32_t number_;
  std::vector<const Publication*> pending_;
  std::unordered_set<const Publication*> visited_;
};

void publish(Block& block, const Watch& watch, uintptr_t address) {
  if (!watch.fence_segment && !block.fenced_before) return;
  Variable& variable = variables[address];
  const Publication p{block.serial, watch.fence_segment, block.fenced_before};
  if (!variable.publications.empty()) {
    const Publication& last = variable.publications.back();
    if (last.block == p.block && last.fence_segment == p.fence_segment && last.bound == p.bound) return;
  }
  variable.by_block[p.block].push_back(static_cast<uint32_t>(variable.publications.size()));
  variable.publications.push_back(p);
}

}  // namespace

void forget_fences() {
  variables.clear();
  sightings.clear();
}

void fence(Block& block, Watch& watch) {
  watch.fence_segment = current_segment(block, watch);
  watch.segment = 0;
  block.fence_in_epoch = true;
}

void synchronise(Block& block, Watch& watch, uintptr_t address) {
  if (!variables.empty()) {
    const auto at = variables.find(address);
    if (at != variables.end()) {
      const uint32_t segment = current_segment(block, watch);
      const size_t count = at->second.publications.size();
      std::vector<Sighting>& seen = sightings[block.serial];
      const bool known = !seen.empty() && seen.back().variable == &at->second &&
                         seen.back().count == count && segments[seen.back().segment].thread ==
                                                           static_cast<uint32_t>(block.current);
      if (!known) seen.push_back({segment, &at->second, count});
    }
  }
  publish(block, watch, address);
}

bool before_by_fences(const Segment& earlier, uint32_t number, const Block& block, const Watch& watch) {
  if (variables.empty()) return false;
  Search search(earlier, number);
  return search.from(block.serial, block.current, block.epoch, watch.warp_clock) || search.run();
}

}  // namespace musahost
