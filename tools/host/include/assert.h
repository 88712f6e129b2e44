// assert() that ends the kernel with CUDA's error instead of the process. Read again at every include,
// as NDEBUG may have changed.
#include "musahost/abi.h"

#undef assert
#ifdef NDEBUG
#define assert(condition) (static_cast<void>(0))
#else
#define assert(...)                                                                   \
  ((__VA_ARGS__) ? static_cast<void>(0)                                               \
                 : musahost_trap("assertion failed: " #__VA_ARGS__, __FILE__, __LINE__))
#endif
