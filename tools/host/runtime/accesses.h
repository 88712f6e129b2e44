// Every load and store of a checked kernel comes through here.
#pragma once
#include <cstddef>
#include <cstdint>

namespace musahost __attribute__((visibility("hidden"))) {

enum class Access : uint8_t { kRead, kWrite, kAtomic, kVolatileRead, kVolatileWrite };

constexpr bool is_volatile(Access a) { return a == Access::kVolatileRead || a == Access::kVolatileWrite; }
// Atomic operations do both.
constexpr bool reads(Access a) { return a != Access::kWrite && a != Access::kVolatileWrite; }
constexpr bool writes(Access a) { return a != Access::kRead && a != Access::kVolatileRead; }

// Checks an access that is about to happen. May not return: a write to memory that is not the device's
// ends the launch, because it would damage this process.
template <Access access>
void check_access(uintptr_t address, size_t bytes, const void* pc);

// Looks up regions anew: memory was registered or released since.
void forget_lookups();

}  // namespace musahost
