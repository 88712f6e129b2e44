"""From source sets to libraries: what builds, what is refused as stock would, what is cached."""

import ctypes
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from musaagent.tools.host.builder import HostBuilder
from musaagent.tools.host.commands import Mode
from musaagent.tools.host.job import Finished
from musaagent.tools.host.sources import SourceFile, SourceSet, pieces
from musaagent.tools.host.stock import stock_refusals
from musaagent.tools.results import Build
from musaagent.tools.sandbox import run_jailed
from tests.host_build.conftest import unique

Make = Callable[..., Build]

CUDA = """
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void scale(const float* x, float* y, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * by;
}
torch::Tensor scale_cuda(torch::Tensor x, double by) {
  TORCH_CHECK(x.is_cuda(), "x must be a CUDA tensor");
  auto y = torch::empty_like(x);
  int n = x.numel();
  scale<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), by, n);
  return y;
}
"""
CPP = "torch::Tensor scale_cuda(torch::Tensor x, double by);"
MODULE = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scale_cuda", &scale_cuda); }\n'
FUNCTIONS = ("scale_cuda",)


def first(build: Build) -> str:
    assert not build.ok
    assert build.libraries == ()
    return build.diagnostics[0].message


def test_a_stock_candidate_builds_thin_and_is_found_again(builder: HostBuilder) -> None:
    sources = SourceSet(name="scale", cpp_sources=(CPP,), cuda_sources=(CUDA,), functions=FUNCTIONS)
    build = builder.build(sources, mode="fast", timeout_s=120)
    assert build.ok, build.log_tail
    assert build.level == "thin"
    assert build.diagnostics == ()
    ctypes.CDLL(str(builder.runtime_library()), mode=ctypes.RTLD_GLOBAL)
    assert ctypes.CDLL(build.libraries[0]).musahost_thin_functions
    again = builder.build(sources, mode="fast", timeout_s=120)
    assert again.cached
    assert again.compiler_seconds == 0
    assert again.seconds < 0.5
    assert again.libraries == build.libraries


@pytest.mark.parametrize("mode", ["fast", "check"])
@pytest.mark.parametrize("cpp", [CPP, CPP + "static int one = 1;\n"], ids=["one unit", "two units"])
def test_the_precompiled_header_is_really_used(builder: HostBuilder, mode: Mode, cpp: str) -> None:
    """Any flag that only one side has makes the compiler parse everything anew, and say nothing."""
    said: list[str] = []

    def runner(argv: Sequence[str], *, writable: Path, **options: Any) -> Finished:
        told = argv[-1].replace(" -include ", " -H -Winvalid-pch -include ")
        finished = run_jailed([*argv[:-1], told], writable=writable, **options)
        said.extend(log.read_text() for log in sorted(writable.glob("[a0-9]*.log")))
        return finished

    made = HostBuilder(builder.cache_dir, run_command=runner).build(
        SourceSet(
            name="ext",
            cpp_sources=(cpp,),
            cuda_sources=(CUDA + unique(),),
            functions=FUNCTIONS,
        ),
        mode=mode,
        timeout_s=120,
    )
    assert made.ok, made.log_tail
    assert len(said) == (1 if cpp == CPP else 2)
    for output in said:
        assert output.startswith("! "), output[:2000]
        assert ".gch" in output.splitlines()[0]
        assert "not used" not in output


def test_a_checked_build_calls_out_on_every_access(build: Make) -> None:
    made = build(CUDA, CPP, mode="check", functions=FUNCTIONS)
    assert made.ok, made.log_tail
    symbols = subprocess.run(["nm", "-D", made.libraries[0]], capture_output=True, text=True)
    assert "__tsan_read4" in symbols.stdout


@pytest.mark.parametrize("call", ["GLUE(musahost, _device_alias)(p)", "mprotect(p, 4096, 3)"])
def test_what_reaches_past_the_runtime_is_refused_whatever_the_text_shows(
    build: Make, call: str
) -> None:
    text = f"""
#include <sys/mman.h>
#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
int64_t reach(int64_t address) {{ void* p = (void*)address; return (int64_t){call}; }}
"""
    made = build(CUDA + text, CPP + "int64_t reach(int64_t address);", functions=("reach",))
    assert any(word in first(made) for word in ("verifier's own", "past the runtime"))


def test_a_library_that_looks_for_symbols_is_told(build: Make) -> None:
    text = '#include <dlfcn.h>\nbool has() { return dlsym(RTLD_DEFAULT, "sgemm_"); }\n'
    made = build(CUDA + text, CPP + "bool has();", functions=("has",))
    assert made.ok, made.log_tail
    assert made.flags == ("audit: its library calls dlsym (reaches past the runtime)",)


