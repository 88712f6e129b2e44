#include "host_access.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <string>

#include "modules.h"
#include "registry.h"
#include "report.h"

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

constexpr int kMostFrames = 32;

// The instruction of the candidate's that led here: the access may lie in memcpy().
const void* candidate_frame() {
  void* frames[kMostFrames];
  const int count = backtrace(frames, kMostFrames);
  for (int i = 0; i < count; ++i) {
    if (is_candidate(frames[i])) return frames[i];
  }
  return nullptr;
}

std::string place_in_words(uintptr_t address) {
  const Region* region = global_region(address, 1);
  return region ? text("byte %zu of ", address - region->first) + name_of(*region) : describe_address(address);
}

}  // namespace

void tell_host_access(const void* address, bool writes) {
  const void* frame = candidate_frame();
  Dl_info info{};
  const bool known = frame && dladdr(frame, &info) && info.dli_fname;
  const size_t offset = known ? static_cast<const char*>(frame) - static_cast<const char*>(info.dli_fbase) : 0;
  const std::string line =
      text("\nmusahost-host-access\t%s\t%s\t0x%zx\t", writes ? "write" : "read",
           known ? info.dli_fname : "", offset) +
      place_in_words(reinterpret_cast<uintptr_t>(address)) + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace musahost
