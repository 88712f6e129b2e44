// Kernel launches: what a device would refuse is refused, the rest is shared out over OS threads.
#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>

#include "blocks.h"
#include "checker.h"
#include "device.h"
#include "faults.h"
#include "pool.h"
#include "report.h"

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

constexpr int kMostWorkers = 16;
constexpr size_t kThreadsWorthAWorker = 2048;
constexpr size_t kMostCooperativeThreads = 32768;

std::mutex attribute_mutex;

// Most dynamic shared memory by kernel, as cudaFuncSetAttribute allowed it.
std::map<const void*, size_t>& dynamic_limits() {
  static auto* const limits = new std::map<const void*, size_t>;
  return *limits;
}

// A kernel launched through something without an address may be any of those with an attribute.
size_t dynamic_limit(const void* function) {
  const std::lock_guard lock(attribute_mutex);
  size_t limit = kStaticSharedLimit;
  for (const auto& [key, bytes] : dynamic_limits()) {
    if (!function || key == function) limit = std::max(limit, bytes);
  }
  return limit;
}

size_t volume(uint3 v) { return size_t{v.x} * v.y * v.z; }

struct Refusal {
  int error = kSuccess;
  std::string reason;
};

Refusal check_shape(const MusahostLaunch& q) {
  const uint3 g = q.grid, b = q.block;
  if (!g.x || !g.y || !g.z) return {kInvalidConfiguration, "grid " + describe(g) + " has a zero dimension"};
  if (!b.x || !b.y || !b.z) return {kInvalidConfiguration, "block " + describe(b) + " has a zero dimension"};
  if (b.x > 1024 || b.y > 1024 || volume(b) > 1024) {
    return {kInvalidConfiguration, text("block %s has %zu threads, the limit is 1024",
                                        describe(b).c_str(), volume(b))};
  }
  if (b.z > 64) {
    return {kInvalidConfiguration, "block " + describe(b) + ": z is limited to 64"};
  }
  if (g.x > 2147483647u) {
    return {kInvalidConfiguration, "grid " + describe(g) + ": x is limited to 2147483647"};
  }
  if (g.y > 65535 || g.z > 65535) {
    return {kInvalidConfiguration, "grid " + describe(g) + ": y and z are limited to 65535"};
  }
  return {};
}

Refusal check_resources(const MusahostLaunch& q) {
  if (q.shared_bytes > kSharedLimit) {
    return {kInvalidValue, text("%zu bytes of dynamic shared memory, the device has %zu for a block",
                                q.shared_bytes, kSharedLimit)};
  }
  if (q.shared_bytes > dynamic_limit(q.function)) {
    return {kInvalidValue,
            text("%zu bytes of dynamic shared memory: more than %zu need cudaFuncSetAttribute(kernel, "
                 "cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) first",
                 q.shared_bytes, dynamic_limit(q.function))};
  }
  if (q.cooperative && volume(q.grid) * volume(q.block) > kMostCooperativeThreads) {
    return {kCooperativeTooLarge, text("a cooperative launch of more than %zu threads does not fit at once",
                                       kMostCooperativeThreads)};
  }
  return {};
}

// A kernel is given an address to use it. The host's tensors are told when that is done (device.cpp).
Refusal check_pointers(const MusahostLaunch& q) {
  for (int i = 0; i < q.pointer_count; ++i) {
    const std::string what = host_memory_at(q.pointers[i]);
    if (what.empty()) continue;
    return {kIllegalAddress, text("an argument points to %s, which a device cannot reach", what.c_str())};
  }
  return {};
}

Refusal check(const MusahostLaunch& q) {
  if (worker && worker->in_kernel()) {
    return {kInvalidConfiguration, "a kernel launches a kernel (dynamic parallelism is not supported)"};
  }
  if (const int pending = pending_error(); pending >= kIllegalAddress) {
    return {pending, text("an earlier kernel failed (error %d) and the device accepts no more work", pending)};
  }
  Refusal refusal = check_shape(q);
  if (!refusal.error) refusal = check_resources(q);
  return refusal.error ? refusal : check_pointers(q);
}

