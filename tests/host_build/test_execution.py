"""Rewritten launches and shared variables do what CUDA says: built for real, and run."""

from collections.abc import Callable

Run = Callable[[str], int]

SUM = """
template <typename T, int N>
__global__ void sum(const T* x, T* y, int n, const float* bias = nullptr) {
  __shared__ T part[N];
  __shared__ struct { int used; } note;
  part[threadIdx.x] = threadIdx.x < n ? x[threadIdx.x] : T(0);
  if (threadIdx.x == 0) note.used = bias == nullptr;
  __syncthreads();
  for (int s = N / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) *y = part[0] + note.used;
}
"""


def test_template_kernel_in_a_macro_with_null(run: Run) -> None:
    text = """
    #define LAUNCH(kernel, T, ...) \\
      kernel<T, 64><<<dim3(1), \\
                      64>>>(__VA_ARGS__)
    ENTRY {
      int x[5] = {1, 2, 3, 4, 5}, y = 0;
      LAUNCH(sum, int, x, &y, 5, NULL);
      return y;
    }"""
    assert run(SUM + text) == 16


def test_a_kernel_pointer_and_deduced_arguments(run: Run) -> None:
    text = """
    template <typename T> __global__ void add(T* x, T by) { atomicAdd(x, by); }
    ENTRY {
      int x = 0;
      void (*kernel)(int*, int) = add<int>;
      kernel<<<2, 3>>>(&x, 10);
      (*kernel)<<<1, 1>>>(&x, 1);
      add<<<1, {2}>>>(&x, 2);
      return x;
    }"""
    assert run(text) == 65


def test_dynamic_memory_at_file_scope_and_in_functions(run: Run) -> None:
    text = """
    extern __shared__ int pool[];
    __shared__ int total;
    __device__ void add(int i) { atomicAdd(&total, pool[i]); }
    __device__ int first(int* pool) { return pool[0]; }
    __global__ void k(int* out) {
      if (threadIdx.x == 0) total = 0;
      pool[threadIdx.x] = threadIdx.x;
      __syncthreads();
      add(threadIdx.x);
      __syncthreads();
      if (threadIdx.x == 0) *out = total + first(reinterpret_cast<int*>(pool));
    }
    __global__ void other(int* out) {
      extern __shared__ int pool[];
      pool[0] = 100;
      *out += pool[0];
    }
    ENTRY {
      int out = 0;
      k<<<1, 8, 8 * sizeof(int)>>>(&out);
      other<<<1, 1, sizeof(int)>>>(&out);
      return out;
    }"""
    assert run(text) == 128


def test_alignment_of_shared_variables(run: Run) -> None:
    text = """
    __global__ void k(int* out) {
      __shared__ char a;
      __shared__ __align__(16) char b[3];
      __shared__ alignas(64) float c[2], d;
      __shared__ char e[5] __attribute__((aligned(32)));
      *out = (size_t(b) % 16 == 0) + (size_t(c) % 64 == 0) + (size_t(e) % 32 == 0) +
             (size_t(&d) % 64 == 0) + (sizeof(b) == 3) + (a == b[0] || true);
    }
    ENTRY {
      int out = 0;
      k<<<1, 1>>>(&out);
      return out;
    }"""
    assert run(text) == 6


def test_each_block_and_each_template_has_its_own_variables(run: Run) -> None:
    text = """
    template <int N> __device__ int* place() { __shared__ int x[N]; return x; }
    __global__ void k(int* out) {
      int *a = place<2>(), *b = place<3>();
      a[threadIdx.x] = blockIdx.x;
      b[threadIdx.x] = 100;
      __syncthreads();
      if (threadIdx.x == 0 && a[0] == blockIdx.x && a[1] == blockIdx.x && b[0] == 100)
        atomicAdd(out, 1);
    }
    ENTRY {
      int out = 0;
      k<<<50, 2>>>(&out);
      return out;
    }"""
    assert run(text) == 50


def test_arguments_are_evaluated_once_and_copied_for_each_thread(run: Run) -> None:
    text = """
    struct Box { int values[4]; };
    __global__ void k(Box box, int* out, int add) {
      box.values[0] += add;
      atomicAdd(out, box.values[0]);
    }
    ENTRY {
      int calls = 0, out = 0;
      auto next = [&] { return ++calls; };
      k<<<1, 4>>>(Box{{1, 2, 3, 4}}, &out, next());
      return out * 10 + calls;
    }"""
    assert run(text) == 81
