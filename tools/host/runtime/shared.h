// A block's shared memory: the dynamic part and every static variable, apart from each other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>

#include "region.h"

namespace musahost __attribute__((visibility("hidden"))) {

constexpr size_t kStaticSharedLimit = 48 << 10;
constexpr size_t kSharedLimit = 227 << 10;  // of one block on sm_90

struct SharedVariable {
  const void* key;
  Region region;
  uint32_t used_by;  // generation of the block that used it last
};

class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(const SharedMemory&) = delete;
  ~SharedMemory();

  // Forgets the variables of the last kernel.
  void start_launch();
  // New, poisoned contents for the next block. Null is returned for no bytes.
  void* start_block(size_t dynamic_bytes);
  // Address of a static variable, or null where the block asks for more than 4 MB in all.
  void* find(const void* key, size_t bytes, size_t align, const char* name);
  size_t static_bytes() const { return static_bytes_; }

  bool holds(uintptr_t address) const {
    return address - reinterpret_cast<uintptr_t>(arena_) < kArenaBytes;
  }
  // The variable or dynamic memory with all of [address, address + bytes), else null.
  Region* region_of(uintptr_t address, size_t bytes);
  // The variable nearest to an address, else null.
  const Region* nearest(uintptr_t address) const;

 private:
  static constexpr size_t kArenaBytes = 4 << 20;
  static constexpr size_t kGapBytes = 16 << 10;

  char* place(size_t bytes, size_t align);

  struct Cached {
    const void* key;
    void* address;
    uint32_t generation;
  };
  Cached cache_[8] = {};
  char* arena_ = nullptr;
  size_t used_ = 0;
  uint32_t generation_ = 1;
  size_t static_bytes_ = 0;
  size_t dynamic_capacity_ = 0;
  Region dynamic_;
  std::deque<SharedVariable> variables_;
};

}  // namespace musahost