int refuse(const MusahostLaunch& q, const Refusal& refusal) {
  set_error(refusal.error);
  if (first_time("invalid_launch", reinterpret_cast<uintptr_t>(q.kernel),
                 std::hash<std::string>{}(refusal.reason))) {
    Finding f("invalid_launch");
    f.kernel = q.kernel ? q.kernel : "";
    f.source = q.source ? q.source : "";
    f.line = q.line;
    f.message = refusal.reason;
    add_finding(std::move(f));
  }
  return refusal.error;
}

int workers_for(const Launch& launch) {
  if (options.checked || launch.request->cooperative) return 1;
  static const int cores = std::min(core_count(), kMostWorkers);
  const int wanted = options.threads > 0 ? std::min(options.threads, kMostWorkers) : cores;
  const size_t work = launch.block_count * launch.block_size;
  const size_t most = std::min(launch.block_count, 1 + work / kThreadsWorthAWorker);
  return static_cast<int>(std::min<size_t>(wanted, most));
}

void prepare(Launch& launch) {
  const uint3 block = launch.request->block;
  launch.block_count = volume(launch.request->grid);
  launch.block_size = static_cast<int>(volume(block));
  launch.thread_indices.reserve(launch.block_size);
  for (unsigned z = 0; z < block.z; ++z) {
    for (unsigned y = 0; y < block.y; ++y) {
      for (unsigned x = 0; x < block.x; ++x) launch.thread_indices.push_back({x, y, z});
    }
  }
  uint64_t random = options.seed * 0x9e3779b97f4a7c15ull | 1;
  launch.offset = next_random(random) % launch.block_count;
  do {
    launch.stride = 1 + next_random(random) % launch.block_count;
  } while (std::gcd(launch.stride, launch.block_count) != 1);
  launch.workers = workers_for(launch);
}

// Static sizes show only when the kernel runs; ptxas or the launch would have refused these.
Refusal check_static_shared(const Launch& launch) {
  const MusahostLaunch& q = *launch.request;
  const size_t fixed = launch.static_shared, both = fixed + q.shared_bytes;
  if (fixed > kStaticSharedLimit) {
    return {kInvalidValue, text("%zu bytes of static shared memory, the limit is %zu: the kernel does not "
                                "compile for a device",
                                fixed, kStaticSharedLimit)};
  }
  const bool has_attribute = dynamic_limit(q.function) > kStaticSharedLimit;
  if (both > (has_attribute ? kSharedLimit : kStaticSharedLimit)) {
    return {kInvalidValue, text("%zu bytes of static and %zu bytes of dynamic shared memory are more than "
                                "the block may have together",
                                fixed, q.shared_bytes)};
  }
  return {};
}

void run(Launch& launch) {
  const DeviceAccess access;
  const FaultGuard guard;
  if (options.checked) start_of_launch(launch);
  run_on_threads(launch.workers, [&launch](int number) {
    if (!worker) worker = new Worker;
    ensure_signal_stack();
    run_blocks(launch, number);
  });
}

}  // namespace
}  // namespace musahost

using namespace musahost;

__thread MusahostThread musahost_current = {
    {0, 0, 0}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}, 0, 32, nullptr, 0};

int musahost_launch(const MusahostLaunch* request) {
  if (const Refusal refusal = check(*request); refusal.error) return refuse(*request, refusal);
  Launch launch;
  launch.request = request;
  if (options.dry) {
    count_launch(launch, request->shared_bytes);
    return kSuccess;
  }
  prepare(launch);
  run(launch);
  count_launch(launch, launch.static_shared + request->shared_bytes);
  if (const Refusal refusal = check_static_shared(launch); refusal.error) return refuse(*request, refusal);
  const int pending = pending_error();
  return pending >= kIllegalAddress ? pending : kSuccess;
}

int musahost_set_max_dynamic_shared(const void* function, int bytes) {
  if (bytes < 0 || static_cast<size_t>(bytes) > kSharedLimit) {
    set_error(kInvalidValue);
    return kInvalidValue;
  }
  const std::lock_guard lock(attribute_mutex);
  dynamic_limits()[function] = bytes;
  return kSuccess;
}

int musahost_single_threaded() {
  return options.checked || options.threads == 1 ||
         (worker && worker->launch && worker->launch->workers == 1);
}
