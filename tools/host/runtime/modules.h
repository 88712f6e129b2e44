// Variables of loaded libraries: __device__ and __constant__ data of candidates.
#pragma once
#include <cstdint>

#include "region.h"

namespace musahost __attribute__((visibility("hidden"))) {

// The variable with all of [address, address + bytes) in a library that is linked to this one, else null:
// candidates' variables are device memory, those of other libraries are not.
Region* module_region(uintptr_t address, size_t bytes);
// The variable of such a library before the address, else null.
const Region* nearest_variable(uintptr_t address);
// Whether the address lies in such a library.
bool is_candidate(const void* address);
// Looks modules up anew if a library has been loaded or unloaded since.
void refresh_modules();
// Whether a loaded library has code there.
bool is_code(uintptr_t address);
// Whether anything is mapped at the address.
bool is_mapped(uintptr_t address);

}  // namespace musahost
