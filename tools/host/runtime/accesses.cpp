// From an address to its region, and the marks that the access leaves in shadow memory.
#include "accesses.h"

#include <algorithm>
#include <cstring>

#include "faults.h"
#include "fences.h"
#include "modules.h"
#include "races.h"
#include "registry.h"
#include "report.h"
#include "scheduler.h"
#include "segments.h"
#include "shadow.h"

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

constexpr size_t kLookups = 1024;
constexpr size_t kMeetingBytes = 2 * 16 * 128;  // as warp.cpp allocates

// One instruction mostly stays in one region.
struct Lookup {
  uintptr_t first;
  size_t bytes;
  Region* region;
};
Lookup lookups[kLookups];

Region unwatched;

Lookup& lookup_of(const void* pc) {
  const auto at = reinterpret_cast<uintptr_t>(pc);
  return lookups[(at ^ at >> 10) % kLookups];
}

bool holds(uintptr_t first, size_t size, uintptr_t address, size_t bytes) {
  return address - first < size && bytes <= size - (address - first);
}

// Memory of ours that kernels touch: the thread's stack and its view of itself, the launch's
// parameters, and the slots of warp operations. No bytes where it is none of these.
Lookup our_memory(const Block& block, uintptr_t address, size_t bytes, bool is_read) {
  const auto piece = [&](const void* memory, size_t size) -> Lookup {
    const auto first = reinterpret_cast<uintptr_t>(memory);
    return holds(first, size, address, bytes) ? Lookup{first, size, &unwatched} : Lookup{};
  };
  if (const Lookup stack = piece(worker->thread->stack->base, kStackBytes); stack.region) return stack;
  if (const Lookup self = piece(&musahost_current, sizeof musahost_current); self.region) return self;
  if (is_read) {
    const MusahostLaunch& request = *worker->launch->request;
    const Lookup parameters = piece(request.argument, request.argument_bytes);
    if (parameters.region) return parameters;
  }
  const Warp& warp = block.warps[warp_of(block.current)];
  for (size_t i = 0; i < warp.used; ++i) {
    if (const Lookup slots = piece(warp.meetings[i]->slots.get(), kMeetingBytes); slots.region) return slots;
  }
  return warp.alone ? piece(warp.alone.get(), kMeetingBytes / 2) : Lookup{};
}

std::string describe_target(const Block& block, uintptr_t address) {
  for (int i = 0; i < block.size; ++i) {
    const Stack* stack = i < block.started ? block.threads[block.order[i]].stack : nullptr;
    if (stack && stack->holds(reinterpret_cast<void*>(address))) {
      return "local memory of thread " + describe(block.threads[block.order[i]].index);
    }
  }
  return describe_address(address);
}

void report_out_of_bounds(const Block& block, uintptr_t address, size_t bytes, bool is_read,
                          const void* pc) {
  set_error(kIllegalAddress);
  if (was_reported(pc, kOutOfBounds) || !first_time("out_of_bounds", reinterpret_cast<uintptr_t>(pc))) return;
  Finding f = finding_here("out_of_bounds", 0);
  f.message = text("%s of %zu bytes: ", is_read ? "read" : "write", bytes) +
              describe_target(block, address);
  f.pc = pc;
  add_finding(std::move(f));
}

// The region of an access that the lookup cache does not know; null where it is none of the device's.
Region* find_region(Block& block, uintptr_t address, size_t bytes, bool is_read, const void* pc) {
  Lookup found = our_memory(block, address, bytes, is_read);
  if (!found.region) {
    Region* region = block.shared.holds(address) ? block.shared.region_of(address, bytes)
                                                 : global_region(address, bytes);
    if (region) found = {region->first, region->bytes, region};
  }
  if (found.region) {
    lookup_of(pc) = found;
    return found.region;
  }
  report_out_of_bounds(block, address, bytes, is_read, pc);
  // In the gaps of shared memory nothing is lost; elsewhere this process would be.
  if (!block.shared.holds(address) && (!is_read || !is_mapped(address))) abandon(Fault::kReported);
  return nullptr;
}

// An access as it goes through its cells.
struct Marker {
  Block& block;
  Watch& watch;
  Region& region;
  uintptr_t address;
  size_t bytes;
  const void* pc;
  uint32_t segment;
  uint32_t oldest;  // segments before it are ordered before this access
  Mark mark;

  bool is_old(Mark other) const { return other.segment() < oldest || other.segment() == segment; }
};

__attribute__((noinline)) bool in_block_order(const Marker& m, Mark mark) {
  const Segment& s = segments[mark.segment()];
  return s.block == m.block.serial &&
         before_in_block(s, m.block.current, m.block.epoch, m.watch.warp_clock);
}

inline bool in_order(const Marker& m, Mark mark) { return m.is_old(mark) || in_block_order(m, mark); }

// Whether no later write can be ordered after both marks: one of them is then enough to find its race.
// In shared memory all marks that count are of one epoch, in global memory any epochs.
bool are_apart(const Marker& m, Mark a, Mark b) {
  const Segment &s = segments[a.segment()], &t = segments[b.segment()];
  if (s.block != t.block) return true;
  return m.region.kind == RegionKind::kShared && warp_of(s.thread) != warp_of(t.thread);
}

