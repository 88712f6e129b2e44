// The OS threads that blocks are shared out over.
#pragma once
#include <functional>

namespace musahost __attribute__((visibility("hidden"))) {

int core_count();
// Threads that the pool has started.
int pool_threads();

// Calls job(number) for 0..count-1, number 0 on the calling thread and the others on threads that are
// started at first need and kept. Nothing runs before the first call, so that loading the library and
// forking afterwards is safe. Fewer threads where the system refuses more.
void run_on_threads(int count, const std::function<void(int)>& job);

}  // namespace musahost
