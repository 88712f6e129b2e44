"""Constructs that the host cannot run are named, with their line, and only where they are used."""

import pytest

from musaagent.tools.host.constructs import find_constructs, refusal, unused_headers
from musaagent.tools.host.reading import read


def found(text: str) -> list[tuple[str | None, int, bool]]:
    hits = find_constructs(read(text), "cuda_sources[0]", text)
    return [(hit.diagnostic.construct, hit.diagnostic.line, hit.certain) for hit in hits]


@pytest.mark.parametrize(
    ("text", "construct"),
    [
        ("using namespace nvcuda;", "wmma"),
        ("wmma::fragment<wmma::matrix_a, 16> f;", "wmma"),
        ("cublasHandle_t h;", "cuBLAS"),
        ("cublasLtCreate(&h);", "cuBLASLt"),
        ("cudnnCreate(&h);", "cuDNN"),
        ("cusparseCreate(&h);", "cuSPARSE"),
        ("cusolverDnCreate(&h);", "cuSOLVER"),
        ("cufftPlan1d(&p);", "cuFFT"),
        ("thrust::sort(a, b);", "Thrust"),
        ("cutlass::gemm::Gemm g;", "CUTLASS"),
        ("auto t = cute::make_tensor(p);", "CuTe"),
        ("float a = tex2D<float>(t, x, y);", "textures"),
        ("cudaTextureObject_t t;", "textures"),
        ("surf2Dwrite(a, s, x, y);", "surfaces"),
        ("__global__ void __cluster_dims__(2, 1, 1) k();", "thread block clusters"),
        ("auto c = cg::this_cluster();", "thread block clusters"),
        ("CUtensorMap map;", "TMA"),
        ("cudaStreamBeginCapture(s, m);", "CUDA graphs"),
        ("cudaGraphLaunch(g, s);", "CUDA graphs"),
        ("__nv_fp8_e4m3 x;", "fp8"),
        ("nvrtcCompileProgram(p, 0, 0);", "NVRTC"),
        ('asm(".global .u32 x;");', "inline PTX"),
        ("mublasCreate(&h);", "muBLAS"),
    ],
)
def test_a_use_is_named(text: str, construct: str) -> None:
    assert found("\n\n" + text) == [(construct, 3, True)]


@pytest.mark.parametrize(
    "text",
    [
        "// thrust::sort(a, b);",
        'auto s = "cublasCreate";',
        "#if 0\ncublasHandle_t h;\n#endif",
        "#include <mma.h>",
        "int thrust = 3; use(thrust);",
        "void cublas_like_gemm(); // no capital letter follows",
        "void f() { p.cudnnVersion(); }",
        "float cudnnFree(float x) { return x; } float y = cudnnFree(1);",
        "auto g = cooperative_groups::this_grid(); g.sync();",
        'void f() { asm volatile("" ::: "memory"); }',
        "__global__ void k(); void f() { k<<<1, 2>>>(); }",
    ],
)
def test_what_only_looks_like_a_use_is_left_alone(text: str) -> None:
    assert found(text) == []


def test_a_launch_in_device_code_is_dynamic_parallelism() -> None:
    text = "__global__ void a();\n__global__ void b() {\n  a<<<1, 2>>>();\n}\n"
    assert found(text) == [("dynamic parallelism", 3, True)]
    assert found("__host__ __device__ void b() { a<<<1, 2>>>(); }") == []


def test_a_missing_bracket_makes_no_dynamic_parallelism() -> None:
    """Nobody can tell any more where the kernel ends: the compiler names the bracket."""
    kernel = "__global__ void k(int* p, int n) { if (n > 1 { p[0] = n; } }\n"
    assert found(kernel + "void host(int* p) { k<<<1, 32>>>(p, 2); }") == []


def test_macros_and_conditionals_leave_the_decision_to_the_compiler() -> None:
    text = "#define T thrust::plus\n#if X\ncublasHandle_t h;\n#endif\n"
    assert found(text) == [("Thrust", 1, False), ("cuBLAS", 3, False)]


def test_inline_ptx_in_a_function_counts_only_where_it_is_reached() -> None:
    text = '__device__ void f() { asm("bar.sync 0;"); }'
    assert found(text) == [("inline PTX", 1, False)]


def test_headers_that_serve_only_such_constructs() -> None:
    source = read("#include <mma.h>\n#include <thrust/sort.h>\n#include <vector>\n")
    assert unused_headers(source) == {"mma.h", "thrust/sort.h"}


def test_the_refusal_names_the_construct_and_its_place() -> None:
    diagnostic = refusal("wmma", "cuda_sources[0]", 7, "  wmma::x  ")
    assert diagnostic.tool == "host"
    assert diagnostic.severity == "error"
    assert diagnostic.message == "the host target cannot run wmma"
    assert (diagnostic.source, diagnostic.line, diagnostic.text) == (
        "cuda_sources[0]",
        7,
        "wmma::x",
    )
