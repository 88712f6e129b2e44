// The C interface between a candidate compiled for the host target and the runtime (libmusahost.so).
// Everything a kernel does beyond plain loads, stores and arithmetic goes through these functions.
#pragma once
#include <cstddef>
#include <cstdint>

#define MUSAHOST_API extern "C" __attribute__((visibility("default")))

struct uint3 {
  unsigned x, y, z;
};

// One bit a lane; 128 lanes are the widest warp (mp_21, mp_22). With 32 lanes only the low 32 bits count.
typedef unsigned __int128 musahost_mask;

// What the running CUDA thread sees of itself. One per OS thread, rewritten at every switch.
struct MusahostThread {
  uint3 thread_idx, block_idx, block_dim, grid_dim;
  unsigned lane;       // index in the warp
  unsigned warp_size;  // 32 or 128
  void* dynamic_shared;
  size_t dynamic_bytes;
};
// `__thread`, because an extern thread_local is reached through a wrapper function on every use.
extern "C" {
extern __attribute__((visibility("default"), tls_model("initial-exec"))) __thread MusahostThread musahost_current;
}

struct MusahostLaunch {
  uint3 grid, block;
  size_t shared_bytes;
  void (*run)(void* argument);  // one CUDA thread
  void* argument;
  size_t argument_bytes;  // kernels may read so much there: their parameters
  const void* function;  // address of the kernel, the key of its attributes; may be null
  const char* kernel;    // name as written, for reports
  int cooperative;       // grid-wide barrier wanted
  const char* source;    // __FILE__ of the launch
  int line;
  const void* const* pointers;  // those among the arguments
  int pointer_count;
};

// ---- launches and errors. Error codes are cudaError_t's numbers.
MUSAHOST_API int musahost_launch(const MusahostLaunch* launch);
MUSAHOST_API int musahost_last_error(int clear);
MUSAHOST_API void musahost_set_error(int error);
MUSAHOST_API int musahost_set_max_dynamic_shared(const void* function, int bytes);  // 0 or an error code

// ---- block and grid barriers; `op` of the reducing one: 0 count, 1 and, 2 or
MUSAHOST_API void musahost_barrier(int line);
MUSAHOST_API int musahost_barrier_reduce(int line, int op, int predicate);
MUSAHOST_API void musahost_grid_barrier(int line);

// ---- warps. Rendezvous of the lanes in `mask`: every lane gives `bytes` (<= 16) and gets the slots of all,
// 16 bytes a lane, valid until the lane's next rendezvous. `arrived` gets the lanes that took part.
MUSAHOST_API const char* musahost_warp_exchange(musahost_mask mask, const void* value, unsigned bytes, int line,
                                                musahost_mask* arrived);
MUSAHOST_API musahost_mask musahost_active_mask();
// Tells that a shuffle reads a lane that took no part; fills `out` as the poison policy says.
MUSAHOST_API void musahost_undefined_shuffle(int line, int source_lane, void* out, unsigned bytes);

// ---- memory
// Address of a block's static shared variable; `key` is unique per declaration.
MUSAHOST_API void* musahost_shared(const void* key, size_t bytes, size_t align, const char* name);
MUSAHOST_API void musahost_atomic_access(void* address, size_t bytes);  // before every atomic read-modify-write
MUSAHOST_API int musahost_single_threaded();  // true where plain read-modify-write is atomic enough
MUSAHOST_API void musahost_yield();           // a spinning thread lets others run
MUSAHOST_API void musahost_fence();           // __threadfence()
MUSAHOST_API void musahost_trap(const char* what, const char* source, int line);
MUSAHOST_API void* musahost_malloc(size_t bytes);  // cudaMalloc: registered, poisoned with 0xff, with red zones
MUSAHOST_API void* musahost_malloc_shared(size_t bytes);  // the same for memory that host code may use too
MUSAHOST_API int musahost_free(void* address);
// Copies and fills for cudaMemcpy and its kind, which reach device memory while no kernel runs.
MUSAHOST_API void musahost_copy(void* to, const void* from, size_t bytes);
MUSAHOST_API void musahost_copy_from_symbol(void* to, const void* from, size_t bytes);
MUSAHOST_API void musahost_fill(void* to, int value, size_t bytes);
MUSAHOST_API void musahost_note_symbol(const void* address, size_t bytes);  // of cudaGetSymbolAddress
MUSAHOST_API void musahost_note_host_bytes(size_t bytes);  // the host may read so many bytes of the device's
// Device-visible memory that the runtime did not allocate (tensors). `name` appears in reports.
MUSAHOST_API void musahost_register(const void* address, size_t bytes, const char* name);
MUSAHOST_API void musahost_unregister(const void* address);

// ---- control, called from Python through ctypes
// order: 0 forward, 1 reverse, 2 seeded random. threads: 0 = one per core. warp_size: 32 or 128.
MUSAHOST_API void musahost_configure(int order, unsigned seed, int threads, int checked, int warp_size);
// Until 0 is given: launches are checked against the device's limits, and no kernel runs.
MUSAHOST_API void musahost_set_dry(int dry);
// From 1 on device memory is out of host code's reach; a load or store of it ends the process, with a line
// on stderr that begins with musahost-host-access.
MUSAHOST_API void musahost_set_guard(int on);
// An address for kernels of a file's pages, where candidates are not to use that of their owner; null where
// there is none. `bytes` need be no whole pages. The file may be closed afterwards. `host`: a tensor of the
// CPU's, which is open to host code, and closed to kernels.
MUSAHOST_API void* musahost_device_map(int file, size_t bytes, const char* name, int host);
// Whether a launch is refused that is given an address of the host's memory, as of a local variable.
MUSAHOST_API void musahost_refuse_host_pointers(int on);
// From here on it is the device's, as a parameter after .cuda(); or the host's, as what .cpu() gives.
MUSAHOST_API void musahost_device_give(void* address, int host);
MUSAHOST_API void musahost_device_unmap(void* address);
// The address by which the host reaches device memory; any other address, a CPU tensor's too, as it is.
MUSAHOST_API void* musahost_device_alias(const void* address);
// While on, the memory that `hide` was given, and the host's own addresses of device memory, are closed but
// for what is lent. `seen_as`: the address that candidates know; `show` takes it out again, opened. `lend`
// opens (1) and closes (-1) what holds an address, as often as it was opened; 0 where nothing does.
MUSAHOST_API void musahost_set_hiding(int on);
MUSAHOST_API void musahost_device_hide(void* at, size_t bytes, const void* seen_as);
MUSAHOST_API void musahost_device_show(void* at);
MUSAHOST_API int musahost_device_lend(const void* address, int step);
// Bytes of the device's that host code was given since the last call: copied, or in memory of both.
MUSAHOST_API size_t musahost_take_host_bytes();
// How many threads there are, but for the runtime's own (those over `limit` have a moment to end); how many
// are to be; whether there were more at a
// launch since.
MUSAHOST_API int musahost_thread_count(int limit);
MUSAHOST_API void musahost_expect_threads(int count);
MUSAHOST_API int musahost_take_threads_beside();
// Findings and launches since the last call as one JSON text:
// {"findings":[{"kind","kernel","message","block":[x,y,z]|null,"thread":[x,y,z]|null,"source","line",
//   "module","offset"}], "launches":[{"kernel","grid","block","shared_bytes","count","global_read_bytes",
//   "global_write_bytes"}], "error":0}. `module`+`offset` (hex) locate an access for addr2line where line is 0.
// Returned memory lives until the next call.
MUSAHOST_API const char* musahost_take_report();
