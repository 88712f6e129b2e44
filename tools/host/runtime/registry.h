// Memory that kernels may use: tensors, cudaMalloc'd memory and the variables of loaded modules.
#pragma once
#include <cstdint>
#include <string>

#include "region.h"

namespace musahost __attribute__((visibility("hidden"))) {

// The registered memory or module variable with all of [address, address + bytes), else null.
Region* global_region(uintptr_t address, size_t bytes);

std::string name_of(const Region& region);
// Where an address lies, in words: "4 bytes past the end of tensor 'x' (...)".
std::string describe_address(uintptr_t address);

}  // namespace musahost
