// Decides which conflicts are races and reports each instruction once.
#include "races.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "fences.h"
#include "registry.h"
#include "report.h"

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

constexpr size_t kSuspectBytes = 64;
constexpr size_t kReported = 4096;

// A conflict, with the place of the thread that found it.
struct Conflict {
  RaceSide mine;
  Mark other;
  bool other_writes;
  Finding finding{"race"};
};

// A plain write that is about to change memory, or not.
struct Suspicion {
  uintptr_t address;
  size_t bytes;
  unsigned char old[kSuspectBytes];
  bool watched[kSuspectBytes];
  Conflict conflict;
};

Suspicion suspicion;
std::vector<uint3> block_indices;  // of this launch's blocks by serial number
uint32_t first_serial;
std::map<uint32_t, Conflict> waiting_reads;  // by the reading instruction
std::set<uint32_t> forgiven;
uint64_t reported[kReported];

const char* verb(Access access) {
  switch (access) {
    case Access::kRead:
    case Access::kVolatileRead:
      return "read";
    case Access::kAtomic:
      return "atomic update";
    default:
      return "write";
  }
}

const char* advice(const Segment& a, const Segment& b, bool any_strong) {
  if (any_strong) return "not every access is atomic and nothing orders them";
  if (a.block != b.block) return "blocks run in any order and nothing orders these two";
  if (a.thread >> options.warp_shift == b.thread >> options.warp_shift) {
    return "lanes of a warp do not run in lockstep; a __syncwarp() or __syncthreads() is missing";
  }
  return "no __syncthreads() is between them";
}

// Marks keep half of an address; both instructions are in one module, close to each other.
const void* full_pc(uint32_t low, const void* near) {
  const auto base = reinterpret_cast<uintptr_t>(near);
  const auto delta = static_cast<int32_t>(low - static_cast<uint32_t>(base));
  return reinterpret_cast<const void*>(base + delta);
}

std::string region_and_offset(const RaceSide& side) {
  const Region& r = *side.region;
  return text("byte %zu of ", std::max(side.address, r.first) - r.first) +
         name_of(r);
}

void tell(Conflict& conflict) {
  const RaceSide& mine = conflict.mine;
  const Segment& me = segments[mine.mark.segment()];
  const Segment& other = segments[conflict.other.segment()];
  const uint3 thread = worker->launch->thread_indices[other.thread];
  const std::string where = me.block == other.block
                                ? "of the same block"
                                : "of block " + describe(block_indices[other.block - first_serial]);
  const char* what = !conflict.other_writes      ? "read"
                     : conflict.other.strong() ? "atomic update"
                                               : "write";
  Finding& f = conflict.finding;
  f.message = text("%s of ", verb(mine.access)) + region_and_offset(mine) + " conflicts with the " + what +
              " by thread " + describe(thread) + " " + where + ": " +
              advice(me, other, mine.mark.strong() || conflict.other.strong());
  f.pc = mine.pc;
  f.other_pc = full_pc(conflict.other.pc, mine.pc);
  add_finding(std::move(f));
}

void report(Conflict& conflict, ReportKind kind) {
  const auto pc = reinterpret_cast<uintptr_t>(conflict.mine.pc);
  if (!was_reported(conflict.mine.pc, kind) && first_time("race", pc, kind)) tell(conflict);
}

ReportKind kind_of(const Conflict& c) {
  if (!writes(c.mine.access)) return kReadAfterWrite;
  return c.other_writes ? kWriteAfterWrite : kWriteAfterRead;
}

bool is_reported(const void* pc, ReportKind kind) {
  const uint64_t key = reinterpret_cast<uintptr_t>(pc) << 3 | kind;
  return reported[(key ^ key >> 12) % kReported] == key;
}

