// Warp operations as rendezvous of lanes.
#include "warp.h"

#include <cstring>

#include "checker.h"
#include "report.h"
#include "scheduler.h"

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

constexpr size_t kSlotBytes = 16;
constexpr size_t kMostMeetings = 64;  // of one warp, before finished ones are used again

size_t slots_bytes() { return kSlotBytes * options.warp_size; }

Mask all_lanes(int count) { return count >= 128 ? ~Mask{0} : lane_bit(count) - 1; }

int first_lane(Mask mask) {
  const auto low = static_cast<unsigned long long>(mask);
  return low ? __builtin_ctzll(low)
             : 64 + __builtin_ctzll(static_cast<unsigned long long>(mask >> 64));
}

std::string hexadecimal(Mask mask) {
  const auto low = static_cast<unsigned long long>(mask);
  const auto high = static_cast<unsigned long long>(mask >> 64);
  return high ? text("0x%llx%016llx", high, low) : text("0x%llx", low);
}

bool has_unread_result(const Block& block, int warp, const Rendezvous* meeting) {
  const int first = warp * options.warp_size;
  for (int i = first; i < first + options.warp_size && i < block.size; ++i) {
    const Thread& t = block.threads[i];
    if (t.state == State::kReady && t.result == meeting) return true;
  }
  return false;
}

Rendezvous& fresh_meeting(Block& block, int number) {
  Warp& warp = block.warps[number];
  if (warp.used >= kMostMeetings) {
    for (auto& old : warp.meetings) {
      if (!old->arrived && !has_unread_result(block, number, old.get())) return *old;
    }
  }
  if (warp.used == warp.meetings.size()) warp.meetings.push_back(std::make_unique<Rendezvous>());
  Rendezvous& meeting = *warp.meetings[warp.used++];
  if (!meeting.slots) meeting.slots = std::make_unique<char[]>(2 * kSlotBytes * 128);
  return meeting;
}

Rendezvous& meeting_of(Block& block, int number, Mask mask) {
  Warp& warp = block.warps[number];
  if (warp.last < warp.used && warp.meetings[warp.last]->mask == mask) {
    return *warp.meetings[warp.last];
  }
  for (size_t i = 0; i < warp.used; ++i) {
    if (warp.meetings[i]->mask == mask) {
      warp.last = i;
      return *warp.meetings[i];
    }
  }
  Rendezvous& meeting = fresh_meeting(block, number);
  meeting.mask = mask;
  meeting.arrived = 0;
  return meeting;
}

// Lets the lanes that arrived go on; the running thread is not put into the queue.
void finish(Block& block, int number, Rendezvous& meeting) {
  const Mask lanes = meeting.arrived;
  meeting.taken[meeting.generation & 1] = lanes;
  meeting.arrived = 0;
  ++meeting.generation;
  block.idle_yields = 0;
  if (options.checked) warp_synchronised(block, number, lanes);
  const int first = number * options.warp_size;
  const int self = worker->thread ? block.current : -1;
  const bool reverse = options.order == Order::kReverse;
  for (int i = 0; i < options.warp_size; ++i) {
    const int lane = reverse ? options.warp_size - 1 - i : i;
    if (lanes >> lane & 1 && first + lane != self) make_ready(block, first + lane);
  }
}

bool is_complete(const Warp& warp, const Rendezvous& meeting) {
  const Mask needed = meeting.mask & warp.live;
  return meeting.arrived && (meeting.arrived & needed) == needed;
}

// A lane that its own mask does not name meets nobody.
const char* meet_alone(Warp& warp, unsigned lane, Mask mask, const void* value, unsigned bytes,
                       int line, Mask* arrived) {
  if (first_time("partial_warp", line, 1)) {
    Finding f = finding_here("partial_warp", line);
    f.message = text("lane %u calls a warp operation and is not in its own mask %s", lane,
                     hexadecimal(mask).c_str());
    add_finding(f);
  }
  if (!warp.alone) warp.alone = std::make_unique<char[]>(kSlotBytes * 128);
  memcpy(&warp.alone[lane * kSlotBytes], value, bytes);
  *arrived = lane_bit(lane);
  return warp.alone.get();
}