// Keeps two reads that a later write can conflict with. One that is ordered before this read may be
// forgotten: whatever is unordered with it is unordered with this one.
__attribute__((noinline)) void note_concurrent_read(const Marker& m, Cell& cell) {
  if (cell.read.wide() && !m.is_old(cell.other_read)) return;
  if (!in_block_order(m, cell.read)) {
    const Mark other = cell.other_read;
    if (in_order(m, other) || !are_apart(m, other, m.mark)) cell.other_read = cell.read;
  }
  cell.read = m.mark;
  if (!in_order(m, cell.other_read) && are_apart(m, cell.other_read, m.mark)) {
    cell.read.tagged |= Mark::kWide;
  }
}

inline void note_read(const Marker& m, Cell& cell) {
  if (cell.read.segment() == m.segment) {
    if (cell.read.strong() && !m.mark.strong()) cell.read = m.mark;
  } else if (cell.read.segment() < m.oldest) {
    cell.read = m.mark;
  } else {
    note_concurrent_read(m, cell);
  }
}

// `old = *p; do ... atomicCAS(p, old, new)`: the read only prepares the atomic operation.
void forgive_preparing_read(const Marker& m, const Cell& cell) {
  const Mark read = cell.read;
  if (read.strong() || read.segment() < m.oldest) return;
  const Segment& s = segments[read.segment()];
  if (s.block == m.block.serial && s.thread == static_cast<uint32_t>(m.block.current)) forgive_reads(read);
}

__attribute__((noinline)) void conflict(const Marker& m, Access access, uintptr_t cell, Mark other,
                                        bool other_writes) {
  const RaceSide mine{&m.region, cell, access, m.pc, m.mark, m.address, m.bytes};
  found_conflict(m.block, m.watch, mine, other, other_writes);
}

template <Access access>
inline void mark_cell(const Marker& m, Cell& cell, uintptr_t address) {
  if (reads(access) && m.region.kind == RegionKind::kShared &&
      cell.write.segment() < m.block.first_segment) {
    report_uninitialised({&m.region, address, access, m.pc, m.mark, m.address, m.bytes});
  }
  if (access == Access::kAtomic) forgive_preparing_read(m, cell);
  if (!in_order(m, cell.write)) conflict(m, access, address, cell.write, true);
  if (writes(access)) {
    if (!in_order(m, cell.read)) conflict(m, access, address, cell.read, false);
    if (!in_order(m, cell.other_read)) conflict(m, access, address, cell.other_read, false);
    cell = Cell{m.mark, Mark{}, Mark{}};
  } else {
    note_read(m, cell);
  }
}

uint32_t lock_hash(uintptr_t address) {
  return static_cast<uint32_t>(address >> 2) * 0x9e3779b9u | 1;
}

// Accesses between two uses of one atomic variable may be what it guards.
void change_lock(Watch& watch, uint32_t lock) {
  if (watch.segment) {
    Segment& s = segments[watch.segment];
    if (watch.has_plain) {
      s.closed_by = lock;
      watch.segment = 0;
    } else {
      s.lock = lock;
    }
  }
  watch.lock = lock;
}

template <Access access>
inline void mark_region(Region& region, uintptr_t address, size_t bytes, const void* pc) {
  Shadow* shadow = shadow_for(region, address, bytes);
  if (!shadow) return;
  Block& block = *worker->block;
  Watch& watch = worker->thread->watch;
  const bool shared = region.kind == RegionKind::kShared;
  const bool strong = access == Access::kAtomic || (is_volatile(access) && !shared);
  if (strong) synchronise(block, watch, address);
  const uint32_t segment = current_segment(block, watch);
  watch.has_plain |= !strong;
  const Mark mark{segment | (strong ? Mark::kStrong : 0),
                  static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pc))};
  const uint32_t oldest = shared ? block.epoch_first_segment : worker->launch->first_segment;
  const Marker m{block, watch, region, address, bytes, pc, segment, oldest, mark};
  const int shift = shadow->shift;
  const size_t first = (address - shadow->origin) >> shift;
  const size_t last = (address + bytes - 1 - shadow->origin) >> shift;
  for (size_t i = first; i <= last; ++i) {
    mark_cell<access>(m, shadow->cells[i], shadow->origin + (i << shift));
  }
  if (access == Access::kAtomic) change_lock(watch, lock_hash(address));
}

}  // namespace

void forget_lookups() { memset(static_cast<void*>(lookups), 0, sizeof lookups); }

template <Access access>
void check_access(uintptr_t address, size_t bytes, const void* pc) {
  Worker* const w = worker;
  if (!w || !w->thread || !options.checked) return;
  if (write_is_suspect) settle_write();
  const Lookup& known = lookup_of(pc);
  Region* region = known.region;
  if (!holds(known.first, known.bytes, address, bytes)) {
    region = find_region(*w->block, address, bytes, !writes(access), pc);
    if (!region) return;
  }
  if (region->kind == RegionKind::kUnwatched || !bytes) return;
  if (region->kind == RegionKind::kTensor) {
    if (reads(access)) w->launch->read_bytes += bytes;
    if (writes(access)) w->launch->written_bytes += bytes;
  }
  mark_region<access>(*region, address, bytes, pc);
}

template void check_access<Access::kRead>(uintptr_t, size_t, const void*);
template void check_access<Access::kWrite>(uintptr_t, size_t, const void*);
template void check_access<Access::kAtomic>(uintptr_t, size_t, const void*);
template void check_access<Access::kVolatileRead>(uintptr_t, size_t, const void*);
template void check_access<Access::kVolatileWrite>(uintptr_t, size_t, const void*);

}  // namespace musahost
