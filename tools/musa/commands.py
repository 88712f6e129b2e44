"""The command lines of the musa target: no ninja, no setuptools, no environment of ours.

They follow torch_musa's loader (torch_musa/utils/musa_extension.py) and mend what is known to go
wrong there: it passes no architecture on its JIT path, so mcc would choose one; with `CC` set it
passes -ccbin, which mcc refuses; and it counts versions of a name by process, so that a build and
a load in two processes miss each other. Here the architecture is always given, compilers see no
`CC`, and a library is found by the content of its sources.
"""

import functools
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from musaagent.tools.host.commands import BuildScript
from musaagent.tools.host.sources import SourceSet, split_flags
from musaagent.tools.host.toolchain import Compiler, TorchHeaders, python_include
from musaagent.tools.musa.toolchain import MusaToolkit, TorchMusa
from musaagent.tools.musa.units import MusaLevel, MusaUnit
from musaagent.tools.port.compiler_flags import port_flag

MODULE_NAME = "module.so"
MESSAGES = ("-fno-color-diagnostics", "-fno-caret-diagnostics")
CXX_MESSAGES = ("-fdiagnostics-color=never", "-fno-diagnostics-show-caret", "-fmessage-length=0")
_TORCH_LIBRARIES = ("-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python")
_MUSA_LIBRARIES = ("-lmusa_python", "-lmusa_kernels")
_ARCH_FLAGS = ("--offload-arch=", "--cuda-gpu-arch=")
_OPTIMISED = re.compile(r"-O(?:[0-3sz]|fast)?$")
_STANDARD = re.compile(r"--?std[=]?")


@dataclass(frozen=True)
class Places:
    """Where a build finds what it includes and links."""

    thin_headers: Path
    """Our thin torch headers in MUSA names."""
    torch: TorchHeaders | None
    torch_musa: TorchMusa | None


def build_script(
    sources: SourceSet,
    units: Sequence[MusaUnit],
    level: MusaLevel,
    arch: str,
    toolkit: MusaToolkit,
    compiler: Compiler,
    places: Places,
) -> BuildScript:
    """Exit status 0 exactly when everything compiled and, at level full, MODULE_NAME was linked."""
    compiled = [unit for unit in units if unit.compiler != "none"]
    lines = ["unset CC"]
    logs = []
    for number, unit in enumerate(compiled):
        if unit.compiler == "mcc":
            command = mcc_command(sources, level, arch, toolkit, places)
        else:
            command = cxx_command(sources, level, compiler, toolkit, places)
        line = shlex.join([*command, "-c", unit.file_name, "-o", f"{number}.o"])
        lines.append(f"{line} >{number}.log 2>&1 & p{number}=$!")
        logs.append(f"{number}.log")
    lines.append("status=0")
    lines += [f"wait $p{number} || status=1" for number in range(len(compiled))]
    lines.append("[ $status = 0 ] || exit 1")
    if level == "full":
        link = link_command(sources, len(compiled), compiler, toolkit, places)
        lines.append(f"{shlex.join(link)} >link.log 2>&1")
        logs.append("link.log")
    return BuildScript("\n".join(lines) + "\n", tuple(logs))


def mcc_command(
    sources: SourceSet, level: MusaLevel, arch: str, toolkit: MusaToolkit, places: Places
) -> list[str]:
    """mcc's line without input and output. The candidate's own -O and -std go before ours."""
    given = split_flags(sources.extra_cuda_cflags)
    flags = [f for flag in given for f in port_flag(flag, arch)[0]]
    flags = [f for f in dict.fromkeys(flags) if not f.startswith(_ARCH_FLAGS)]
    own = [f"--offload-arch={arch}", "-fPIC", *MESSAGES]
    if not any(_OPTIMISED.match(f) for f in flags):
        own.append("-O3")
    if not any(_STANDARD.match(f) for f in flags):
        own.append(f"-std={standard_of(level)}")
    return [
        str(toolkit.mcc),
        *own,
        *_defines(sources, level, places.torch),
        *_includes(sources, level, toolkit, places),
        *flags,
    ]


def cxx_command(
    sources: SourceSet, level: MusaLevel, compiler: Compiler, toolkit: MusaToolkit, places: Places
) -> list[str]:
    """The host compiler's line, for a unit without kernels."""
    return [
        compiler.path,
        *("-fPIC", f"-std={standard_of(level)}", *CXX_MESSAGES),
        *_defines(sources, level, places.torch),
        *_includes(sources, level, toolkit, places),
        *split_flags(sources.extra_cflags),
    ]


def link_command(
    sources: SourceSet, objects: int, compiler: Compiler, toolkit: MusaToolkit, places: Places
) -> list[str]:
    """As torch_musa links an extension; libraries of torch are found where they lie."""
    line = [compiler.path, "-shared", *(f"{n}.o" for n in range(objects)), "-o", MODULE_NAME]
    for found, names in ((places.torch, _TORCH_LIBRARIES), (places.torch_musa, _MUSA_LIBRARIES)):
        if found is not None:
            line += [f"-L{found.libraries}", *names, f"-Wl,-rpath,{found.libraries}"]
    line += [f"-L{toolkit.libraries}", "-lmusart", f"-Wl,-rpath,{toolkit.libraries}"]
    return line + split_flags(sources.extra_ldflags)


def standard_of(level: MusaLevel) -> str:
    """The thin headers are C++20; torch_musa's loader compiles with C++17."""
    return "c++20" if level == "thin" else "c++17"


def _defines(sources: SourceSet, level: MusaLevel, torch: TorchHeaders | None) -> list[str]:
    if level == "thin":
        return ["-DMUSACUDA_DEVICE"]
    return [
        f"-DTORCH_EXTENSION_NAME={sources.name}",
        "-DTORCH_API_INCLUDE_EXTENSION_H",
        f"-D_GLIBCXX_USE_CXX11_ABI={cxx11_abi(torch)}",
    ]


@functools.cache
def cxx11_abi(torch: TorchHeaders | None) -> int:
    """The C++ library's ABI that torch was built with, as its CMake file says; 1 where it does not.

    Vendor wheels of torch up to 2.5 have both kinds.
    """
    if torch is None:
        return 1
    path = torch.root / "share" / "cmake" / "Torch" / "TorchConfig.cmake"
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 1
    match = re.search(r"_GLIBCXX_USE_CXX11_ABI=(\d)", text)
    return int(match[1]) if match else 1


def _includes(
    sources: SourceSet, level: MusaLevel, toolkit: MusaToolkit, places: Places
) -> list[str]:
    flags = ["-I.", *(f"-I{path}" for path in sources.extra_include_paths)]
    if level == "thin":
        return [*flags, f"-I{places.thin_headers}", "-isystem", str(toolkit.include)]
    folders: list[Path] = []
    if places.torch_musa is not None:
        folders += places.torch_musa.include
    if places.torch is not None:
        folders += places.torch.include
    folders += [toolkit.include, python_include()]
    return [*flags, *(word for folder in folders for word in ("-isystem", str(folder)))]