void report_partial(Block& block, int number, const Rendezvous& meeting) {
  const Thread& t = block.threads[number * options.warp_size + first_lane(meeting.arrived)];
  if (!first_time("partial_warp", t.line)) return;
  const Warp& warp = block.warps[number];
  const Mask absent = meeting.mask & warp.live & ~meeting.arrived;
  Finding f = finding_here("partial_warp", t.line);
  f.has_thread = true;
  f.thread = t.index;
  f.message = text("the mask %s names lanes that do not come: lanes %s wait, lanes %s are elsewhere; "
                   "a device may hang here",
                   hexadecimal(meeting.mask).c_str(), hexadecimal(meeting.arrived).c_str(),
                   hexadecimal(absent).c_str());
  add_finding(f);
}

}  // namespace

void start_warps(Block& block) {
  const int count = (block.size + options.warp_size - 1) / options.warp_size;
  if (static_cast<int>(block.warps.size()) < count) block.warps.resize(count);
  for (int i = 0; i < count; ++i) {
    Warp& warp = block.warps[i];
    warp.live = all_lanes(std::min(block.size - i * options.warp_size, options.warp_size));
    warp.used = warp.last = 0;
    warp.clock = 0;
  }
}

void leave_warp(Block& block, int thread) {
  const int number = warp_of(thread);
  Warp& warp = block.warps[number];
  warp.live &= ~lane_bit(lane_of(thread));
  for (size_t i = 0; i < warp.used; ++i) {
    if (is_complete(warp, *warp.meetings[i])) finish(block, number, *warp.meetings[i]);
  }
}

bool release_gathered(Block& block) {
  bool any = false;
  for (int i = 0; i < block.size; ++i) {
    if (block.threads[i].state != State::kGather) continue;
    const void* key = block.threads[i].key;
    const int end = std::min(block.size, (warp_of(i) + 1) * options.warp_size);
    Mask group = 0;
    for (int j = i; j < end; ++j) {
      const Thread& t = block.threads[j];
      if (t.state == State::kGather && t.key == key) group |= lane_bit(lane_of(j));
    }
    for (int j = i; j < end; ++j) {
      Thread& t = block.threads[j];
      if (t.state != State::kGather || t.key != key) continue;
      t.mask = group;
      make_ready(block, j);
    }
    any = true;
  }
  return any;
}

bool release_partial(Block& block) {
  const int count = (block.size + options.warp_size - 1) / options.warp_size;
  for (int number = 0; number < count; ++number) {
    Warp& warp = block.warps[number];
    for (size_t i = 0; i < warp.used; ++i) {
      Rendezvous& meeting = *warp.meetings[i];
      if (!meeting.arrived) continue;
      report_partial(block, number, meeting);
      finish(block, number, meeting);
      return true;
    }
  }
  return false;
}

}  // namespace musahost

using namespace musahost;

const char* musahost_warp_exchange(Mask mask, const void* value, unsigned bytes, int line,
                                   Mask* arrived) {
  Block& block = settled_block();
  Thread& t = *worker->thread;
  const int number = warp_of(block.current);
  const unsigned lane = lane_of(block.current);
  Warp& warp = block.warps[number];
  if (!(mask >> lane & 1)) return meet_alone(warp, lane, mask, value, bytes, line, arrived);
  Rendezvous& meeting = meeting_of(block, number, mask);
  const unsigned half = meeting.generation & 1;
  char* slots = meeting.slots.get() + half * slots_bytes();
  memcpy(slots + lane * kSlotBytes, value, bytes);
  meeting.arrived |= lane_bit(lane);
  t.mask = mask;
  t.result = &meeting;
  if (is_complete(warp, meeting)) {
    finish(block, number, meeting);
  } else {
    wait_in(State::kWarp, line);
  }
  *arrived = meeting.taken[half];
  return slots;
}

Mask musahost_active_mask() {
  if (!worker || !worker->thread) return 1;
  Thread& t = *worker->thread;
  t.key = __builtin_return_address(0);
  wait_in(State::kGather, 0);
  return t.mask;
}

void musahost_undefined_shuffle(int line, int source_lane, void* out, unsigned bytes) {
  memset(out, 0xff, bytes);
  if (!first_time("undefined_shuffle", line)) return;
  const Block& block = *worker->block;
  const int number = warp_of(block.current) * options.warp_size + source_lane;
  const char* why = source_lane < 0 || number >= block.size ? "is not in the block"
                    : block.threads[number].state == State::kDone ? "has exited"
                                                                  : "does not take part";
  Finding f = finding_here("undefined_shuffle", line);
  f.message = text("lane %u reads from lane %d, which %s: the value is undefined",
                   musahost_current.lane, source_lane, why);
  add_finding(f);
}
