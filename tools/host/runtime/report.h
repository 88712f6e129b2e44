// Findings and launches since the last report, and the pending error.
#pragma once
#include <cstdint>
#include <string>

#include "state.h"

namespace musahost __attribute__((visibility("hidden"))) {

// cudaError_t's numbers.
enum Error : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidConfiguration = 9,
  kIllegalAddress = 700,  // this and greater ones stay until the process ends
  kAssert = 710,
  kLaunchFailure = 719,
  kCooperativeTooLarge = 720,
};

struct Finding {
  const char* kind;  // as FindingKind spells it
  std::string message;
  bool has_block = false, has_thread = false;
  uint3 block = {0, 0, 0}, thread = {0, 0, 0};
  std::string source;
  int line = 0;
  const void* pc = nullptr;        // an instruction of the access, where line is 0
  const void* other_pc = nullptr;  // of the access that it conflicts with
  std::string kernel;

  explicit Finding(const char* kind_) : kind(kind_) {}
};

// A finding at the running thread (or block, where none runs) of the calling worker.
Finding finding_here(const char* kind, int line);

// True once for each kernel, kind and place: asked before the message is made, because a fault in a
// loop is met millions of times.
bool first_time(const char* kind, uint64_t place, uint64_t more = 0);
void add_finding(Finding finding);

void set_error(int error);
int pending_error();

void count_launch(const Launch& launch, size_t shared_bytes);

std::string describe(uint3 v);  // (x,y,z)
__attribute__((format(printf, 1, 2))) std::string text(const char* format, ...);

}  // namespace musahost
