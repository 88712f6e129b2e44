// Finds modules, their segments and their variables through the dynamic linker.
#include "modules.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "shadow.h"
#include "symbols.h"

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

struct Module {
  uintptr_t base = 0;
  bool is_candidate = false;  // it is linked to this runtime
  std::vector<Region> segments;
  std::map<uintptr_t, Region> variables;  // by address
};

std::mutex mutex;

std::map<uintptr_t, Module>& modules() {
  static auto* const known = new std::map<uintptr_t, Module>;
  return *known;
}

bool is_linked_to_us(const dl_phdr_info& info, const ElfW(Phdr) & dynamic) {
  const auto* entries = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + dynamic.p_vaddr);
  const char* strings = nullptr;
  for (const auto* e = entries; e->d_tag != DT_NULL; ++e) {
    if (e->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(e->d_un.d_ptr);
  }
  for (const auto* e = entries; strings && e->d_tag != DT_NULL; ++e) {
    if (e->d_tag == DT_NEEDED && strstr(strings + e->d_un.d_val, "libmusahost")) return true;
  }
  return false;
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
    if (header.p_type == PT_DYNAMIC) module.is_candidate = is_linked_to_us(*info, header);
    if (header.p_type != PT_LOAD) continue;
    const RegionKind kind = header.p_flags & PF_W ? RegionKind::kModule : RegionKind::kUnwatched;
    module.segments.push_back({info->dlpi_addr + header.p_vaddr, header.p_memsz, kind, "module data", nullptr});
  }
  return 1;
}

Region* segment_of(Module& module, uintptr_t address, size_t bytes) {
  for (Region& segment : module.segments) {
    if (segment.holds(address, bytes)) return &segment;
  }
  return nullptr;
}

void collect_variables(Module& module, const char* path) {
  for (const Symbol& symbol : variables_of(path)) {
    const uintptr_t first = module.base + symbol.offset;
    const Region* segment = segment_of(module, first, symbol.bytes);
    if (!segment) continue;
    module.variables[first] = {first, symbol.bytes, segment->kind, "variable '" + symbol.name + "'", nullptr};
  }
}

// The candidate's module that holds the address, else null.
Module* candidate_of(uintptr_t address) {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(address), &info) || !info.dli_fbase) return nullptr;
  const auto base = reinterpret_cast<uintptr_t>(info.dli_fbase);
  const auto [at, fresh] = modules().try_emplace(base);
  Module& module = at->second;
  if (fresh) {
    module.base = base;
    dl_iterate_phdr(collect_segments, &module);
    if (module.is_candidate) collect_variables(module, info.dli_fname);
  }
  return module.is_candidate ? &module : nullptr;
}

Region* variable_before(Module& module, uintptr_t address) {
  auto at = module.variables.upper_bound(address);
  return at == module.variables.begin() ? nullptr : &std::prev(at)->second;
}

}  // namespace

Region* module_region(uintptr_t address, size_t bytes) {
  const std::lock_guard lock(mutex);
  Module* module = candidate_of(address);
  if (!module) return nullptr;
  Region* segment = segment_of(*module, address, bytes);
  if (!segment) return nullptr;
  Region* variable = variable_before(*module, address);
  if (variable && variable->holds(address, bytes)) return variable;
  // Constants without a name lie between those with one; in writable data all have names.
  const bool named = !module->variables.empty() && segment->kind == RegionKind::kModule;
  return named ? nullptr : segment;
}

const Region* nearest_variable(uintptr_t address) {
  const std::lock_guard lock(mutex);
  Module* module = candidate_of(address);
  return module ? variable_before(*module, address) : nullptr;
}

bool is_candidate(const void* address) {
  const std::lock_guard lock(mutex);
  return candidate_of(reinterpret_cast<uintptr_t>(address)) != nullptr;
}

void refresh_modules() {
  static unsigned long long known = 0;
  unsigned long long now = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* changes) {
        *static_cast<unsigned long long*>(changes) = info->dlpi_adds + info->dlpi_subs;
        return 1;
      },
      &now);
  if (now == known) return;
  known = now;
  const std::lock_guard lock(mutex);
  for (auto& [base, module] : modules()) {
    for (Region& segment : module.segments) drop_shadow(segment);
    for (auto& [first, variable] : module.variables) drop_shadow(variable);
  }
  modules().clear();
}

bool is_code(uintptr_t address) {
  return dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* wanted) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& header = info->dlpi_phdr[i];
          const uintptr_t inside = *static_cast<uintptr_t*>(wanted) - info->dlpi_addr - header.p_vaddr;
          if (header.p_type == PT_LOAD && header.p_flags & PF_X && inside < header.p_memsz) return 1;
        }
        return 0;
      },
      &address);
}

bool is_mapped(uintptr_t address) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident;
  return mincore(reinterpret_cast<void*>(address & ~(page - 1)), 1, &resident) == 0 || errno != ENOMEM;
}

}  // namespace musahost
