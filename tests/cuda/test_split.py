"""Host text of the split level, and what is not for it."""

from musaagent.tools.cuda.split import host_text
from musaagent.tools.host.reading import read
from musaagent.tools.host.sources import Piece

KERNEL = """template <typename T>
__global__ void scale(const T* x, T* y, int n) {
  int i = threadIdx.x;
  if (i < n) y[i] = x[i] * T(2);
}
"""
CALL = "void run(float* x, cudaStream_t s) { scale<float><<<1, 32, 0, s>>>(x, x, 32); }\n"


def host(text: str) -> str | None:
    return host_text(Piece("cuda_sources[0]", text, "cuda", read(text)))


def test_kernels_lose_their_bodies_and_launches_become_calls() -> None:
    text = host(KERNEL + CALL)
    assert text is not None
    assert "threadIdx" not in text
    wanted = "::musacuda::launch(scale<float>, ::musacuda::config(1, 32, 0, s))(x, x, 32)"
    assert wanted in text
    assert text.count("\n") == (KERNEL + CALL).count("\n")


def test_device_symbols_are_found_by_name_and_device_lambdas_stay_with_nvcc() -> None:
    symbol = "__constant__ float c[4];\nvoid f(float* x) { cudaMemcpyToSymbol(c, x, 16); }\n"
    text = host(symbol)
    assert text is not None
    assert "::musacuda::copy_to_symbol(c, x, 16);" in text
    assert host("__managed__ int x;\n") is None
    assert host("void f() { auto g = [] __device__ (int i) { return i; }; }\n") is None


def test_attributes_of_kernels_go_through_their_stubs() -> None:
    line = "cudaFuncSetAttribute(scale<float>, cudaFuncAttributeMaxDynamicSharedMemorySize, 70000);"
    text = host(KERNEL + "void f() { " + line + " }\n")
    assert text is not None
    assert "::musacuda::set_attribute(scale<float>," in text
