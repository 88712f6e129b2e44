// Variables of loaded libraries: __device__ and __constant__ data of candidates.
#pragma once
#include <cstdint>

#include "region.h"

namespace musahost __attribute__((visibility("hidden"))) {

// The data segment of the module of `pc` that holds [address, address + bytes), else null.
Region* module_region(uintptr_t address, size_t bytes, const void* pc);
// Looks modules up anew: a library may have been loaded or unloaded since.
void forget_modules();
// Whether anything is mapped at the address.
bool is_mapped(uintptr_t address);

}  // namespace musahost
