"""What this machine has for the cuda target, for `doctor` and before a run."""

import importlib.metadata
import shutil
from collections.abc import Sequence
from pathlib import Path

from musaagent.errors import ToolchainMissing
from musaagent.tools.cuda.devices import GpuInfo
from musaagent.tools.cuda.sanitizer import REMEDY, find_sanitizer
from musaagent.tools.cuda.toolchain import find_toolkit
from musaagent.tools.target import Capability


def capabilities(gpus: Sequence[GpuInfo]) -> tuple[Capability, ...]:
    """nvcc and g++ are required; without a GPU the target only compiles."""
    from musaagent.tools.sandbox import sandbox_kind

    try:
        nvcc, remedy = find_toolkit().identity, ""
    except ToolchainMissing as error:
        nvcc, remedy = "", str(error)
    compiler = shutil.which("g++")
    sandbox = sandbox_kind()
    torch = importlib.metadata.version("torch")
    return (
        Capability("nvcc", bool(nvcc), nvcc or "not found", remedy),
        Capability("g++", compiler is not None, compiler or "not found", "install g++ 12+"),
        Capability(
            "NVIDIA GPU",
            bool(gpus),
            ", ".join(f"{g.name} ({g.arch})" for g in gpus)
            or "none: the target compiles for sm_90 and runs nothing",
            "a machine with a driver and nvidia-smi",
            required=False,
        ),
        Capability(
            "CUDA torch",
            "+cpu" not in torch,
            torch,
            "install a torch built for CUDA",
            required=False,
        ),
        _tool("ncu", "hardware counters in the profile", shutil.which("ncu"), "install ncu"),
        _tool(
            "compute-sanitizer",
            "memory and race checks on the GPU",
            find_sanitizer(),
            REMEDY,
        ),
        Capability("sandbox", sandbox.ok, sandbox.detail, sandbox.remedy, required=False),
    )


def _tool(name: str, what: str, found: str | Path | None, remedy: str) -> Capability:
    detail = str(found) if found else f"not found: no {what}"
    return Capability(name, found is not None, detail, remedy, required=False)
