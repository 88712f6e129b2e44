"""CUDA names to MUSA on tokens: what must change, what must not, line by line."""

import pytest

from musaagent.tools.port.arch_macros import NEVER
from musaagent.tools.port.cxx import port_cxx
from musaagent.tools.port.tables import Tables

TABLES = Tables()


def ported(text: str, **options: object) -> str:
    return port_cxx(text, TABLES, **options).text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cuda", "musa"),
    [
        ("#include <cuda_runtime.h>", "#include <musa_runtime.h>"),
        ("#include <cuda.h>", "#include <musa.h>"),
        ("#include <cuda_bf16.h>", "#include <musa_bf16.h>"),
        ("#include <cublas_v2.h>", "#include <mublas.h>"),
        ("#include <cublasLt.h>", "#include <mublasLt.h>"),
        ("#include <curand_kernel.h>", "#include <murand_kernel.h>"),
        ("#include <device_launch_parameters.h>", "#include <musa_runtime.h>"),
        (
            "#include <ATen/cuda/CUDAContext.h>",
            "#include <torch_musa/csrc/aten/musa/MUSAContext.h>",
        ),
        ("#include <c10/cuda/CUDAGuard.h>", "#include <torch_musa/csrc/core/MUSAGuard.h>"),
        ("#include <cub/cub.cuh>", "#include <cub/cub.cuh>"),
        ("#include <torch/extension.h>", "#include <torch/extension.h>"),
        (
            "cudaStream_t s = at::cuda::getCurrentCUDAStream();",
            "musaStream_t s = at::musa::getCurrentMUSAStream();",
        ),
        ("c10::cuda::CUDAGuard g(x.device());", "c10::musa::MUSAGuard g(x.device());"),
        ("const at::cuda::OptionalCUDAGuard g(d);", "const at::musa::OptionalMUSAGuard g(d);"),
        ("C10_CUDA_KERNEL_LAUNCH_CHECK();", "C10_MUSA_KERNEL_LAUNCH_CHECK();"),
        ("AT_CUDA_CHECK(cudaGetLastError());", "AT_MUSA_CHECK(musaGetLastError());"),
        ("TORCH_CHECK(x.is_cuda());", "TORCH_CHECK(x.is_privateuseone());"),
        ("x.options().device(torch::kCUDA)", "x.options().device(torch::kPrivateUse1)"),
        ("c10::DeviceType::CUDA", "c10::DeviceType::PrivateUse1"),
        ("c10::DispatchKey::CUDA", "c10::DispatchKey::PrivateUse1"),
        ("TORCH_LIBRARY_IMPL(ops, CUDA, m) {}", "TORCH_LIBRARY_IMPL(ops, PrivateUse1, m) {}"),
        ('torch::Device d("cuda:1");', 'torch::Device d("musa:1");'),
        ("__nv_bfloat16 a; nv_bfloat162 b;", "__mt_bfloat16 a; __mt_bfloat162 b;"),
        ("__nv_fp8_e4m3 a;", "__mt_fp8_e4m3 a;"),
        ("nvcuda::wmma::fragment<> f;", "mtmusa::wmma::fragment<> f;"),
        ("cublasHandle_t h; cublasSgemm(h);", "mublasHandle_t h; mublasSgemm(h);"),
        ("CUBLAS_OP_N", "MUBLAS_OP_N"),
        ("curandState s; curand_init(1, 2, 3, &s);", "murandState s; murand_init(1, 2, 3, &s);"),
        ("CUdeviceptr p; cuMemAlloc(&p, 4);", "MUdeviceptr p; muMemAlloc(&p, 4);"),
        ("cuMemcpyHtoD(a, b, 4); CU_STREAM_DEFAULT", "muMemcpyHtoD(a, b, 4); MU_STREAM_DEFAULT"),
        ("cuComplex z = make_cuComplex(1, 2);", "muComplex z = make_muComplex(1, 2);"),
        ("CUDART_INF_F", "MUSART_INF_F"),
        ("cuda::std::numeric_limits<float>::max()", "musa::std::numeric_limits<float>::max()"),
        ("#ifdef __CUDACC__", "#ifdef __MUSACC__"),
        ("ncclComm_t c; ncclAllReduce(c);", "mcclComm_t c; mcclAllReduce(c);"),
    ],
)
def test_a_name_becomes_its_counterpart(cuda: str, musa: str) -> None:
    assert ported(cuda) == musa


