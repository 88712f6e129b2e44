// Finds modules and their segments through the dynamic linker.
#include "modules.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <vector>

#include "registry.h"
#include "shadow.h"

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

struct Module {
  uintptr_t base;
  std::vector<Region> segments;
};

std::mutex mutex;

std::map<uintptr_t, Module>& modules() {
  static auto* const known = new std::map<uintptr_t, Module>;
  return *known;
}

int collect_segments(dl_phdr_info* info, size_t, void* raw) {
  Module& module = *static_cast<Module*>(raw);
  bool is_this = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    is_this |= header.p_type == PT_LOAD && info->dlpi_addr + header.p_vaddr == module.base;
  }
  if (!is_this) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    const RegionKind kind = header.p_flags & PF_W ? RegionKind::kModule : RegionKind::kUnwatched;
    module.segments.push_back(
        {info->dlpi_addr + header.p_vaddr, header.p_memsz, kind, "a variable of the module", nullptr});
  }
  return 1;
}

}  // namespace

Region* module_region(uintptr_t address, size_t bytes, const void* pc) {
  Dl_info info;
  if (!dladdr(pc, &info) || !info.dli_fbase) return nullptr;
  const auto base = reinterpret_cast<uintptr_t>(info.dli_fbase);
  const std::lock_guard lock(mutex);
  const auto [at, fresh] = modules().try_emplace(base);
  if (fresh) {
    at->second.base = base;
    dl_iterate_phdr(collect_segments, &at->second);
  }
  for (Region& segment : at->second.segments) {
    if (segment.holds(address, bytes)) return &segment;
  }
  return nullptr;
}

void forget_modules() {
  const std::lock_guard lock(mutex);
  for (auto& [base, module] : modules()) {
    for (Region& segment : module.segments) drop_shadow(segment);
  }
  modules().clear();
}

bool is_mapped(uintptr_t address) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident;
  return mincore(reinterpret_cast<void*>(address & ~(page - 1)), 1, &resident) == 0 || errno != ENOMEM;
}

}  // namespace musahost
