// Collects findings and launches and writes them as JSON.
#include "report.h"

#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

constexpr size_t kMostFindings = 64;

struct LaunchRecord {
  std::string kernel;
  uint3 grid, block;
  size_t shared_bytes;
  uint64_t count = 0, read_bytes = 0, written_bytes = 0;
};
using LaunchKey = std::tuple<std::string, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             size_t>;

struct Record {
  std::mutex mutex;
  std::vector<Finding> findings;
  std::set<std::tuple<const char*, const char*, uint64_t, uint64_t>> seen;
  std::vector<LaunchRecord> launches;
  std::map<LaunchKey, size_t> launch_index;
  std::string json;
};

// Never destroyed: worker threads may outlive static destructors.
Record& record() {
  static Record* const instance = new Record;
  return *instance;
}

std::atomic<int> error{kSuccess};

const char* running_kernel() {
  return worker && worker->launch ? worker->launch->request->kernel : "";
}

std::string quoted(const std::string& value) {
  std::string out = "\"";
  for (const unsigned char c : value) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20) {
      out += text("\\u%04x", c);
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + '"';
}

std::string triple(uint3 v) { return text("[%u,%u,%u]", v.x, v.y, v.z); }

std::string place_of(const void* pc) {
  Dl_info info;
  if (!pc || !dladdr(pc, &info) || !info.dli_fname) return "\"module\":\"\",\"offset\":\"0x0\"";
  const size_t offset = static_cast<const char*>(pc) - static_cast<const char*>(info.dli_fbase);
  return "\"module\":" + quoted(info.dli_fname) + text(",\"offset\":\"0x%zx\"", offset);
}

std::string json_of(const Finding& f) {
  std::string out = "{\"kind\":" + quoted(f.kind) + ",\"kernel\":" + quoted(f.kernel) +
                    ",\"message\":" + quoted(f.message);
  out += ",\"block\":" + (f.has_block ? triple(f.block) : "null");
  out += ",\"thread\":" + (f.has_thread ? triple(f.thread) : "null");
  out += ",\"source\":" + quoted(f.source) + text(",\"line\":%d,", f.line) + place_of(f.pc);
  if (f.other_pc) out += ",\"other\":{" + place_of(f.other_pc) + "}";
  return out + "}";
}

std::string json_of(const LaunchRecord& l) {
  return "{\"kernel\":" + quoted(l.kernel) + ",\"grid\":" + triple(l.grid) +
         ",\"block\":" + triple(l.block) + text(",\"shared_bytes\":%zu", l.shared_bytes) +
         text(",\"count\":%llu", static_cast<unsigned long long>(l.count)) +
         text(",\"global_read_bytes\":%llu", static_cast<unsigned long long>(l.read_bytes)) +
         text(",\"global_write_bytes\":%llu}", static_cast<unsigned long long>(l.written_bytes));
}

template <class Items>
std::string json_list(const Items& items) {
  std::string out = "[";
  for (const auto& item : items) {
    if (out.size() > 1) out += ',';
    out += json_of(item);
  }
  return out + "]";
}

void forget(Record& r) {
  r.findings.clear();
  r.seen.clear();
  r.launches.clear();
  r.launch_index.clear();
}

}  // namespace

std::string text(const char* format, ...) {
  char buffer[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

std::string describe(uint3 v) { return text("(%u,%u,%u)", v.x, v.y, v.z); }

Finding finding_here(const char* kind, int line) {
  Finding f(kind);
  f.line = line;
  if (!worker || !worker->launch) return f;
  const MusahostLaunch& request = *worker->launch->request;
  f.kernel = request.kernel ? request.kernel : "";
  if (line && request.source) f.source = request.source;
  if (!worker->block) return f;
  f.has_block = true;
  f.block = worker->block->index;
  if (worker->thread) {
    f.has_thread = true;
    f.thread = worker->thread->index;
  }
  return f;
}

bool first_time(const char* kind, uint64_t place, uint64_t more) {
  Record& r = record();
  const std::lock_guard lock(r.mutex);
  if (r.findings.size() >= kMostFindings) return false;
  return r.seen.emplace(kind, running_kernel(), place, more).second;
}

void add_finding(Finding finding) {
  Record& r = record();
  const std::lock_guard lock(r.mutex);
  if (r.findings.size() < kMostFindings) r.findings.push_back(std::move(finding));
}

// The first error of the kind that stays is kept, as on a device.
void set_error(int code) {
  int now = error.load();
  while (now < kIllegalAddress && !error.compare_exchange_weak(now, code)) {
  }
}

int pending_error() { return error.load(); }

void count_launch(const Launch& launch, size_t shared_bytes) {
  const MusahostLaunch& q = *launch.request;
  const std::string kernel = q.kernel ? q.kernel : "";
  const LaunchKey key(kernel, q.grid.x, q.grid.y, q.grid.z, q.block.x, q.block.y, q.block.z,
                      shared_bytes);
  Record& r = record();
  const std::lock_guard lock(r.mutex);
  const auto [at, fresh] = r.launch_index.try_emplace(key, r.launches.size());
  if (fresh) r.launches.push_back({kernel, q.grid, q.block, shared_bytes});
  LaunchRecord& entry = r.launches[at->second];
  ++entry.count;
  entry.read_bytes += launch.read_bytes;
  entry.written_bytes += launch.written_bytes;
}

}  // namespace musahost

using namespace musahost;

int musahost_last_error(int clear) {
  const int now = error.load();
  if (clear && now < kIllegalAddress) error.store(kSuccess);
  return now;
}

void musahost_set_error(int code) { set_error(code); }

const char* musahost_take_report() {
  Record& r = record();
  const std::lock_guard lock(r.mutex);
  r.json = "{\"findings\":" + json_list(r.findings) + ",\"launches\":" + json_list(r.launches) +
           text(",\"error\":%d}", error.load());
  forget(r);
  return r.json.c_str();
}

void musahost_set_dry(int dry) { options.dry = dry != 0; }

void musahost_configure(int order, unsigned seed, int threads, int checked, int warp_size) {
  options.order = order == 1 ? Order::kReverse : order == 2 ? Order::kRandom : Order::kForward;
  options.seed = seed;
  options.threads = threads;
  options.checked = checked != 0;
  options.warp_size = warp_size == 128 ? 128 : 32;
  options.warp_shift = options.warp_size == 128 ? 7 : 5;
  musahost_current.warp_size = options.warp_size;
  Record& r = record();
  const std::lock_guard lock(r.mutex);
  forget(r);
  error.store(kSuccess);
}