def test_an_error_has_the_candidate_s_line(build: Make) -> None:
    made = build(CUDA.replace("x[i] * by", "x[i] * bye"), CPP, functions=FUNCTIONS)
    assert "'bye' was not declared in this scope" in first(made)
    assert (made.diagnostics[0].source, made.diagnostics[0].line) == ("cuda_sources[0]", 6)
    assert made.level == "thin"
    assert "cuda_sources[0]:6: error: 'bye'" in made.log_tail


def test_wrong_kernel_arguments_are_told_at_the_launch(build: Make) -> None:
    made = build(CUDA.replace("by, n);\n  return", "n);\n  return"), CPP, functions=FUNCTIONS)
    assert "too few arguments to function 'void scale(" in first(made)
    assert made.diagnostics[0].line == 12
    assert "musahost" not in made.log_tail


def test_failures_are_cached_too(builder: HostBuilder) -> None:
    sources = SourceSet(name="x", cuda_sources=("#include <torch/extension.h>\nint f( {\n",))
    builder.build(sources, mode="fast", timeout_s=120)
    again = builder.build(sources, mode="fast", timeout_s=120)
    assert again.cached
    assert not again.ok
    assert again.diagnostics


def test_functions_must_be_declared_in_cpp_sources(build: Make) -> None:
    made = build(CUDA, "", functions=FUNCTIONS)
    assert "'scale_cuda' was not declared in this scope" in first(made)
    assert made.diagnostics[0].text == "functions=['scale_cuda']"


def test_a_prototype_that_differs_is_an_undefined_reference(build: Make) -> None:
    made = build(CUDA, "torch::Tensor scale_cuda(torch::Tensor x);", functions=FUNCTIONS)
    assert first(made) == "undefined reference to 'scale_cuda(at::Tensor)'"
    assert made.diagnostics[0].tool == "ld"


def test_names_of_cpp_sources_do_not_reach_cuda_sources(build: Make) -> None:
    cpp = "#define FACTOR 2\n" + CPP
    made = build(CUDA.replace("x[i] * by", "x[i] * FACTOR"), cpp, functions=FUNCTIONS)
    assert "'FACTOR' was not declared in this scope" in first(made)


def test_both_sources_may_have_a_helper_of_one_name(build: Make) -> None:
    helper = "struct Info { int a; };\nstatic int helper(Info i) { return i.a; }\n"
    assert build(helper + CUDA, helper + CPP, functions=FUNCTIONS).ok


def test_default_arguments_in_both_sources(build: Make) -> None:
    cpp = CPP.replace("double by", "double by = 2")
    cuda = CUDA.replace("double by", "double by = 2")
    assert build(cuda, cpp, functions=FUNCTIONS).ok


@pytest.mark.parametrize(
    ("cuda", "cpp", "functions", "ok"),
    [
        (CUDA + MODULE, "", None, True),
        (CUDA, CPP + "\n" + MODULE, None, True),
        (CUDA + MODULE.replace("TORCH_EXTENSION_NAME", "ext"), "", None, True),
        (CUDA + MODULE.replace("TORCH_EXTENSION_NAME", "other"), "", None, False),
        (CUDA, CPP, None, False),
        ("", CUDA.replace("<<<(n + 255) / 256, 256>>>", ""), FUNCTIONS, False),
        ("", CUDA, FUNCTIONS, False),
    ],
)
def test_where_the_module_comes_from(
    build: Make, cuda: str, cpp: str, functions: tuple[str, ...] | None, ok: bool
) -> None:
    made = build(cuda, cpp, functions=functions)
    assert made.ok == ok, made.log_tail
    assert made.flags == ()


def test_two_modules_build_and_are_flagged(build: Make) -> None:
    made = build(CUDA + MODULE, CPP, functions=FUNCTIONS)
    assert made.ok, made.log_tail
    assert made.flags == ("double_module",)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"extra_cflags": ("-O3", "--use_fast_math")}, "unrecognized command-line option"),
        ({"extra_cuda_cflags": ("-O3", "-ffast-math")}, "Unknown option '-ffast-math'"),
        ({"name": "my-ext"}, "is no C++ identifier"),
    ],
)
def test_what_ends_the_compilers_before_they_start(
    build: Make, fields: dict[str, object], message: str
) -> None:
    assert message in first(build(CUDA, CPP, functions=FUNCTIONS, **fields))


