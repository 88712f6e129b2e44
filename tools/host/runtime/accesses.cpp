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

constexpr size_t kParameterBytes = 8 << 10;
constexpr size_t kLookups = 1024;

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

// Memory that a kernel reads and no device has: its parameters, which the launching function's frame
// keeps, and the slots of warp operations.
bool is_ours(const Block& block, uintptr_t address, size_t bytes, bool is_read) {
  const auto parameters = reinterpret_cast<uintptr_t>(worker->launch->request->argument);
  if (is_read && holds(parameters - 512, kParameterBytes, address, bytes)) return true;
  const Warp& warp = block.warps[warp_of(block.current)];
  for (size_t i = 0; i < warp.used; ++i) {
    if (holds(reinterpret_cast<uintptr_t>(warp.meetings[i]->slots.get()), 2 * 16 * 128, address, bytes)) {
      return true;
    }
  }
  return warp.alone && holds(reinterpret_cast<uintptr_t>(warp.alone.get()), 16 * 128, address, bytes);
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
  Region* region = nullptr;
  Lookup& slot = lookup_of(pc);
  if (block.shared.holds(address)) {
    region = block.shared.region_of(address, bytes);
  } else {
    region = global_region(address, bytes, pc);
    if (!region && is_ours(block, address, bytes, is_read)) return &unwatched;
  }
  if (region) {
    slot = {region->first, region->bytes, region};
    return region;
  }
  report_out_of_bounds(block, address, bytes, is_read, pc);
  // In the gaps of shared memory nothing is lost; elsewhere this process would be.
  if (!block.shared.holds(address) && (!is_read || !is_mapped(address))) abandon(Fault::kReported);
  return nullptr;
}

struct Marker {
  Block& block;
  Watch& watch;
  Region& region;
  const Access access;
  const void* const pc;
  uint32_t segment;
  uint32_t oldest;  // segments before it are ordered before this access
  Mark mark;
  bool reads, writes;
};

bool in_order(const Marker& m, Mark mark) {
  const uint32_t number = mark.segment();
  if (number < m.oldest || number == m.segment) return true;
  const Segment& s = segments[number];
  return s.block == m.block.serial &&
         before_in_block(s, m.block.current, m.block.epoch, m.watch.warp_clock);
}

bool is_elsewhere(const Marker& m, Mark mark) {
  const Segment& s = segments[mark.segment()];
  return s.block != m.block.serial || warp_of(s.thread) != warp_of(m.block.current);
}

// Keeps two reads that a later write can conflict with. One that is ordered before this read may be
// forgotten: whatever is unordered with it is unordered with this one.
void note_read(const Marker& m, Cell& cell) {
  if (cell.read.segment() == m.segment) {
    if (cell.read.strong() && !m.mark.strong()) cell.read = m.mark;
    return;
  }
  if (!in_order(m, cell.read)) {
    const Mark other = cell.other_read;
    if (in_order(m, other) || !is_elsewhere(m, other)) cell.other_read = cell.read;
  }
  cell.read = m.mark;
}

// `old = *p; do ... atomicCAS(p, old, new)`: the read only prepares the atomic operation.
void forgive_preparing_read(const Marker& m, const Cell& cell) {
  const Mark read = cell.read;
  if (read.strong() || read.segment() < m.oldest) return;
  const Segment& s = segments[read.segment()];
  if (s.block == m.block.serial && s.thread == static_cast<uint32_t>(m.block.current)) forgive_reads(read);
}

void mark_cell(const Marker& m, Cell& cell, uintptr_t address) {
  const RaceSide mine{&m.region, address, m.access, m.pc, m.mark};
  if (m.reads && m.region.kind == RegionKind::kShared &&
      cell.write.segment() < m.block.first_segment) {
    report_uninitialised(m.block, mine);
  }
  if (m.access == Access::kAtomic) forgive_preparing_read(m, cell);
  if (!in_order(m, cell.write)) found_conflict(m.block, m.watch, mine, cell.write, true);
  if (m.writes) {
    if (!in_order(m, cell.read)) found_conflict(m.block, m.watch, mine, cell.read, false);
    if (!in_order(m, cell.other_read)) found_conflict(m.block, m.watch, mine, cell.other_read, false);
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

void count_bytes(Launch& launch, Access access, size_t bytes) {
  const bool writes = access == Access::kWrite || access == Access::kVolatileWrite;
  if (!writes) launch.read_bytes += bytes;
  if (writes || access == Access::kAtomic) launch.written_bytes += bytes;
}

void mark_region(Region& region, uintptr_t address, size_t bytes, Access access, const void* pc) {
  Shadow* shadow = shadow_for(region, address, bytes);
  if (!shadow) return;
  Block& block = *worker->block;
  Watch& watch = worker->thread->watch;
  const bool shared = region.kind == RegionKind::kShared;
  const bool is_volatile = access == Access::kVolatileRead || access == Access::kVolatileWrite;
  const bool strong = access == Access::kAtomic || (is_volatile && !shared);
  if (strong) synchronise(block, watch, address);
  const uint32_t segment = current_segment(block, watch);
  watch.has_plain |= !strong;
  const Mark mark{segment | (strong ? Mark::kStrong : 0),
                  static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pc))};
  const bool reads = access != Access::kWrite && access != Access::kVolatileWrite;
  const bool writes = access != Access::kRead && access != Access::kVolatileRead;
  const uint32_t oldest = shared ? block.epoch_first_segment : worker->launch->first_segment;
  const Marker m{block, watch, region, access, pc, segment, oldest, mark, reads, writes};
  const size_t first = (address - shadow->origin) >> shadow->shift;
  const size_t last = (address + bytes - 1 - shadow->origin) >> shadow->shift;
  begin_access(address, bytes);
  for (size_t i = first; i <= last; ++i) {
    mark_cell(m, shadow->cells[i], shadow->origin + (i << shadow->shift));
  }
  if (access == Access::kAtomic) change_lock(watch, lock_hash(address));
}

}  // namespace

void forget_lookups() { memset(static_cast<void*>(lookups), 0, sizeof lookups); }

void check_access(uintptr_t address, size_t bytes, Access access, const void* pc) {
  Worker* const w = worker;
  if (!w || !w->thread || !options.checked) return;
  if (w->thread->stack->holds(reinterpret_cast<void*>(address))) return;
  if (address - reinterpret_cast<uintptr_t>(&musahost_current) < sizeof musahost_current) return;
  settle_write();
  Lookup& known = lookup_of(pc);
  Region* region = known.region;
  if (!holds(known.first, known.bytes, address, bytes)) {
    const bool is_read = access == Access::kRead || access == Access::kVolatileRead;
    region = find_region(*w->block, address, bytes, is_read, pc);
    if (!region) return;
  }
  if (region->kind == RegionKind::kUnwatched || !bytes) return;
  if (region->kind == RegionKind::kTensor) count_bytes(*w->launch, access, bytes);
  mark_region(*region, address, bytes, access, pc);
}

}  // namespace musahost
