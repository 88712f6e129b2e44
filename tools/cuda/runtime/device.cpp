// What the thin torch library asks of its process on a real GPU: the stream that torch would use,
// and empty answers for what only the host target's runtime has.
#include <cstddef>
#include <cstdint>

#define MUSACUDA_C extern "C" __attribute__((visibility("default")))

namespace {
void* current_stream = nullptr;
int dry = 0;
}

MUSACUDA_C void* musacuda_stream() { return current_stream; }
MUSACUDA_C void musacuda_set_stream(void* stream) { current_stream = stream; }

MUSACUDA_C void musahost_register(void*, size_t, const char*) {}
MUSACUDA_C void musahost_unregister(void*) {}
MUSACUDA_C int musahost_last_error(int) { return 0; }
MUSACUDA_C const char* musahost_take_report() { return ""; }
MUSACUDA_C void musahost_configure(int, unsigned, int, int, int) {}
// While it is dry, launches of the split level do nothing; the other levels' cannot be held back.
MUSACUDA_C void musahost_set_dry(int value) { dry = value; }
MUSACUDA_C int musacuda_dry() { return dry; }