@pytest.mark.parametrize(
    "text",
    [
        "// cudaMalloc in a comment, __CUDA_ARCH__ >= 800",
        'printf("cudaMalloc failed on cuda:0 with cublas");',
        'm.def("add_cuda", &add_cuda);',
        "Accumulate(x); int barracuda; float cuda_ms; cuSeqlens; cu_seqlens[0];",
        "__global__ void k() { __shared__ float s[32]; __syncthreads(); threadIdx.x; }",
        "k<<<grid, block, 0, stream>>>(a, b);",
        "__shfl_down_sync(0xffffffff, v, 1);",
        "struct cudaPool { int n; }; cudaPool p; p.cudaCount = 1;",
        "int cudaAdd(int a); int b = cudaAdd(1);",
        "half2 a; float4 b; dim3 c;",
        "namespace mine { namespace cuda { int f(); } } mine::cuda::f();",
        'R"(cudaMalloc)"',
    ],
)
def test_what_is_not_cudas_stays(text: str) -> None:
    assert ported(text) == text


@pytest.mark.parametrize(
    ("cuda", "musa"),
    [
        ("#if __CUDA_ARCH__ >= 800", "#if __MUSA_ARCH__ >= 220"),
        ("#if (__CUDA_ARCH__ < 800)", "#if (__MUSA_ARCH__ < 220)"),
        ("#if __CUDA_ARCH__ >= 900", "#if __MUSA_ARCH__ >= 310"),
        ("#if __CUDA_ARCH__ >= 700", "#if __MUSA_ARCH__ >= 210"),
        ("#if __CUDA_ARCH__ > 750", "#if __MUSA_ARCH__ >= 220"),
        ("#if __CUDA_ARCH__ <= 750", "#if __MUSA_ARCH__ < 220"),
        ("#if 800 <= __CUDA_ARCH__", "#if 220 <= __MUSA_ARCH__"),
        ("#if 600 > __CUDA_ARCH__", "#if 210 > __MUSA_ARCH__"),
        ("#if __CUDA_ARCH__ >= 1000", f"#if __MUSA_ARCH__ >= {NEVER}"),
        (
            "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 530 && __CUDA_ARCH__ < 900",
            "#if defined(__MUSA_ARCH__) && __MUSA_ARCH__ >= 210 && __MUSA_ARCH__ < 310",
        ),
        ("#if __CUDA_ARCH__ > 0", "#if __MUSA_ARCH__ > 0"),
        ("#ifdef __CUDA_ARCH__", "#ifdef __MUSA_ARCH__"),
        ("#ifndef __CUDA_ARCH__", "#ifndef __MUSA_ARCH__"),
    ],
)
def test_thresholds_are_rescaled_with_their_macro(cuda: str, musa: str) -> None:
    assert ported(cuda + "\nint x;\n") == musa + "\nint x;\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("#if __CUDA_ARCH__ == 750\n#endif", "arch_threshold"),
        ("#if __CUDA_ARCH__ >= 1000\n#endif", "arch_threshold"),
        ("int generation = __CUDA_ARCH__ / 100;", "arch_threshold"),
        ("#if CUDART_VERSION >= 11000\n#endif", "version_threshold"),
        ("cudnnHandle_t h;", "library"),
        ("#define CALL(name) cuda##name()\n#define MAKE cudaMalloc##x", "pasting"),
        ("#include <ATen/cuda/CUDASparse.h>", "header"),
        ("cuda::barrier<cuda::thread_scope_block> b;", "library"),
    ],
)
def test_what_no_table_can_carry_over_is_told(text: str, kind: str) -> None:
    found = port_cxx(text, TABLES, source="a.cu")
    assert kind in {remark.kind for remark in found.remarks}
    assert all(remark.source == "a.cu" and remark.line for remark in found.remarks)


def test_lines_and_line_ends_stay() -> None:
    text = "#include <cuda.h>\r\n/* a\r\n b */ cudaFree(p);\r\n#define A(x) \\\r\n  cudaFree(x)\r\n"
    found = port_cxx(text, TABLES)
    assert found.text == text.replace("cuda", "musa")
    assert [change.line for change in found.changes] == [1, 3, 5]


def test_a_second_time_nothing_changes() -> None:
    text = "#include <cuda_runtime.h>\n#if __CUDA_ARCH__ >= 800\ncudaMalloc(&p, 4);\n#endif\n"
    once = ported(text)
    again = port_cxx(once, TABLES)
    assert again.text == once
    assert again.changes == ()


def test_installed_tables_go_before_the_rules() -> None:
    tables = Tables(words={"cudaFoo": "musaBar"}, headers={"cuda_odd.h": "musa_even.h"})
    assert port_cxx("#include <cuda_odd.h>\ncudaFoo(cudaFree);", tables).text == (
        "#include <musa_even.h>\nmusaBar(musaFree);"
    )
