// Kernels over the device headers; every entry launches some and hands the results to Python.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cub/cub.cuh>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <curand_kernel.h>

namespace cg = cooperative_groups;
#define ENTRY extern "C" __attribute__((visibility("default")))

// Device memory with a copy to the host at the end of its scope.
template <class T>
struct Output {
  T* device = nullptr;
  T* host;
  size_t count;
  Output(T* out, size_t n) : host(out), count(n) {
    cudaMalloc(&device, n * sizeof(T));
    cudaMemset(device, 0, n * sizeof(T));
  }
  ~Output() {
    cudaMemcpy(host, device, count * sizeof(T), cudaMemcpyDeviceToHost);
    cudaFree(device);
  }
};

// ---- warps
__global__ void shuffles(int* out, int width) {
  const int tid = threadIdx.x, n = blockDim.x;
  const unsigned full = 0xffffffff;
  out[tid] = __shfl_sync(full, tid, 5, width);
  out[n + tid] = __shfl_up_sync(full, tid, 3, width);
  out[2 * n + tid] = __shfl_down_sync(full, tid, 3, width);
  out[3 * n + tid] = __shfl_xor_sync(full, tid, 5, width);
  out[4 * n + tid] = static_cast<int>(__shfl_down_sync(full, static_cast<double>(tid), 1, width));
  out[5 * n + tid] = static_cast<int>(
      __half2float(__shfl_xor_sync(full, __float2half(static_cast<float>(tid)), 1, width)));
}
ENTRY void run_shuffles(int* out, int threads, int width) {
  Output<int> o(out, 6 * threads);
  shuffles<<<1, threads>>>(o.device, width);
}

__global__ void votes(unsigned* out) {
  const int tid = threadIdx.x, n = blockDim.x;
  const bool odd = tid & 1;
  out[tid] = __ballot_sync(0xffffffff, odd);
  out[n + tid] = __any_sync(0xffffffff, tid == 40) | __all_sync(0xffffffff, tid < 32) << 1;
  out[2 * n + tid] = __match_any_sync(0xffffffff, tid % 5);
  int same;
  out[3 * n + tid] = __match_all_sync(0xffffffff, tid / 32, &same);
  out[4 * n + tid] = __reduce_add_sync(0xffffffff, static_cast<unsigned>(tid));
  out[5 * n + tid] = __reduce_max_sync(0xffffffff, -tid) + 1000;
  if (tid % 32 < 8) out[6 * n + tid] = __activemask();
  if (tid % 32 < 4) {
    __syncwarp(0xf);
    out[7 * n + tid] = __shfl_sync(0xf, tid, 2);
  }
  out[8 * n + tid] = warpSize;
}
ENTRY void run_votes(unsigned* out, int threads) {
  Output<unsigned> o(out, 9 * threads);
  votes<<<1, threads>>>(o.device);
}

__global__ void block_votes(int* out) {
  const int tid = threadIdx.x;
  out[tid] = __syncthreads_count(tid % 3 == 0);
  out[blockDim.x + tid] = __syncthreads_and(tid < 100) * 2 + __syncthreads_or(tid == 7);
}
ENTRY void run_block_votes(int* out, int threads) {
  Output<int> o(out, 2 * threads);
  block_votes<<<1, threads>>>(o.device);
}

// ---- atomics
struct Counters {
  int i;
  unsigned u, inc, dec, bits;
  unsigned long long ull;
  float f;
  double d;
  int smallest, largest;
  long long widest;
  float by_cas;
  int exchanged;
  half h;
  __nv_bfloat16 b;
  half2 h2;
};
__device__ float atomic_max_by_cas(float* address, float value) {
  int* const word = reinterpret_cast<int*>(address);
  int old = *word, assumed;
  do {
    assumed = old;
    old = atomicCAS(word, assumed, __float_as_int(fmaxf(value, __int_as_float(assumed))));
  } while (assumed != old);
  return __int_as_float(old);
}
__global__ void atomics(Counters* c) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&c->i, 1);
  atomicSub(&c->i, 3);
  atomicAdd(&c->u, 2u);
  atomicInc(&c->inc, 9u);
  atomicDec(&c->dec, 9u);
  atomicOr(&c->bits, 1u << (t % 32));
  atomicAdd(&c->ull, 1ull << 33);
  atomicAdd(&c->f, 0.5f);
  atomicAdd(&c->d, 0.25);
  atomicMin(&c->smallest, -t);
  atomicMax(&c->largest, t);
  atomicMax(&c->widest, static_cast<long long>(t) << 40);
  atomic_max_by_cas(&c->by_cas, static_cast<float>(t));
  atomicExch(&c->exchanged, 7);
  if (t < 64) {
    atomicAdd(&c->h, __float2half(1.0f));
    atomicAdd(&c->b, __float2bfloat16(1.0f));
    atomicAdd(&c->h2, __floats2half2_rn(1.0f, 2.0f));
  }
}
ENTRY void run_atomics(double* out, int blocks, int threads) {
  Counters c;
  {
    Output<Counters> o(&c, 1);
    atomics<<<blocks, threads>>>(o.device);
  }
  const double values[] = {double(c.i), double(c.u), double(c.inc), double(c.dec), double(c.bits),
                           double(c.ull), c.f, c.d, double(c.smallest), double(c.largest),
                           double(c.widest), c.by_cas, double(c.exchanged), __half2float(c.h),
                           __bfloat162float(c.b), __low2float(c.h2), __high2float(c.h2)};
  memcpy(out, values, sizeof values);
}

