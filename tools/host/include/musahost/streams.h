// Streams and events: work is done when its call returns, so streams order nothing.
#pragma once
#include "errors.h"
#include "launch.h"
#include "sync.h"

struct CUstream_st {
  int priority;
};
struct CUevent_st {
  long long time_ns;
};
typedef struct CUevent_st* cudaEvent_t;
typedef struct CUgraph_st* cudaGraph_t;
typedef struct CUgraphExec_st* cudaGraphExec_t;
typedef struct CUgraphNode_st* cudaGraphNode_t;

#define cudaStreamDefault 0x00
#define cudaStreamNonBlocking 0x01
#define cudaStreamLegacy (static_cast<cudaStream_t>(nullptr))
#define cudaStreamPerThread (static_cast<cudaStream_t>(nullptr))
#define cudaEventDefault 0x00
#define cudaEventBlockingSync 0x01
#define cudaEventDisableTiming 0x02
#define cudaEventInterprocess 0x04

static inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  if (stream) *stream = new CUstream_st{priority};
  return ::musahost::checked(stream != nullptr);
}
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}
static inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}
static inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream == nullptr) return ::musahost::failed(cudaErrorInvalidResourceHandle);
  delete stream;
  return cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaPeekAtLastError(); }
static inline cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0) {
  return cudaSuccess;
}
static inline cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  if (priority) *priority = stream ? stream->priority : 0;
  return ::musahost::checked(priority != nullptr);
}
template <class T>
cudaError_t cudaLaunchHostFunc(cudaStream_t, void (*function)(void*), T* argument) {
  function(argument);
  return cudaSuccess;
}

static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (event) *event = new CUevent_st{0};
  return ::musahost::checked(event != nullptr);
}
static inline cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned flags = 0) {
  return cudaEventCreateWithFlags(event, flags);
}
static inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return ::musahost::failed(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}
static inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t = nullptr) {
  if (event == nullptr) return ::musahost::failed(cudaErrorInvalidResourceHandle);
  event->time_ns = clock64();
  return cudaSuccess;
}
static inline cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream = nullptr,
                                                   unsigned = 0) {
  return cudaEventRecord(event, stream);
}
static inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaPeekAtLastError(); }
static inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
static inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  if (ms == nullptr || start == nullptr || end == nullptr) {
    return ::musahost::failed(cudaErrorInvalidResourceHandle);
  }
  *ms = static_cast<float>(end->time_ns - start->time_ns) * 1e-6f;
  return cudaSuccess;
}

// ---- graphs are refused: capturing means not running, and here a launch runs at once
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal = 0,
  cudaStreamCaptureModeThreadLocal = 1,
  cudaStreamCaptureModeRelaxed = 2,
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2,
};
static inline cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  return ::musahost::failed(cudaErrorNotSupported);
}
static inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) {
  return ::musahost::failed(cudaErrorNotSupported);
}
static inline cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  if (status) *status = cudaStreamCaptureStatusNone;
  return ::musahost::checked(status != nullptr);
}
template <class... A>
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, A...) {
  return ::musahost::failed(cudaErrorNotSupported);
}
static inline cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
  return ::musahost::failed(cudaErrorNotSupported);
}
static inline cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
static inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }
