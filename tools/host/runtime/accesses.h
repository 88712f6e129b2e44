// Every load and store of a checked kernel comes through here.
#pragma once
#include <cstddef>
#include <cstdint>

namespace musahost __attribute__((visibility("hidden"))) {

enum class Access : uint8_t { kRead, kWrite, kAtomic, kVolatileRead, kVolatileWrite };

// Checks an access that is about to happen. May not return: a write to memory that is not the device's
// ends the launch, because it would damage this process.
void check_access(uintptr_t address, size_t bytes, Access access, const void* pc);

// Looks up regions anew: memory was registered or released since.
void forget_lookups();

}  // namespace musahost
