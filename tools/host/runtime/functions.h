// Functions by their addresses: a kernel may be given a device function's, which host code reads from a variable
// of the device's that is initialised with it. An address that host code takes by itself is of no use there.
#pragma once
#include <cstddef>
#include <cstdint>

namespace musahost __attribute__((visibility("hidden"))) {

// Notes the addresses of functions in a variable of the device's that host code reads.
void note_functions(const void* from, size_t bytes);
bool is_known_function(uintptr_t address);

}  // namespace musahost
