// What a launch, its blocks and its threads are made of; every other file works on these.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "musahost/abi.h"
#include "shared.h"
#include "stacks.h"

namespace musahost __attribute__((visibility("hidden"))) {

using Mask = musahost_mask;

enum class Order { kForward, kReverse, kRandom };

struct Options {
  Order order = Order::kForward;
  unsigned seed = 1;
  int threads = 0;  // 0: one for each core
  bool checked = false;
  bool dry = false;  // launches are checked, and no kernel runs
  int warp_size = 32;
  int warp_shift = 5;  // its logarithm
};
extern Options options;

enum class State : uint8_t { kReady, kBarrier, kWarp, kGather, kGrid, kDone };

// What the checker knows of a thread. Accesses between two synchronisations make one segment.
struct Watch {
  uint32_t segment = 0;  // 0: none yet since the last synchronisation
  uint32_t warp_clock = 0;
  uint32_t fence_segment = 0;  // the segment that its last __threadfence() ended
  uint32_t lock = 0;           // a hash of the address of its last atomic operation
  bool has_plain = false;      // plain accesses in this segment
};

// One CUDA thread of a running block.
struct Thread {
  Stack* stack;  // null before the first instruction and after the last
  uint3 index;
  State state;
  int line;         // of the operation that it waits in
  Mask mask;        // lanes that the awaited warp operation names, or that gathered
  const void* key;  // where lanes gather for __activemask()
  struct Rendezvous* result;  // whose slots it is about to read
  Watch watch;
};

// A meeting of the lanes that one mask names. Slots are double-buffered: a fast lane may write for
// the next meeting while a slow one still reads the last.
struct Rendezvous {
  Mask mask = 0;
  Mask arrived = 0;
  Mask taken[2] = {0, 0};
  unsigned generation = 0;
  std::unique_ptr<char[]> slots;  // 2 x warp size x 16 bytes
};

struct Warp {
  Mask live = 0;
  std::vector<std::unique_ptr<Rendezvous>> meetings;  // the first `used` belong to this block
  size_t used = 0;
  size_t last = 0;
  uint32_t clock = 0;
  std::unique_ptr<char[]> alone;  // slots for lanes outside their own mask
};

struct Barrier {
  int arrived = 0;
  int first_thread = 0;
  int line = 0;
  int reductions[3] = {0, 1, 0};  // count, and, or of the threads that arrived
  int results[3] = {0, 1, 0};
};

// A block that has started. Several are alive at once only where some wait for others.
struct Block {
  uint3 index = {0, 0, 0};
  int size = 0;
  int started = 0;
  int live = 0;
  bool settled = false;  // false while no thread ever waited: those that ended are not yet counted out
  int current = -1;
  int at_grid_barrier = 0;
  unsigned idle_yields = 0;  // since a thread last got on
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<int> order;  // in which threads start
  std::vector<int> ready;  // the first `ready_head` are taken
  size_t ready_head = 0;
  void* dynamic_shared = nullptr;
  Barrier barrier;
  SharedMemory shared;

  // The checker's.
  uint32_t serial = 0;               // counts blocks
  uint32_t epoch = 0;                // counts barriers
  uint32_t first_segment = 0;        // of this block
  uint32_t epoch_first_segment = 0;  // since the last barrier
  uint32_t fenced_before = 0;        // 1 + the last earlier epoch with a fence, 0 for none
  bool fence_in_epoch = false;
};

struct Launch {
  const MusahostLaunch* request;
  size_t block_count;
  int block_size;
  std::vector<uint3> thread_indices;
  int workers = 1;
  size_t stride = 1, offset = 0;  // of the permutation of blocks
  std::atomic<size_t> next_block{0};
  std::atomic<bool> cancelled{false};
  std::atomic<size_t> static_shared{0};
  uint64_t read_bytes = 0, written_bytes = 0;  // checked mode, one worker
  uint32_t first_segment = 0;  // accesses of older ones are ordered before all that follow
};

enum class Fault { kNone, kMemory, kStack, kDivision, kInstruction, kOutOfMemory, kReported };

// An OS thread that runs blocks.
struct Worker {
  Launch* launch = nullptr;
  Block* block = nullptr;  // null outside kernels
  Thread* thread = nullptr;
  void* scheduler = nullptr;  // saved context of the loop that starts blocks
  StackPool stacks;
  std::vector<std::unique_ptr<Block>> spare_blocks;
  uint64_t random = 1;
  bool stalled = false;  // the block's threads only spin: let another block run

  // What a signal handler saw; reported by the scheduler's own code.
  Fault fault = Fault::kNone;
  const void* fault_address = nullptr;
  const void* fault_pc = nullptr;
  bool fault_is_write = false;

  bool in_kernel() const { return block != nullptr; }
};

extern __thread Worker* worker __attribute__((tls_model("initial-exec"), visibility("hidden")));

inline uint64_t next_random(uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

inline Mask lane_bit(unsigned lane) { return Mask{1} << lane; }
inline unsigned lane_of(int thread) { return thread & (options.warp_size - 1); }
inline int warp_of(int thread) { return thread >> options.warp_shift; }

}  // namespace musahost
