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

// Name of the CPU's tensor that lies there, which kernels cannot reach; '' where it is another address.
std::string host_tensor_at(const void* address);
// In words, where kernels cannot reach what lies there although host code can; '' for all other addresses,
// and where that is not to be told.
std::string host_memory_at(const void* address);
// cudaHostRegister: from here on kernels reach it too.
void pin_host_tensor(const void* address);

// While one is alive, kernels reach device memory. Made by launches around all workers.
class DeviceAccess {
 public:
  DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  ~DeviceAccess();
};

}  // namespace musahost
