"""What NVRTC is given of a source, and which flags go with it."""

import pytest

from musaagent.tools.cuda.linkage import exported
from musaagent.tools.cuda.rtc import device_text, rtc_flags, template_kernels
from musaagent.tools.host.reading import read
from musaagent.tools.host.sources import Piece, SourceSet

SOURCE = """#include <torch/extension.h>
#include <vector>
#include <cuda_fp16.h>
static std::vector<int> seen;
static bool ready = false;
constexpr int W = 32;
struct Best { float value; int index; int total() const { return index; } };
constexpr int twice(int x) { return 2 * x; }
static int blocks(int n) { return n / W; }
__device__ float half_of(float x) { return x * 0.5f; }
__global__ void k(float* x, Best b) { x[threadIdx.x] = half_of(b.value) * twice(W); }
torch::Tensor run(torch::Tensor x);
torch::Tensor run(torch::Tensor x) {
  k<<<1, 32>>>(x.data_ptr<float>(), Best{1.f, 2});
  return x;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""


def piece(text: str) -> Piece:
    return Piece("cuda_sources[0]", text, "cuda", read(text))


def sources(*flags: str) -> SourceSet:
    return SourceSet(name="x", cuda_sources=("",), extra_cuda_cflags=flags)


def test_only_the_device_part_is_left_and_every_line_stays_where_it_was() -> None:
    text = device_text(piece(SOURCE))
    assert text is not None
    given, left = SOURCE.splitlines(), text.splitlines()
    assert len(left) == len(given)
    gone = [i for i, (a, b) in enumerate(zip(given, left, strict=True)) if a and not b.strip()]
    assert gone == [0, 1, 3, 4, 8, 11, 12, 13, 14, 15, 16]
    assert "total" not in left[6]
    assert "float value; int index;" in left[6]
    assert left[7] == "__host__ __device__ constexpr int twice(int x) { return 2 * x; }"
    assert left[9:11] == given[9:11]


@pytest.mark.parametrize("word", ["virtual void f() {}", "__managed__ int x;"])
def test_what_would_mean_something_else_is_left_to_nvcc(word: str) -> None:
    assert device_text(piece(f"struct A {{ {word} }};\n__global__ void k() {{}}\n")) is None


def test_flags() -> None:
    flags = rtc_flags(sources("-O3", "--use_fast_math", "-DN=4", "-Xcompiler", "-fopenmp"))
    assert flags == ["--use_fast_math", "-DN=4"]
    assert rtc_flags(sources("-maxrregcount", "32")) == ["--maxrregcount=32"]
    assert rtc_flags(sources("--default-stream=per-thread")) is None
    assert rtc_flags(sources("-Xptxas", "-dlcm=cg")) is None


def test_kernels_and_device_variables_get_a_name_that_both_compilers_give_them() -> None:
    text = """namespace {
static __constant__ float taps[3];
static const int N = 3;
template <typename T> static __global__ void k(T* x) { x[0] = taps[N - 1]; }
}  // namespace
"""
    changed = exported(piece(text))
    assert changed.text.splitlines() == [
        "inline namespace musacuda_unnamed { ",
        " __constant__ float taps[3];",
        "static const int N = 3;",
        "template <typename T>  __global__ void k(T* x) { x[0] = taps[N - 1]; }",
        "}  // namespace",
    ]
    assert template_kernels([changed]) == ["k"]
    plain = piece("__global__ void k() {}\n")
    assert exported(plain) is plain
