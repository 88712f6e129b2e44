// Conflicts between accesses: which are races, and how they are told.
#pragma once
#include "accesses.h"
#include "segments.h"
#include "shadow.h"

namespace musahost __attribute__((visibility("hidden"))) {

struct RaceSide {
  const Region* region;
  uintptr_t address;  // of the cell
  Access access;
  const void* pc;
  Mark mark;
  uintptr_t access_address;
  size_t access_bytes;
};

void start_races();
void note_block(const Block& block);
// Reports what had to wait for the kernel's end.
void finish_races();

// The running thread's access conflicts with a mark that neither barriers nor warp operations order.
void found_conflict(const Block& block, const Watch& watch, const RaceSide& mine, Mark other,
                    bool other_writes);
void report_uninitialised(const RaceSide& mine);

// Plain reads by this instruction prepare atomic operations: their conflicts with atomics are no races.
void forgive_reads(Mark read);

// A write of the value that is there already harms nobody. The hook of a write comes before the write,
// so the verdict on a suspicious one waits for the next event.
extern bool write_is_suspect;
void settle_write();

// True from the second call on for an instruction and a kind of fault: cheaper than first_time().
enum ReportKind : uint32_t { kOutOfBounds, kUninitialised, kReadAfterWrite, kWriteAfterWrite, kWriteAfterRead };
bool was_reported(const void* pc, ReportKind kind);

}  // namespace musahost
