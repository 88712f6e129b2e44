"""The compiler command lines of the host target."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from musaagent.tools.host.sources import Level, SourceSet, Unit, definitions
from musaagent.tools.host.toolchain import Compiler, TorchHeaders, python_include

Mode = Literal["fast", "check"]

RUNTIME_NAME = "libmusahost.so"
MODULE_NAME = "module.so"
PRECOMPILED = "prelude.h"
PRECOMPILED_TEXT = """#include <torch/extension.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
"""

# Signed overflow wraps and aliasing is loose on the GPU's compiler too: a kernel that leans on
# either must behave the same here. ISO mode keeps GNU names (unix, linux) out of its way.
_COMMON = (
    "-std=c++20",
    "-fPIC",
    "-pipe",
    "-pthread",
    "-fvisibility=hidden",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fno-math-errno",
    "-fno-plt",
    "-march=native",
    "-Wvla",  # also takes away __cpp_runtime_arrays, so precompiled headers need it too
)
_MESSAGES = (
    "-fdiagnostics-color=never",
    "-fno-diagnostics-show-caret",
    "-fmessage-length=0",
)
_GCC_ONLY = ("-fno-aggressive-loop-optimizations",)
_MODES: dict[str, dict[Mode, tuple[str, ...]]] = {
    "g++": {
        "fast": ("-O2",),
        "check": (
            *("-O1", "-g1", "-fsanitize=thread"),
            *("--param", "tsan-instrument-func-entry-exit=0"),
        ),
    },
    "clang++": {
        "fast": ("-O2",),
        "check": (
            *("-O1", "-g1", "-fsanitize=thread"),
            *("-mllvm", "-tsan-instrument-func-entry-exit=0"),
        ),
    },
}


@dataclass(frozen=True)
class Folders:
    """Where a build finds what is ours."""

    headers: Path
    """Holds include, include_torch and include_full."""
    runtime: Path
    """Holds libmusahost.so."""
    precompiled: Path | None
    """Holds the precompiled header, for level thin."""


def compile_flags(compiler: Compiler, mode: Mode) -> list[str]:
    """Flags that a precompiled header and its users must share."""
    extra = _GCC_ONLY if compiler.kind == "g++" else ()
    return [*_COMMON, *extra, *_MODES[compiler.kind][mode]]


def include_flags(headers: Path, level: Level, torch: TorchHeaders | None) -> list[str]:
    """Our headers, and torch's own for level full."""
    if level == "thin" or torch is None:
        return [f"-I{headers / 'include_torch'}", f"-I{headers / 'include'}"]
    system = [*torch.include, python_include()]
    return [
        f"-I{headers / 'include_full'}",
        f"-I{headers / 'include'}",
        *(flag for folder in system for flag in ("-isystem", str(folder))),
    ]


def precompile_command(compiler: Compiler, mode: Mode, headers: Path) -> list[str]:
    """Compiles PRECOMPILED in the current folder."""
    instantiate = ["-fpch-instantiate-templates"] if compiler.kind == "clang++" else []
    flags = [*compile_flags(compiler, mode), *instantiate, *include_flags(headers, "thin", None)]
    return [compiler.path, *flags, "-x", "c++-header", PRECOMPILED, "-o", PRECOMPILED + ".gch"]


def runtime_commands(compiler: Compiler, headers: Path, files: Sequence[Path]) -> list[list[str]]:
    """One command an object file; the last one links."""
    flags = ["-std=c++20", "-O2", "-fPIC", "-pthread", "-fvisibility=hidden", "-w"]
    flags += include_flags(headers, "thin", None)
    objects = [f"{path.stem}.o" for path in files]
    compiles = [
        [compiler.path, *flags, "-c", str(path), "-o", name]
        for path, name in zip(files, objects, strict=True)
    ]
    link = [compiler.path, "-shared", "-pthread", *objects, "-o", RUNTIME_NAME]
    return [*compiles, [*link, f"-Wl,-soname,{RUNTIME_NAME}", "-Wl,-z,defs", "-ldl"]]


_PRINTS = tuple(f"-Wl,--wrap={name}" for name in ("printf", "puts", "putchar"))
"""What kernels print is counted (runtime/prints.cpp)."""


@dataclass(frozen=True)
class BuildScript:
    """A shell script that compiles all units side by side and links them; outputs by unit."""

    text: str
    outputs: tuple[str, ...]
    """Files that get what the compilers and the linker print, in order."""


def build_script(
    compiler: Compiler,
    sources: SourceSet,
    units: Sequence[Unit],
    level: Level,
    mode: Mode,
    folders: Folders,
    torch: TorchHeaders | None,
) -> BuildScript:
    """Exit status 0 exactly when MODULE_NAME was made."""
    compiled = [unit for unit in units if unit.language != "header"]
    base = [compiler.path, *compile_flags(compiler, mode), *_MESSAGES]
    if folders.precompiled is not None:
        base += ["-include", str(folders.precompiled / PRECOMPILED)]
    if level == "full":
        base += ["-DMUSAHOST_FULL_TORCH", f"-DTORCH_EXTENSION_NAME={sources.name}"]
        base += ["-DTORCH_API_INCLUDE_EXTENSION_H"]
    includes = ["-I.", *(f"-I{path}" for path in sources.extra_include_paths)]
    includes += include_flags(folders.headers, level, torch)
    link = _link_flags(folders, level, torch)
    # Compiling and linking in one command would link libtsan, whose place is taken by our checker.
    if len(compiled) == 1 and mode == "fast":
        unit = compiled[0]
        defined = definitions(sources, None if unit.language == "cuda" else "cpp")
        command = [*base, *defined, *includes, "-shared", unit.file_name, "-o", MODULE_NAME, *link]
        return BuildScript(f"{shlex.join(command)} 2>all.log\n", ("all.log",))
    lines: list[str] = []
    for number, unit in enumerate(compiled):
        alone = len(compiled) == 1 and unit.language == "cuda"
        defined = definitions(sources, None if alone else unit.language)
        command = [*base, *defined, *includes, "-c", unit.file_name]
        lines.append(f"{shlex.join(command)} -o {number}.o 2>{number}.log & p{number}=$!")
    lines.append("status=0")
    lines += [f"wait $p{number} || status=1" for number in range(len(compiled))]
    lines.append("[ $status = 0 ] || exit 1")
    objects = [f"{number}.o" for number in range(len(compiled))]
    linking = [compiler.path, "-shared", "-pthread", *objects, "-o", MODULE_NAME, *link]
    lines.append(f"{shlex.join(linking)} 2>link.log")
    logs = (*(f"{number}.log" for number in range(len(compiled))), "link.log")
    return BuildScript("\n".join(lines) + "\n", logs)


def _link_flags(folders: Folders, level: Level, torch: TorchHeaders | None) -> list[str]:
    runtime = str(folders.runtime / RUNTIME_NAME)
    if level == "thin" or torch is None:
        return [runtime, "-Wl,-z,defs", *_PRINTS]
    flags = [f"-L{torch.libraries}", "-ltorch_python", "-ltorch", "-ltorch_cpu", "-lc10"]
    # Torch's come first: our runtime has functions of the same names, for thin tensors.
    return [*flags, runtime, f"-Wl,-rpath,{torch.libraries}", *_PRINTS]
