// Registered memory by address, with what was freed lately, to explain a bad access.
#include "registry.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "device.h"
#include "modules.h"
#include "report.h"
#include "shadow.h"

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

constexpr size_t kRedZoneBytes = 4096;
constexpr size_t kAlignment = 256;  // of cudaMalloc
constexpr size_t kNearBytes = 64 << 10;
constexpr size_t kRememberedFrees = 64;

struct Entry {
  Region region;
  int registrations = 0;
  void* allocation = nullptr;  // what to free, where it is ours
};
using Entries = std::map<uintptr_t, Entry>;

struct Registry {
  std::mutex mutex;
  Entries entries;
  size_t longest = 0;  // bounds how far back an overlapping registration can start
  std::deque<Region> freed;
};

Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

Entry& add(Registry& r, const void* address, size_t bytes, const char* name) {
  const auto first = reinterpret_cast<uintptr_t>(address);
  Entry& entry = r.entries[first];
  if (bytes > entry.region.bytes || !entry.registrations) {
    drop_shadow(entry.region);
    entry.region.first = first;
    entry.region.bytes = bytes;
    entry.region.kind = RegionKind::kTensor;
  }
  if (name && *name) entry.region.name = name;
  ++entry.registrations;
  r.longest = std::max(r.longest, bytes);
  return entry;
}

void remember_free(Registry& r, const Region& region) {
  r.freed.push_back(region);
  r.freed.back().shadow = nullptr;
  if (r.freed.size() > kRememberedFrees) r.freed.pop_front();
}

void remove(Registry& r, Entries::iterator at) {
  if (--at->second.registrations > 0) return;
  remember_free(r, at->second.region);
  drop_shadow(at->second.region);
  free(at->second.allocation);
  r.entries.erase(at);
}

// Registrations may overlap (a view inside its storage): looks back as far as one can reach.
template <class Accept>
Region* find_back(Registry& r, uintptr_t address, Accept accept) {
  for (auto at = r.entries.upper_bound(address); at != r.entries.begin();) {
    --at;
    if (address - at->first > r.longest) break;
    if (accept(at->second.region)) return &at->second.region;
  }
  return nullptr;
}

std::string relation(const Region& region, uintptr_t address) {
  const std::string size = region.kind == RegionKind::kTensor ? "" : text(" of %zu bytes", region.bytes);
  if (address >= region.end()) {
    return text("%zu bytes past the end of ", address - region.end()) + name_of(region) + size;
  }
  if (address < region.first) {
    return text("%zu bytes before the start of ", region.first - address) + name_of(region) + size;
  }
  return text("%zu bytes before the end of ", region.end() - address) + name_of(region) + size;
}

const Region* nearest_entry(Registry& r, uintptr_t address) {
  const Region* best = nullptr;
  const auto consider = [&](const Region& region) {
    if (!best || distance(region, address) < distance(*best, address)) best = &region;
  };
  const auto after = r.entries.upper_bound(address);
  if (after != r.entries.end()) consider(after->second.region);
  if (after != r.entries.begin()) consider(std::prev(after)->second.region);
  return best;
}

const Region* freed_region(Registry& r, uintptr_t address) {
  for (auto region = r.freed.rbegin(); region != r.freed.rend(); ++region) {
    if (region->holds(address, 1)) return &*region;
  }
  return nullptr;
}

}  // namespace

// Registered names need not say what they name.
std::string name_of(const Region& region) {
  if (region.name.empty()) return text("a tensor of %zu bytes", region.bytes);
  const bool bare = region.kind == RegionKind::kTensor && region.name.rfind("tensor", 0) != 0 &&
                    region.name.rfind("cudaMalloc", 0) != 0;
  return (bare ? "tensor " : "") + region.name;
}

Region* global_region(uintptr_t address, size_t bytes) {
  Registry& r = registry();
  {
    const std::lock_guard lock(r.mutex);
    const auto holds = [&](const Region& region) { return region.holds(address, bytes); };
    if (Region* found = find_back(r, address, holds)) return found;
  }
  return module_region(address, bytes);
}

std::string describe_address(uintptr_t address) {
  if (const std::string name = host_tensor_at(reinterpret_cast<const void*>(address)); !name.empty()) {
    return name + ", which is in host memory: it needs .cuda(), or device= where it is made";
  }
  if (address < 4096) return text("null pointer (address 0x%zx)", address);
  if (worker && worker->block && worker->block->shared.holds(address)) {
    if (const Region* near = worker->block->shared.nearest(address)) return relation(*near, address);
  }
  if (const Region* variable = nearest_variable(address)) return relation(*variable, address);
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const Region* near = nearest_entry(r, address);
  if (near && distance(*near, address) <= kNearBytes) return relation(*near, address);
  if (const Region* freed = freed_region(r, address)) {
    return "inside memory that was freed: " + name_of(*freed);
  }
  if (near && distance(*near, address) <= (size_t{1} << 30) && !is_mapped(address)) {
    return relation(*near, address);
  }
  return is_mapped(address) ? "host memory, belongs to no tensor" : text("no memory is at 0x%zx", address);
}

}  // namespace musahost

using namespace musahost;

void musahost_register(const void* address, size_t bytes, const char* name) {
  if (!address) return;
  pin_host_tensor(address);
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  add(r, address, bytes, name);
}

void musahost_unregister(const void* address) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto at = r.entries.find(reinterpret_cast<uintptr_t>(address));
  if (at != r.entries.end()) remove(r, at);
}

namespace {

void* allocate(size_t bytes, bool shared) {
  const std::string name = text("cudaMalloc'd memory of %zu bytes", bytes);
  if (void* guarded = allocate_device(bytes, shared, name)) return guarded;
  const size_t room = (bytes + kAlignment - 1) / kAlignment * kAlignment + 2 * kRedZoneBytes;
  char* memory = bytes < room ? static_cast<char*>(aligned_alloc(kAlignment, room)) : nullptr;
  if (!memory) {
    set_error(kOutOfMemory);
    return nullptr;
  }
  memset(memory, 0xff, room);
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  add(r, memory + kRedZoneBytes, bytes, name.c_str()).allocation = memory;
  return memory + kRedZoneBytes;
}

}  // namespace

void* musahost_malloc(size_t bytes) { return allocate(bytes, false); }

void* musahost_malloc_shared(size_t bytes) { return allocate(bytes, true); }

int musahost_free(void* address) {
  if (!address || free_device(address)) return kSuccess;
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto at = r.entries.find(reinterpret_cast<uintptr_t>(address));
  if (at == r.entries.end() || !at->second.allocation) {
    set_error(kInvalidValue);
    return kInvalidValue;
  }
  remove(r, at);
  return kSuccess;
}
