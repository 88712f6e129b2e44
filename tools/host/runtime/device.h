// Device memory that host code cannot reach: pages that are open while kernels run, and at no other time.
#pragma once
#include <cstddef>
#include <string>

namespace musahost __attribute__((visibility("hidden"))) {

// Memory for kernels, filled with 0xff. `shared`: host code may use it as well between launches, and what
// it touches is counted. Null where guarding is off, or the system gives no such memory.
void* allocate_device(size_t bytes, bool shared, const std::string& name);
// False where it is none of allocate_device's.
bool free_device(void* address);

// While one is alive, kernels reach device memory. Made by launches around all workers.
class DeviceAccess {
 public:
  DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  ~DeviceAccess();
};

}  // namespace musahost
