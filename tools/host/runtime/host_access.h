// What is said of host code that touched device memory.
#pragma once

namespace musahost __attribute__((visibility("hidden"))) {

// A line on stderr for the parent (host_access.py), which makes a message of it; the process is to end.
void tell_host_access(const void* address, bool writes);

}  // namespace musahost
