"""The compiler command lines of the cuda target: no ninja, no setuptools."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from musaagent.tools.cuda.holding import OBJECT_NAME, link_words
from musaagent.tools.cuda.rtc import Rtc
from musaagent.tools.cuda.toolchain import CudaToolkit, arch_flags, cxx_standard
from musaagent.tools.cuda.units import CudaLevel, CudaUnit
from musaagent.tools.host.sources import SourceSet, split_flags
from musaagent.tools.host.toolchain import Compiler, TorchHeaders, python_include

MODULE_NAME = "module.so"
RUNTIME_NAME = "libmusacuda.so"
# torch passes these to nvcc in every extension build.
HALF_FLAGS = (
    *("-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__"),
    *("-D__CUDA_NO_BFLOAT16_CONVERSIONS__", "-D__CUDA_NO_HALF2_OPERATORS__"),
)
STOCK_NVCC = (*HALF_FLAGS, "--expt-relaxed-constexpr")
MESSAGES = ("-fdiagnostics-color=never", "-fno-diagnostics-show-caret", "-fmessage-length=0")
_TORCH_LIBRARIES = ("-lc10", "-lc10_cuda", "-ltorch_cpu", "-ltorch_cuda", "-ltorch")


@dataclass(frozen=True)
class Places:
    """Where a build finds what it includes and links."""

    thin_headers: Path
    light_headers: Path
    runtime: Path
    """Folder of libmusacuda.so."""
    torch: TorchHeaders
    split_headers: Path
    precompiled: Path | None = None
    """Folder of the precompiled header for level split."""
    rtc: Rtc | None = None
    """NVRTC, where it is found."""
    launches: Path | None = None
    """Folder of the object that can hold launches back."""


@dataclass(frozen=True)
class Script:
    """A shell script that compiles all units side by side and links them."""

    text: str
    outputs: tuple[str, ...]
    """Files with what the compilers and the linker print, in order."""


def build_script(
    sources: SourceSet,
    units: Sequence[CudaUnit],
    level: CudaLevel,
    arch: str,
    toolkit: CudaToolkit,
    compiler: Compiler,
    places: Places,
) -> Script:
    """Exit status 0 exactly when MODULE_NAME was made."""
    compiled = [unit for unit in units if unit.compiler != "none"]
    shared = shared_flags(sources, level, places, toolkit)
    lines, logs = [], []
    for number, unit in enumerate(compiled):
        if unit.compiler == "nvcc":
            command = nvcc_command(toolkit, compiler, shared, arch, sources, level)
            command += ["--compiler-options", "-fPIC"]
        else:
            flags = split_flags(sources.extra_cflags)
            command = [compiler.path, *shared, "-fPIC", *MESSAGES, *flags]
        line = shlex.join([*command, "-c", unit.file_name, "-o", f"{number}.o"])
        lines.append(f"{line} >{number}.log 2>&1 & p{number}=$!")
        logs.append(f"{number}.log")
    lines.append("status=0")
    lines += [f"wait $p{number} || status=1" for number in range(len(compiled))]
    lines.append("[ $status = 0 ] || exit 1")
    objects = [f"{number}.o" for number in range(len(compiled))]
    link = [compiler.path, "-shared", *objects, "-o", MODULE_NAME]
    link += [*link_flags(level, places, toolkit), *split_flags(sources.extra_ldflags)]
    lines.append(f"{shlex.join(link)} >link.log 2>&1")
    return Script("\n".join(lines) + "\n", (*logs, "link.log"))


def shared_flags(
    sources: SourceSet, level: CudaLevel, places: Places, toolkit: CudaToolkit
) -> list[str]:
    """Flags for g++ and nvcc alike."""
    flags = [f"-std={cxx_standard_of(level)}", *_defines(sources, level)]
    flags += ["-I.", *(f"-I{path}" for path in sources.extra_include_paths)]
    return flags + _includes(level, places, toolkit)


def cxx_standard_of(level: CudaLevel) -> str:
    """The thin headers are C++20; torch's own are compiled as torch compiles them."""
    return "c++20" if level in ("split", "thin") else cxx_standard()


