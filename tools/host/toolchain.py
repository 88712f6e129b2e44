"""Finds compilers, nvcc and torch's headers on this machine, without importing torch."""

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from musaagent.errors import ToolchainMissing

NVCC_REMEDY = "install the CUDA toolkit, or NVIDIA's wheels: pip install 'musaagent[nvcc]'"
_OLDEST_GCC = 11
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler driver."""

    path: str
    kind: Literal["g++", "clang++"]
    version: str

    @property
    def identity(self) -> str:
        """What a cache key needs of it: the same text only for the same code generation."""
        return f"{self.kind} {self.version} {self.path} {_cpu()}"


@dataclass(frozen=True)
class TorchHeaders:
    """The installed torch, as a compiler sees it."""

    root: Path
    version: str

    @property
    def include(self) -> tuple[Path, ...]:
        base = self.root / "include"
        return base, base / "torch" / "csrc" / "api" / "include"

    @property
    def libraries(self) -> Path:
        return self.root / "lib"


@functools.cache
def find_cxx() -> Compiler:
    """$CXX, g++ or clang++, in this order. Raises ToolchainMissing."""
    for name in (os.environ.get("CXX", ""), "g++", "clang++"):
        path = shutil.which(name) if name else None
        if path is None:
            continue
        banner = _first_lines([path, "--version"])
        match = _VERSION.search(banner.splitlines()[0] if banner else "")
        if match is None:
            continue
        kind: Literal["g++", "clang++"] = "clang++" if "clang" in banner else "g++"
        if kind == "g++" and int(match[1]) < _OLDEST_GCC:
            continue
        return Compiler(path, kind, match[0])
    raise ToolchainMissing(
        f"the host target needs g++ {_OLDEST_GCC} or later (or clang++) on the PATH: install g++"
    )


@functools.cache
def find_nvcc() -> Path | None:
    """nvcc on the PATH, in $CUDA_HOME, from NVIDIA's wheels, or in /usr/local/cuda."""
    places = [Path(found)] if (found := shutil.which("nvcc")) else []
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if root := os.environ.get(variable):
            places.append(Path(root) / "bin" / "nvcc")
    for folder in nvidia_wheels():
        places += sorted(folder.glob("*/bin/nvcc"))
    places.append(Path("/usr/local/cuda/bin/nvcc"))
    return next((p for p in places if os.access(p, os.X_OK)), None)


def nvidia_wheels() -> tuple[Path, ...]:
    """Where NVIDIA's packages of this Python lie: `site-packages/nvidia`."""
    spec = importlib.util.find_spec("nvidia")
    return tuple(Path(p) for p in (spec.submodule_search_locations or ())) if spec else ()


@functools.cache
def nvcc_version(nvcc: Path) -> str:
    """`13.0`, from nvcc's own banner; empty where it does not run."""
    match = re.search(r"release (\d+\.\d+)", _first_lines([str(nvcc), "--version"]))
    return match[1] if match else ""


@functools.cache
def find_torch() -> TorchHeaders | None:
    """The torch package of this Python, None where it has no headers."""
    spec = importlib.util.find_spec("torch")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(folder) / "include" / "torch" / "csrc").is_dir():
            return TorchHeaders(Path(folder), importlib.metadata.version("torch"))
    return None


def python_include() -> Path:
    """Folder of Python.h, which pybind11 needs."""
    return Path(sysconfig.get_path("include"))


@functools.cache
def _cpu() -> str:
    """The instruction set that -march=native stands for."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.machine()
    flags = next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {hashlib.sha256(flags.encode()).hexdigest()[:12]}"


def _first_lines(command: list[str]) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout if result.returncode == 0 else ""