void suspect(const Conflict& conflict) {
  Suspicion& s = suspicion;
  if (!write_is_suspect) {
    write_is_suspect = true;
    s.address = conflict.mine.access_address;
    s.bytes = conflict.mine.access_bytes;
    s.conflict = conflict;
    memcpy(s.old, reinterpret_cast<void*>(s.address), s.bytes);
    memset(s.watched, 0, sizeof s.watched);
  }
  const size_t cell = size_t{1} << conflict.mine.region->shadow->shift;
  for (size_t i = 0; i < s.bytes; ++i) {
    const uintptr_t at = s.address + i;
    if (at >= conflict.mine.address && at < conflict.mine.address + cell) s.watched[i] = true;
  }
}

bool guarded_by_lock(const Block& block, const Watch& watch, const Segment& other) {
  return other.block == block.serial && other.lock && other.lock == other.closed_by &&
         other.lock == watch.lock;
}

}  // namespace

bool write_is_suspect = false;

void start_races() {
  write_is_suspect = false;
  waiting_reads.clear();
  forgiven.clear();
  block_indices.clear();
  memset(reported, 0, sizeof reported);
}

void note_block(const Block& block) {
  if (block_indices.empty()) first_serial = block.serial;
  block_indices.push_back(block.index);
}

void finish_races() {
  settle_write();
  for (auto& [pc, conflict] : waiting_reads) {
    if (!forgiven.count(pc)) report(conflict, kind_of(conflict));
  }
}

bool was_reported(const void* pc, ReportKind kind) {
  if (is_reported(pc, kind)) return true;
  const uint64_t key = reinterpret_cast<uintptr_t>(pc) << 3 | kind;
  reported[(key ^ key >> 12) % kReported] = key;
  return false;
}

void forgive_reads(Mark read) {
  if (!waiting_reads.count(read.pc) && forgiven.size() > 64) return;
  forgiven.insert(read.pc);
}

void settle_write() {
  if (!write_is_suspect) return;
  write_is_suspect = false;
  Suspicion& s = suspicion;
  const auto* now = reinterpret_cast<const unsigned char*>(s.address);
  bool changed = false;
  for (size_t i = 0; i < s.bytes; ++i) changed |= s.watched[i] && now[i] != s.old[i];
  if (changed) report(s.conflict, kind_of(s.conflict));
}

void found_conflict(const Block& block, const Watch& watch, const RaceSide& mine, Mark other,
                    bool other_writes) {
  if (mine.mark.strong() && other.strong()) return;
  Conflict conflict{mine, other, other_writes};
  if (is_reported(mine.pc, kind_of(conflict))) return;
  const Segment& theirs = segments[other.segment()];
  if (guarded_by_lock(block, watch, theirs)) return;
  if (before_by_fences(theirs, other.segment(), block, watch)) return;
  const bool read_before_atomic = !writes(mine.access) && other.strong();
  const bool atomic_after_read = mine.access == Access::kAtomic && !other_writes;
  if (read_before_atomic || atomic_after_read) {
    const uint32_t reader = read_before_atomic ? mine.mark.pc : other.pc;
    if (waiting_reads.count(reader)) return;
    conflict.finding = finding_here("race", 0);
    waiting_reads.emplace(reader, conflict);
    return;
  }
  conflict.finding = finding_here("race", 0);
  if (writes(mine.access) && mine.access != Access::kAtomic && mine.access_bytes <= kSuspectBytes) {
    suspect(conflict);
  } else {
    report(conflict, kind_of(conflict));
  }
}

void report_uninitialised(const RaceSide& mine) {
  if (was_reported(mine.pc, kUninitialised)) return;
  if (!first_time("uninitialised_read", reinterpret_cast<uintptr_t>(mine.pc))) return;
  Finding f = finding_here("uninitialised_read", 0);
  f.message = text("%s of ", verb(mine.access)) + region_and_offset(mine) +
              ", which no thread of the block has written";
  f.pc = mine.pc;
  add_finding(std::move(f));
}

}  // namespace musahost
