// Lays out shared memory with wide gaps, so that an overrun hits no other variable.
#include "shared.h"

#include <sys/mman.h>

#include <cstring>

#include "shadow.h"
#include "state.h"

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

constexpr int kPoison = 0xff;  // a NaN in every float format, -1 in integers

size_t cache_slot(const void* key) { return reinterpret_cast<uintptr_t>(key) >> 3 & 7; }

}  // namespace

SharedMemory::~SharedMemory() {
  start_launch();
  if (arena_) munmap(arena_, kArenaBytes);
}

void SharedMemory::start_launch() {
  for (SharedVariable& variable : variables_) drop_shadow(variable.region);
  drop_shadow(dynamic_);
  variables_.clear();
  dynamic_ = Region{};
  dynamic_capacity_ = used_ = 0;
  ++generation_;
}

char* SharedMemory::place(size_t bytes, size_t align) {
  if (!arena_) {
    void* memory = mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    arena_ = static_cast<char*>(memory);
  }
  const size_t start = (used_ + kGapBytes + align - 1) / align * align;
  if (start > kArenaBytes || bytes > kArenaBytes - start) return nullptr;
  used_ = start + bytes;
  return arena_ + start;
}

void* SharedMemory::start_block(size_t dynamic_bytes) {
  ++generation_;
  static_bytes_ = 0;
  if (!dynamic_bytes) return nullptr;
  if (dynamic_bytes != dynamic_capacity_) {
    char* memory = place(dynamic_bytes, 1024);
    dynamic_capacity_ = dynamic_bytes;
    dynamic_.first = reinterpret_cast<uintptr_t>(memory);
    dynamic_.bytes = dynamic_bytes;
    dynamic_.kind = RegionKind::kShared;
    dynamic_.name = "dynamic shared memory";
  }
  void* memory = reinterpret_cast<void*>(dynamic_.first);
  memset(memory, kPoison, dynamic_bytes);
  return memory;
}

void* SharedMemory::find(const void* key, size_t bytes, size_t align, const char* name) {
  Cached& cached = cache_[cache_slot(key)];
  if (cached.key == key && cached.generation == generation_) return cached.address;
  SharedVariable* found = nullptr;
  for (SharedVariable& variable : variables_) {
    if (variable.key == key) found = &variable;
  }
  if (!found) {
    char* memory = place(bytes, align < 16 ? 16 : align);
    if (!memory) return nullptr;
    Region region{reinterpret_cast<uintptr_t>(memory), bytes, RegionKind::kShared,
                  std::string("shared variable '") + name + "'", nullptr};
    variables_.push_back({key, region, 0});
    found = &variables_.back();
  }
  void* memory = reinterpret_cast<void*>(found->region.first);
  if (found->used_by != generation_) {
    found->used_by = generation_;
    static_bytes_ += bytes;
    memset(memory, kPoison, bytes);
  }
  cached = {key, memory, generation_};
  return memory;
}

Region* SharedMemory::region_of(uintptr_t address, size_t bytes) {
  if (dynamic_.holds(address, bytes)) return &dynamic_;
  for (SharedVariable& variable : variables_) {
    if (variable.used_by == generation_ && variable.region.holds(address, bytes)) {
      return &variable.region;
    }
  }
  return nullptr;
}

const Region* SharedMemory::nearest(uintptr_t address) const {
  const Region* best = dynamic_.bytes ? &dynamic_ : nullptr;
  for (const SharedVariable& variable : variables_) {
    if (variable.used_by != generation_) continue;
    if (!best || distance(variable.region, address) < distance(*best, address)) {
      best = &variable.region;
    }
  }
  return best;
}

}  // namespace musahost

using namespace musahost;

void* musahost_shared(const void* key, size_t bytes, size_t align, const char* name) {
  void* memory = worker->block->shared.find(key, bytes, align, name);
  if (!memory) musahost_trap("more than 4 MB of shared memory in one block", nullptr, 0);
  return memory;
}