def test_flags_that_matter_reach_the_right_source(build: Make) -> None:
    cuda = CUDA.replace("x[i] * by", "x[i] * FACTOR")
    flags = ("-O3", "--use_fast_math", "-DFACTOR=3", "-Xcompiler", "-fPIC", "-lineinfo")
    assert build(cuda, CPP, functions=FUNCTIONS, extra_cuda_cflags=flags).ok
    assert not build(cuda, "#define X\n" + CPP, functions=FUNCTIONS, extra_cflags=flags[2:3]).ok


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("x[i] * by", "help(x[i])"), 'calling a __host__ function("help")'),
        (("int i =", "float a[n]; a[0] = 1; int i ="), "expression must have a constant value"),
        (("int i =", "__shared__ int s = 0; int i ="), "initializer not allowed for __shared__"),
        (("int i =", "scale<<<1, 1>>>(x, y, by, n); int i ="), "cannot run dynamic parallelism"),
        (("int i =", 'asm("bar.sync 0;"); int i ='), "cannot run inline PTX"),
        (("#include <cuda_runtime.h>", "#include <mma.h>"), ""),
        (("int i =", "using namespace nvcuda; int i ="), "cannot run wmma"),
    ],
)
def test_device_code_that_nvcc_or_the_host_refuses(
    build: Make, change: tuple[str, str], message: str
) -> None:
    helper = "float help(float a) { return a; }\n"
    cuda = CUDA.replace("__global__", helper + "__global__", 1).replace(*change)
    made = build(cuda, CPP, functions=FUNCTIONS)
    if message:
        assert message in first(made)
    else:
        assert made.ok, made.log_tail


def test_one_dynamic_array_with_two_types_is_refused(build: Make) -> None:
    kernels = "".join(
        f"__global__ void k{n}() {{ extern __shared__ {t} s[]; s[0] = 0; }}\n"
        for n, t in enumerate(("float", "double"))
    )
    assert "conflicting declaration 'double s []'" in first(
        build(kernels + CUDA, CPP, functions=FUNCTIONS)
    )


def test_inline_ptx_that_is_never_reached_does_no_harm(build: Make) -> None:
    unused = 'static __device__ void never() { asm("bar.sync 0;"); }\n'
    guarded = '#if 0\nasm("x");\n#endif\n'
    assert build(CUDA.replace("__global__", unused + guarded + "__global__", 1), CPP + MODULE).ok


def test_time_that_runs_out_is_no_cached_answer(builder: HostBuilder) -> None:
    slow = "#include <torch/extension.h>\n" + "".join(
        f"template <int N> struct A{i} {{ static constexpr int v = A{i}<N - 1>::v + 1; }};\n"
        f"template <> struct A{i}<0> {{ static constexpr int v = 0; }};\n"
        f"int x{i} = A{i}<800>::v;\n"
        for i in range(200)
    )
    sources = SourceSet(name="slow", cuda_sources=(slow,), is_python_module=False)
    build = builder.build(sources, mode="fast", timeout_s=1)
    assert "without an end" in first(build)
    assert not builder.build(sources, mode="fast", timeout_s=1).cached


def test_files_of_load_are_units_with_their_headers(builder: HostBuilder) -> None:
    files = (
        SourceFile(path="/x/op.h", text="#pragma once\n#include <torch/extension.h>\n" + CPP),
        SourceFile(path="/x/op.cpp", text='#include "op.h"\n' + MODULE),
        SourceFile(path="/x/op.cu", text='#include "op.h"\n' + CUDA),
    )
    build = builder.build(SourceSet(name="op", files=files), mode="fast", timeout_s=120)
    assert build.ok, build.log_tail


def test_musa_sources_in_one_text(build: Make) -> None:
    text = CUDA.replace("cuda_runtime.h", "musa_runtime.h") + "musaStream_t stream = nullptr;\n"
    made = build("", text, cuda_sources=(), functions=FUNCTIONS)
    assert made.ok, made.log_tail


PROCESS = """
import sys
from musaagent.tools.host.builder import HostBuilder
from musaagent.tools.host.sources import SourceSet
sources = SourceSet(name="x", cuda_sources=(sys.argv[1],), is_python_module=False)
print(HostBuilder().build(sources, mode="fast", timeout_s=120).cached)
"""


def test_two_processes_at_once_build_once(builder: HostBuilder) -> None:
    from tests.host_build.conftest import unique

    command = [sys.executable, "-c", PROCESS, "int x;" + unique()]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0].strip() for process in running]
    assert sorted(outputs) == ["False", "True"]


@pytest.mark.parametrize(
    ("header", "flag", "refused"),
    [
        ("cuda_runtime.h", "-ffast-math", "Unknown option '-ffast-math'"),
        ("cuda_runtime.h", "--use_fast_math", ""),
        ("musa_runtime.h", "-ffast-math", ""),
        ("musa_runtime.h", "--use_fast_math", "unknown argument: '--use_fast_math'"),
    ],
)
def test_options_are_those_of_the_dialects_compiler(header: str, flag: str, refused: str) -> None:
    sources = SourceSet(
        name="k", cuda_sources=(f"#include <{header}>\n",), functions=(), extra_cuda_cflags=(flag,)
    )
    told = [d.message for d in stock_refusals(sources, pieces(sources)) if flag in d.message]
    assert bool(told) == bool(refused)
    assert not refused or refused in told[0]
