// Segments: what one thread does between two synchronisations, and which segments are ordered.
//
// Marks in shadow memory name segments by number. Numbers grow, so that a range check tells segments of
// this epoch, block or launch from older ones.
#pragma once
#include <vector>

#include "state.h"

namespace musahost __attribute__((visibility("hidden"))) {

struct Segment {
  uint32_t block;   // serial number
  uint32_t thread;  // number in the block
  uint32_t epoch;
  uint32_t warp_clock;
  uint32_t lock;       // the atomic variable that the thread used last before it
  uint32_t closed_by;  // the one whose use ended it, 0 where something else did
};

// All segments of the running launch; the checked mode has one worker.
class SegmentTable {
 public:
  static constexpr uint32_t kMost = 0x30000000;

  void start_launch();
  uint32_t next() const { return first_ + static_cast<uint32_t>(segments_.size()); }
  Segment& operator[](uint32_t number) { return segments_[number - first_]; }
  uint32_t add(const Segment& segment) {
    segments_.push_back(segment);
    return next() - 1;
  }
  // Bumped when numbers start again from 1: all shadow memory is then out of date.
  uint32_t generation() const { return generation_; }

 private:
  std::vector<Segment> segments_;
  uint32_t first_ = 1;
  uint32_t generation_ = 1;
};
extern SegmentTable segments;

// The running thread's segment; it starts one where it has none.
inline uint32_t current_segment(Block& block, Watch& watch) {
  if (!watch.segment) {
    watch.segment = segments.add({block.serial, static_cast<uint32_t>(block.current), block.epoch,
                                  watch.warp_clock, watch.lock, 0});
    watch.has_plain = false;
  }
  return watch.segment;
}

// Whether barriers, warp operations or program order put `earlier` before a later moment of the same
// block: `thread` in `epoch`, its warp's clock at `warp_clock`.
inline bool before_in_block(const Segment& earlier, uint32_t thread, uint32_t epoch,
                            uint32_t warp_clock) {
  if (earlier.thread == thread || earlier.epoch < epoch) return true;
  return earlier.thread >> options.warp_shift == thread >> options.warp_shift &&
         earlier.warp_clock < warp_clock;
}

}  // namespace musahost
