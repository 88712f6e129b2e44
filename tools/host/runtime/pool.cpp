// A pool of OS threads that survives fork: the child starts its own.
#include "pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

struct Pool {
  std::mutex mutex;
  std::condition_variable wake, idle;
  const std::function<void(int)>* job = nullptr;
  int threads = 0;
  int next = 0, count = 0;  // numbers to hand out
  int running = 0;
};

// Never destroyed: its threads are detached and wait on it until the process ends.
Pool* pool = nullptr;

void serve(Pool* p) {
  pthread_setname_np(pthread_self(), "musahost");  // told from threads that a candidate starts
  std::unique_lock lock(p->mutex);
  while (true) {
    p->wake.wait(lock, [p] { return p->next < p->count; });
    const int number = p->next++;
    const std::function<void(int)>* job = p->job;
    lock.unlock();
    (*job)(number);
    lock.lock();
    if (--p->running == 0) p->idle.notify_all();
  }
}

Pool& pool_with(int threads) {
  if (!pool) {
    static const int registered = pthread_atfork(nullptr, nullptr, [] { pool = nullptr; });
    (void)registered;
    pool = new Pool;
  }
  while (pool->threads < threads) {
    try {
      std::thread(serve, pool).detach();
    } catch (const std::system_error&) {
      break;
    }
    ++pool->threads;
  }
  return *pool;
}

}  // namespace

int core_count() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

int pool_threads() { return pool ? pool->threads : 0; }

void run_on_threads(int count, const std::function<void(int)>& job) {
  if (count <= 1) return job(0);
  Pool& p = pool_with(count - 1);
  count = std::min(count, p.threads + 1);
  {
    const std::lock_guard lock(p.mutex);
    p.job = &job;
    p.next = 1;
    p.count = count;
    p.running = count - 1;
  }
  p.wake.notify_all();
  job(0);
  std::unique_lock lock(p.mutex);
  p.idle.wait(lock, [&p] { return p.running == 0; });
}

}  // namespace musahost