// ---- a lock that threads of one block take in turn: spinning must let the holder run
__global__ void locked(int* lock, int* count) {
  for (bool done = false; !done;) {
    if (atomicCAS(lock, 0, 1) == 0) {
      *count += 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}
ENTRY void run_locked(int* out, int threads) {
  Output<int> o(out, 2);
  locked<<<1, threads>>>(o.device, o.device + 1);
}

// ---- cooperative groups
__global__ void groups(float* out) {
  const int n = blockDim.x;
  const auto block = cg::this_thread_block();
  const cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  const auto tile = cg::tiled_partition<8>(warp);
  const float t = static_cast<float>(block.thread_rank());
  out[threadIdx.x] = cg::reduce(warp, t, cg::plus<float>());
  out[n + threadIdx.x] = cg::reduce(tile, t, cg::greater<float>());
  out[2 * n + threadIdx.x] = tile.shfl(t, 3) + 1000 * tile.thread_rank();
  out[3 * n + threadIdx.x] = cg::inclusive_scan(tile, t);
  out[4 * n + threadIdx.x] = tile.ballot(tile.thread_rank() < 3);
  if (threadIdx.x % 4 == 1) {
    const auto together = cg::coalesced_threads();
    out[5 * n + threadIdx.x] = together.num_threads() * 100 + together.thread_rank();
  }
  block.sync();
  out[6 * n + threadIdx.x] = warp.meta_group_rank() * 10 + tile.meta_group_size();
}
ENTRY void run_groups(float* out, int threads) {
  Output<float> o(out, 7 * threads);
  groups<<<1, threads>>>(o.device);
}
__global__ void grid_sum(int* data, int* total) {
  const auto grid = cg::this_grid();
  data[grid.thread_rank()] = 1;
  grid.sync();
  if (grid.thread_rank() == 0) {
    for (unsigned i = 0; i < grid.size(); ++i) *total += data[i];
  }
}
ENTRY int run_grid_sum(int* out, int blocks, int threads) {
  Output<int> o(out, blocks * threads + 1);
  int* total = o.device + blocks * threads;
  void* arguments[] = {&o.device, &total};
  return cudaLaunchCooperativeKernel((void*)grid_sum, dim3(blocks), dim3(threads), arguments, 0, 0);
}

// ---- CUB
template <int THREADS>
__global__ void collectives(float* out) {
  using Reduce = cub::BlockReduce<float, THREADS>;
  using Scan = cub::BlockScan<int, THREADS>;
  using Warp = cub::WarpReduce<float>;
  __shared__ union {
    typename Reduce::TempStorage reduce;
    typename Scan::TempStorage scan;
  } storage;
  __shared__ typename Warp::TempStorage warps[THREADS / 32];
  const int t = threadIdx.x;
  const float sum = Reduce(storage.reduce).Sum(static_cast<float>(t));
  __syncthreads();
  const float most = Reduce(storage.reduce).Reduce(static_cast<float>(t ^ 5), cub::Max());
  __syncthreads();
  int before, total;
  Scan(storage.scan).ExclusiveSum(t, before, total);
  const float warp = Warp(warps[t / 32]).Sum(static_cast<float>(t));
  if (t == 0) out[0] = sum;
  if (t == 0) out[1] = most;
  out[2 + t] = before;
  if (t % 32 == 0) out[2 + THREADS + t / 32] = warp;
  out[2 + 2 * THREADS] = total;
}
ENTRY void run_collectives(float* out) {
  Output<float> o(out, 2 + 2 * 64 + 1);
  collectives<64><<<1, 64>>>(o.device);
}

// ---- random numbers
__global__ void randoms(unsigned* words, float* uniform, float* normal) {
  curandStatePhilox4_32_10_t state;
  curand_init(0, 0, 0, &state);
  for (int i = 0; i < 8; ++i) words[i] = curand(&state);
  curand_init(0, 0, 5, &state);
  words[8] = curand(&state);
  curand_init(0xffffffffffffffffull, 0xffffffffffffffffull, 0, &state);
  words[9] = curand(&state);
  curand_init(1234, 7, 0, &state);
  for (int i = 0; i < 4000; ++i) uniform[i] = curand_uniform(&state);
  for (int i = 0; i < 4000; ++i) normal[i] = curand_normal(&state);
}
ENTRY void run_randoms(unsigned* words, float* uniform, float* normal) {
  Output<unsigned> w(words, 10);
  Output<float> u(uniform, 4000), n(normal, 4000);
  randoms<<<1, 1>>>(w.device, u.device, n.device);
}

// ---- launches: how arguments reach parameters
struct Shape {
  int rows, columns;
  float scale;
};
__global__ void by_value(Shape shape, float* out, const float* missing, long long wide, float factor) {
  shape.rows += threadIdx.x;
  out[threadIdx.x] = missing ? -1.0f : shape.rows * shape.scale * factor + wide;
}
template <class T, int N>
__global__ void deduced(T* out, T value, const T* missing) {
  if (missing == nullptr) out[threadIdx.x] = value * N;
}
template <class T>
__global__ void guessed(T* out, T value) {
  out[threadIdx.x] = value;
}
__global__ void overloaded(float* out, int) { out[0] = 1; }
__global__ void overloaded(float* out, float) { out[0] = 2; }
template <class F>
__global__ void with_function(float* out, F f) {
  out[threadIdx.x] = f(static_cast<float>(threadIdx.x));
}
struct Square {
  __device__ float operator()(float x) const { return x * x; }
};
ENTRY int run_launches(float* out) {
  Output<float> o(out, 8 * 4);
  int evaluated = 0;
  by_value<<<1, 4>>>(Shape{2, 3, 0.5f}, o.device, NULL, 10, (++evaluated, 2));
  by_value<<<dim3(1), dim3(4), 0, nullptr>>>({2, 3, 0.5f}, o.device + 4, 0, 10, 2.0);
  deduced<float, 3><<<1, 4>>>(o.device + 8, 2, nullptr);
  guessed<<<1, 4>>>(o.device + 12, 5.0f);
  overloaded<<<1, 4>>>(o.device + 16, 1);
  overloaded<<<1, 4>>>(o.device + 17, 1.0f);
  with_function<<<1, 4>>>(o.device + 20, Square());
  void (*chosen)(float*, float) = guessed<float>;
  if (true)
    chosen<<<1, 4>>>(o.device + 24, 7);
  with_function<<<1, 4>>>(o.device + 28, [=] __device__(float x) { return x + 0.5f; });
  return evaluated;
}

__global__ void places(int* out) {
  const dim3 block(blockDim), grid = gridDim;
  const uint3 index = blockIdx;
  const int b = index.x + grid.x * (index.y + grid.y * index.z);
  const int t = threadIdx.x + block.x * (threadIdx.y + block.y * threadIdx.z);
  const int size = block.x * block.y * block.z;
  out[b * size + t] = b * 1000 + t;
}
ENTRY void run_places(int* out) {
  Output<int> o(out, 24 * 24);
  dim3 blockDim(2, 3, 4), gridDim(4, 3, 2);
  places<<<gridDim, blockDim>>>(o.device);
}

// ---- shared memory above the default limit needs the attribute
template <class T>
__global__ void big_shared(T* out) {
  extern __shared__ char raw[];
  T* values = reinterpret_cast<T*>(raw);
  values[threadIdx.x + 10000] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = values[10000 + (threadIdx.x ^ 1)];
}
ENTRY int run_big_shared(float* out, int allow) {
  Output<float> o(out, 32);
  const int bytes = 60000;
  if (allow) {
    cudaFuncSetAttribute(big_shared<float>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  }
  big_shared<float><<<1, 32, bytes>>>(o.device);
  return cudaGetLastError();
}
ENTRY int too_much_shared() {
  return cudaFuncSetAttribute((const void*)big_shared<double>,
                              cudaFuncAttributeMaxDynamicSharedMemorySize, 300000);
}

// ---- errors
__global__ void asserts(int limit) { assert(static_cast<int>(threadIdx.x) < limit); }
__global__ void traps() { __trap(); }
ENTRY int run_assert(int limit) {
  asserts<<<1, 4>>>(limit);
  return cudaDeviceSynchronize();
}
ENTRY int run_too_many_threads() {
  traps<<<1, 2048>>>();
  return cudaGetLastError();
}
ENTRY int last_error() { return cudaGetLastError(); }
ENTRY const char* error_text(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }
ENTRY const char* error_name(int error) { return cudaGetErrorName(static_cast<cudaError_t>(error)); }

// ---- the runtime interface
__constant__ float weights[4];
__device__ int device_count;
__global__ void weighted(float* out) {
  out[threadIdx.x] = weights[threadIdx.x] * 2;
  atomicAdd(&device_count, 1);
}
ENTRY int run_runtime(float* out, float* elapsed_ms, int* counted) {
  Output<float> o(out, 8);
  cudaStream_t stream;
  cudaEvent_t start, stop;
  int failures = 0;
  failures += cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess;
  failures += cudaEventCreate(&start) != cudaSuccess;
  failures += cudaEventCreateWithFlags(&stop, cudaEventDefault) != cudaSuccess;
  const float host[] = {1, 2, 3, 4};
  failures += cudaMemcpyToSymbol(weights, host, sizeof host) != cudaSuccess;
  failures += cudaMemcpyToSymbol(weights, host, 2 * sizeof host) != cudaErrorInvalidValue;
  failures += cudaGetLastError() != cudaErrorInvalidValue;
  failures += cudaEventRecord(start, stream) != cudaSuccess;
  weighted<<<1, 4, 0, stream>>>(o.device);
  failures += cudaEventRecord(stop, stream) != cudaSuccess;
  failures += cudaStreamSynchronize(stream) != cudaSuccess;
  failures += cudaEventElapsedTime(elapsed_ms, start, stop) != cudaSuccess;
  failures += cudaMemcpyFromSymbol(counted, device_count, sizeof(int)) != cudaSuccess;
  failures += cudaMemcpy2D(o.device + 4, 8, o.device, 8, 4, 2, cudaMemcpyDeviceToDevice) != cudaSuccess;
  failures += cudaEventDestroy(start) != cudaSuccess;
  failures += cudaStreamDestroy(stream) != cudaSuccess;
  failures += cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal) != cudaErrorNotSupported;
  failures += cudaGetLastError() != cudaSuccess;
  int value = 0, least = 0;
  failures += cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0) != cudaSuccess;
  failures += value != 132;
  failures += cudaOccupancyMaxPotentialBlockSize(&least, &value, weighted, 0, 0) != cudaSuccess;
  failures += value != 1024 || least != 264;
  failures += cudaSetDevice(3) != cudaErrorInvalidDevice;
  cudaGetLastError();
  return failures;
}

__global__ void pipelined(const float4* in, float4* out) {
  __shared__ float4 stage[32];
  __pipeline_memcpy_async(&stage[threadIdx.x], &in[threadIdx.x], sizeof(float4));
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  out[threadIdx.x] = stage[31 - threadIdx.x];
}
ENTRY void run_pipelined(float* in, float* out) {
  Output<float> i(in, 128), o(out, 128);
  cudaMemcpy(i.device, in, 512, cudaMemcpyHostToDevice);
  pipelined<<<1, 32>>>(reinterpret_cast<float4*>(i.device), reinterpret_cast<float4*>(o.device));
}

// ---- CUB over whole arrays
ENTRY int run_device_collectives(const float* in, int n, float* out) {
  Output<float> given(const_cast<float*>(in), n), o(out, 4 + 2 * n);
  cudaMemcpy(given.device, in, n * sizeof(float), cudaMemcpyHostToDevice);
  size_t bytes = 0;
  int failures = cub::DeviceReduce::Sum(nullptr, bytes, given.device, o.device, n) != cudaSuccess;
  failures += bytes == 0;
  void* storage;
  cudaMalloc(&storage, bytes);
  failures += cub::DeviceReduce::Sum(storage, bytes, given.device, o.device, n) != cudaSuccess;
  failures += cub::DeviceReduce::Max(storage, bytes, given.device, o.device + 1, n) != cudaSuccess;
  failures += cub::DeviceReduce::Min(storage, bytes, given.device, o.device + 2, n) != cudaSuccess;
  failures += cub::DeviceScan::ExclusiveSum(storage, bytes, given.device, o.device + 4, n) != cudaSuccess;
  failures +=
      cub::DeviceRadixSort::SortKeys(storage, bytes, given.device, o.device + 4 + n, n) != cudaSuccess;
  cudaFree(storage);
  return failures;
}
