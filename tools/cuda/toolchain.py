"""Where the CUDA toolkit and torch's flags are on this machine, without importing torch."""

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from musaagent.errors import ToolchainMissing
from musaagent.tools.host.toolchain import (
    NVCC_REMEDY,
    TorchHeaders,
    find_nvcc,
    find_torch,
    nvcc_version,
    nvidia_wheels,
)

DEFAULT_ARCH = "sm_90"
_ARCH_FLAG = re.compile(r"-arch|--gpu-architecture|-gencode|--generate-code")
_OF_LIBRARIES = ("cublas_v2.h", "cusparse.h", "cusolverDn.h")
"""What torch's own CUDA headers include besides the runtime's."""
_STANDARD = re.compile(r"'-std=(c\+\+\d\d)'")


@dataclass(frozen=True)
class CudaToolkit:
    """nvcc and the folders that belong to it."""

    nvcc: Path
    version: str
    include: tuple[Path, ...]
    runtime: Path | None
    """libcudart.so, of the toolkit or of the wheels that torch uses."""
    libraries_include: tuple[Path, ...] = ()
    """Headers of cuBLAS and its kind among the wheels, where the toolkit came without them."""

    @property
    def identity(self) -> str:
        return f"nvcc {self.version} {self.nvcc}"


@functools.cache
def find_toolkit() -> CudaToolkit:
    """Raises ToolchainMissing."""
    nvcc = find_nvcc()
    if nvcc is None:
        raise ToolchainMissing(
            f"no nvcc on the PATH, in $CUDA_HOME or among NVIDIA's wheels: {NVCC_REMEDY}"
        )
    root = nvcc.resolve().parent.parent
    roots = [root, nvcc.parent.parent, root / "targets" / "x86_64-linux"]
    if not any((r / "include" / "cuda_runtime.h").is_file() for r in roots):
        # An nvcc that is a script elsewhere; never the headers of two versions at once.
        roots.append(Path("/usr/local/cuda"))
    include = [r / "include" for r in roots if (r / "include" / "cuda_runtime.h").is_file()]
    folders = [r / name for r in roots for name in ("lib64", "lib")]
    for place in nvidia_wheels():
        folders += sorted(place.glob("*/lib"))
    libraries = [path for folder in folders for path in sorted(folder.glob("libcudart.so*"))]
    return CudaToolkit(
        nvcc,
        nvcc_version(nvcc),
        tuple(dict.fromkeys(include)),
        next(iter(libraries), None),
        _libraries_include(include),
    )


def _libraries_include(include: list[Path]) -> tuple[Path, ...]:
    """They come after the toolkit's own, whose headers of the runtime win."""
    missing = [name for name in _OF_LIBRARIES if not any((p / name).is_file() for p in include)]
    folders = [path for place in nvidia_wheels() for path in sorted(place.glob("*/include"))]
    return tuple(p for p in folders if any((p / name).is_file() for name in missing))


def torch_headers() -> TorchHeaders:
    """Raises ToolchainMissing where torch has none."""
    torch = find_torch()
    if torch is None:
        raise ToolchainMissing("torch is not installed with its headers: install torch from PyPI")
    return torch


@functools.cache
def cxx_standard() -> str:
    """What the installed torch compiles extensions with, as `c++17`."""
    text = (torch_headers().root / "utils" / "cpp_extension.py").read_text(encoding="utf-8")
    return max(_STANDARD.findall(text), default="c++17")


def arch_flags(arch: str, flags: list[str]) -> list[str]:
    """-gencode for the card, unless the candidate names its own; stock torch does the same."""
    if any(_ARCH_FLAG.match(flag) for flag in flags):
        return []
    number = arch.removeprefix("sm_")
    return ["-gencode", f"arch=compute_{number},code=sm_{number}"]
