// A piece of memory that kernels may use, and where the checker keeps its notes on it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace musahost __attribute__((visibility("hidden"))) {

struct Shadow;

enum class RegionKind : uint8_t { kShared, kTensor, kModule, kUnwatched };

struct Region {
  uintptr_t first = 0;
  size_t bytes = 0;
  RegionKind kind = RegionKind::kUnwatched;
  std::string name;  // as reports call it
  Shadow* shadow = nullptr;

  uintptr_t end() const { return first + bytes; }
  bool holds(uintptr_t address, size_t size) const {
    return address - first < bytes && size <= bytes - (address - first);
  }
};

// Distance between an address and the region: 0 inside.
inline size_t distance(const Region& region, uintptr_t address) {
  if (address < region.first) return region.first - address;
  return address < region.end() ? 0 : address - region.end() + 1;
}

}  // namespace musahost
