// Memory that kernels may use: tensors, cudaMalloc'd memory and the variables of loaded modules.
#pragma once
#include <cstdint>
#include <string>

#include "region.h"

namespace musahost __attribute__((visibility("hidden"))) {

// The registered memory or module segment with all of [address, address + bytes), else null. `pc` is
// the instruction that asks: its own module's variables are device memory, those of libraries are not.
Region* global_region(uintptr_t address, size_t bytes, const void* pc);

// Where an address lies, in words: "4 bytes past the end of tensor 'x' (...)".
std::string describe_address(uintptr_t address);

}  // namespace musahost
