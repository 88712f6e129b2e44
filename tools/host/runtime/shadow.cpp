// Maps shadow memory lazily and splits its cells when a finer access comes.
#include "shadow.h"

#include <sys/mman.h>

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

constexpr int kCoarsest = 2;

Cell* map_cells(size_t count) {
  void* memory = mmap(nullptr, count * sizeof(Cell), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Cell*>(memory);
}

size_t cells_between(uintptr_t origin, uintptr_t end, int shift) {
  return ((end - origin) >> shift) + 1;
}

bool is_used(const Cell& cell) {
  return cell.write.tagged | cell.read.tagged | cell.other_read.tagged;
}

Shadow* create(Region& region) {
  const uintptr_t origin = region.first & ~uintptr_t{(1 << kCoarsest) - 1};
  const size_t count = cells_between(origin, region.end(), kCoarsest);
  Cell* cells = map_cells(count);
  if (!cells) return nullptr;
  region.shadow = new Shadow{cells, count, origin, kCoarsest, segments.generation()};
  return region.shadow;
}

bool split(const Region& region, Shadow& shadow, int shift) {
  const size_t count = cells_between(shadow.origin, region.end(), shift);
  Cell* cells = map_cells(count);
  if (!cells) return false;
  const int parts = 1 << (shadow.shift - shift);
  for (size_t i = 0; i < shadow.count; ++i) {
    if (!is_used(shadow.cells[i])) continue;
    for (size_t j = i * parts; j < (i + 1) * parts && j < count; ++j) cells[j] = shadow.cells[i];
  }
  munmap(shadow.cells, shadow.count * sizeof(Cell));
  shadow.cells = cells;
  shadow.count = count;
  shadow.shift = shift;
  return true;
}

}  // namespace

Shadow* make_shadow(Region& region, uintptr_t address, size_t bytes) {
  if (region.shadow && region.shadow->generation != segments.generation()) drop_shadow(region);
  Shadow* shadow = region.shadow ? region.shadow : create(region);
  if (!shadow) return nullptr;
  const int fit = __builtin_ctzll(address | bytes);
  if (fit < shadow->shift && !split(region, *shadow, fit)) return nullptr;
  return shadow;
}

void drop_shadow(Region& region) {
  if (!region.shadow) return;
  munmap(region.shadow->cells, region.shadow->count * sizeof(Cell));
  delete region.shadow;
  region.shadow = nullptr;
}

}  // namespace musahost
