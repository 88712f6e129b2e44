#include "functions.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "modules.h"

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

constexpr size_t kMostBytes = 4096;  // a table of functions is small

std::mutex mutex;

std::set<uintptr_t>& known() {
  static auto* const found = new std::set<uintptr_t>;
  return *found;
}

}  // namespace

void note_functions(const void* from, size_t bytes) {
  for (size_t at = 0; at + sizeof(uintptr_t) <= std::min(bytes, kMostBytes); at += sizeof(uintptr_t)) {
    uintptr_t word;
    memcpy(&word, static_cast<const char*>(from) + at, sizeof word);
    if (!is_code(word)) continue;
    const std::lock_guard lock(mutex);
    known().insert(word);
  }
}

bool is_known_function(uintptr_t address) {
  const std::lock_guard lock(mutex);
  return known().count(address) != 0;
}

}  // namespace musahost
