// Shadow memory: who last wrote and who read each element of a region.
#pragma once
#include "region.h"
#include "segments.h"

namespace musahost __attribute__((visibility("hidden"))) {

// One access: which segment made it, where in the code.
struct Mark {
  static constexpr uint32_t kStrong = 0x80000000;  // atomic or, in global memory, volatile
  static constexpr uint32_t kWide = 0x40000000;    // of Cell::read: no write is ordered with both reads
  static constexpr uint32_t kSegment = 0x3fffffff;

  uint32_t tagged = 0;
  uint32_t pc = 0;  // low half of the address

  uint32_t segment() const { return tagged & kSegment; }
  bool strong() const { return tagged & kStrong; }
  bool wide() const { return tagged & kWide; }
};

// The last write, the last read, and a read that is ordered neither before nor after that one.
struct Cell {
  Mark write, read, other_read;
};

// Cells of 4, 2 or 1 bytes of a region: as fine as its finest access.
struct Shadow {
  Cell* cells;
  size_t count;
  uintptr_t origin;  // address of the first cell's first byte
  int shift;         // logarithm of the bytes in a cell
  uint32_t generation;
};

// The region's shadow, with cells as small as the access and its alignment ask. Null where there is no
// memory for it.
Shadow* make_shadow(Region& region, uintptr_t address, size_t bytes);

inline Shadow* shadow_for(Region& region, uintptr_t address, size_t bytes) {
  Shadow* const shadow = region.shadow;
  const bool fits = shadow && shadow->generation == segments.generation() &&
                    !((address | bytes) & ((size_t{1} << shadow->shift) - 1));
  return fits ? shadow : make_shadow(region, address, bytes);
}
void drop_shadow(Region& region);

}  // namespace musahost
