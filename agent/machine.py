"""What this machine has, found without importing torch and without touching a GPU."""

import ast
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

from musaagent.tools.syntax import parse
from musaagent.traces.schema import Environment

_TOOL_TIMEOUT_S = 15.0


@cache
def environment() -> Environment:
    """The facts that go into every trajectory."""
    from musaagent.tools.sandbox import sandbox_kind

    return Environment(
        musaagent=metadata.version("musaagent"),
        python=platform.python_version(),
        torch=torch_version() or "none",
        compiler=tool_version("g++") or "none",
        nvcc=nvcc_version() or "none",
        machine=" ".join(
            (platform.system(), platform.release(), platform.machine(), *platform.libc_ver())
        ),
        cpu=cpu_name(),
        cpu_count=os.cpu_count() or 1,
        gpus=(*nvidia_gpus(), *musa_gpus()),
        sandbox=sandbox_kind().detail,
    )


def run_tool(*command: str) -> str | None:
    """Its standard output; None where the tool is missing, fails or hangs."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TOOL_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def tool_version(tool: str) -> str | None:
    """First line of `tool --version`."""
    text = run_tool(tool, "--version")
    return text.strip().split("\n")[0] if text and text.strip() else None


def nvcc_version() -> str | None:
    """`nvcc 13.0`, of the one that builds use."""
    from musaagent.tools.host import toolchain

    nvcc = toolchain.find_nvcc()
    version = toolchain.nvcc_version(nvcc) if nvcc else ""
    return f"nvcc {version}" if version else None


def nvidia_gpus() -> tuple[str, ...]:
    text = run_tool("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    return tuple(line.strip() for line in (text or "").split("\n") if line.strip())


def musa_gpus() -> tuple[str, ...]:
    """Lines of mthreads-gmi that name a card (`MTT S4000`)."""
    text = run_tool("mthreads-gmi", "-L") or run_tool("mthreads-gmi")
    return tuple(line.strip() for line in (text or "").split("\n") if "MTT" in line)


def has_module(name: str) -> bool:
    """Whether a top-level module is installed; it is not imported."""
    return importlib.util.find_spec(name) is not None


def torch_version() -> str | None:
    """As torch itself states it (`2.15.0+cu132`), read from its version file."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        tree = parse((Path(spec.origin).parent / "version.py").read_text())
    except (OSError, SyntaxError):
        return metadata.version("torch")
    for statement in tree.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id="__version__"), *_], value=ast.Constant(value=text))
                | ast.AnnAssign(target=ast.Name(id="__version__"), value=ast.Constant(value=text))
            ):
                return str(text)
    return metadata.version("torch")


def cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def python_line() -> str:
    return f"Python {platform.python_version()} at {sys.executable}"
