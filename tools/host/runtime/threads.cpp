#include "threads.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "musahost/abi.h"
#include "pool.h"

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

constexpr int kMostWaits = 20;
constexpr unsigned kWaitMicroseconds = 200;

std::atomic<int> expected_threads{0};
std::atomic<bool> threads_beside{false};

// Threads of this process by one system call; 0 where /proc is not to be seen.
int thread_count() {
  struct stat status;
  return stat("/proc/self/task", &status) == 0 ? static_cast<int>(status.st_nlink) - 2 : 0;
}

// The same without the runtime's own. A thread that was joined is counted for a moment still.
int threads_above(int limit) {
  int count = 0;
  for (int i = 0; i < kMostWaits; ++i) {
    count = thread_count() - pool_threads();
    if (count <= limit) break;
    usleep(kWaitMicroseconds);
  }
  return count;
}

}  // namespace

void note_threads_beside() {
  if (threads_above(expected_threads) > expected_threads) threads_beside = true;
}

}  // namespace musahost

using namespace musahost;

int musahost_thread_count(int limit) { return threads_above(limit); }

void musahost_expect_threads(int count) { expected_threads = count; }

int musahost_take_threads_beside() { return threads_beside.exchange(false); }