def _defines(sources: SourceSet, level: CudaLevel) -> list[str]:
    if level in ("split", "thin"):
        return ["-DMUSACUDA_DEVICE"]
    defined = [f"-DTORCH_EXTENSION_NAME={sources.name}", "-D_GLIBCXX_USE_CXX11_ABI=1"]
    return [*defined, "-DTORCH_API_INCLUDE_EXTENSION_H"]


def _includes(level: CudaLevel, places: Places, toolkit: CudaToolkit) -> list[str]:
    cuda = _system(toolkit.include)
    if level in ("split", "thin"):
        return [f"-I{places.thin_headers}", *cuda]
    own = [f"-I{places.light_headers}"] if level == "light" else []
    torch = _system([*places.torch.include, python_include()])
    return [*own, *torch, *cuda, *_system(toolkit.libraries_include)]


def _system(folders: Sequence[Path]) -> list[str]:
    return [word for folder in folders for word in ("-isystem", str(folder))]


def nvcc_command(
    toolkit: CudaToolkit,
    compiler: Compiler,
    shared: list[str],
    arch: str,
    sources: SourceSet,
    level: CudaLevel,
) -> list[str]:
    """Without its input and output; -lineinfo is for compute-sanitizer and changes no code."""
    flags = split_flags(sources.extra_cuda_cflags)
    if level in ("split", "thin"):  # the thin headers need C++20, of which older ones are a part
        flags = [flag for flag in flags if not flag.startswith(("-std=", "--std="))]
    standard = [f for f in shared if not (f.startswith("-std=") and _has_standard(flags))]
    ccbin = ["-ccbin", compiler.path] if compiler.kind == "g++" else []
    return [
        *(str(toolkit.nvcc), *ccbin, *standard, *STOCK_NVCC, "-lineinfo"),
        *("-Xptxas", "-v"),
        *(*arch_flags(arch, flags), *flags),
    ]


def _has_standard(flags: list[str]) -> bool:
    return any(flag.startswith(("-std", "--std")) for flag in flags)


def link_flags(level: CudaLevel, places: Places, toolkit: CudaToolkit) -> list[str]:
    """At run time libcudart is the one that torch has loaded already, found by its soname."""
    runtime = str(toolkit.runtime) if toolkit.runtime else "-lcudart"
    if level == "split":
        return [str(places.runtime / RUNTIME_NAME), runtime, "-Wl,-z,defs"]
    held = link_words(places.launches) if places.launches else []
    if level == "thin":
        return [*held, str(places.runtime / RUNTIME_NAME), runtime, "-Wl,-z,defs"]
    flags = [f"-L{places.torch.libraries}", *_TORCH_LIBRARIES, "-ltorch_python", runtime]
    return [*held, *flags, f"-Wl,-rpath,{places.torch.libraries}"]


def launches_command(compiler: Compiler, toolkit: CudaToolkit, source: Path) -> list[str]:
    """Builds the object that can hold launches back in the current folder."""
    flags = ["-std=c++17", "-O1", "-fPIC", "-w", *_system(toolkit.include)]
    return [compiler.path, *flags, "-c", str(source), "-o", OBJECT_NAME]


def runtime_command(compiler: Compiler, thin_headers: Path, files: Sequence[Path]) -> list[str]:
    """Builds libmusacuda.so in the current folder."""
    flags = ["-std=c++20", "-O2", "-fPIC", "-pthread", "-fvisibility=hidden", "-w"]
    link = ["-shared", "-o", RUNTIME_NAME, f"-Wl,-soname,{RUNTIME_NAME}", "-Wl,-z,defs"]
    return [compiler.path, *flags, f"-I{thin_headers}", *map(str, files), *link]
