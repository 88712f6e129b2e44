"""What this machine has for the musa target, for `doctor` and before a run."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from musaagent.errors import ToolchainMissing
from musaagent.tools.cuda.devices import GpuInfo
from musaagent.tools.musa.toolchain import REMEDY, find_toolkit, find_torch_musa
from musaagent.tools.target import Capability

CARD = "Moore Threads GPU"
TORCH = "torch_musa"
_TORCH_REMEDY = (
    "install torch_musa (it comes with a torch of its own), or use the image "
    "registry.mthreads.com/mcconline/musa-pytorch-release-public"
)


def capabilities(cards: Sequence[GpuInfo]) -> tuple[Capability, ...]:
    """mcc and a host compiler are required; without a card or torch_musa nothing runs."""
    from musaagent.tools.sandbox import sandbox_kind

    compiler = shutil.which("g++") or shutil.which("clang++")
    sandbox = sandbox_kind()
    return (
        _mcc(),
        Capability("C++ compiler", compiler is not None, compiler or "not found", "install g++"),
        Capability(
            CARD,
            bool(cards),
            ", ".join(f"{c.name} ({c.arch}, driver {c.driver})" for c in cards)
            or "none: the target compiles and runs nothing; --target host --arch ARCH runs it",
            "a machine with the MUSA driver and mthreads-gmi",
            required=False,
        ),
        _torch_musa(),
        _driver_files(),
        *(_tool(name, what) for name, what in _OPTIONAL),
        *_traps(),
        Capability("sandbox", sandbox.ok, sandbox.detail, sandbox.remedy, required=False),
    )


_OPTIONAL = (
    ("mcu", "hardware counters in the profile (Moore Perf Compute)"),
    ("msys", "timelines (Moore Perf System)"),
    ("musaInfo", "the card's limits"),
    ("mt-compute-sanitizer", "memory checks on the card"),
)


def _mcc() -> Capability:
    try:
        toolkit = find_toolkit()
    except ToolchainMissing as error:
        return Capability("mcc", False, str(error).split(":")[0], REMEDY)
    note = " (a stand-in: no Moore Threads compiler)" if toolkit.is_stand_in else ""
    return Capability("mcc", True, toolkit.identity + note)


def _torch_musa() -> Capability:
    found = find_torch_musa()
    detail = f"{found.version or 'version unknown'} ({found.root})" if found else "not found"
    return Capability(TORCH, found is not None, detail, _TORCH_REMEDY, required=False)


def _driver_files() -> Capability:
    nodes = device_files()
    return Capability(
        "driver files",
        bool(nodes),
        ", ".join(nodes[:3]) or "no /dev/mtgpu*",
        "install the MUSA driver; in a container give it the devices",
        required=False,
    )


def device_files() -> tuple[str, ...]:
    """What a jail needs of /dev for MUSA."""
    cards = sorted(Path("/dev").glob("mtgpu*"))
    render = sorted(Path("/dev/dri").glob("*")) if cards and Path("/dev/dri").is_dir() else []
    return tuple(str(p) for p in (*cards, *render) if p.exists() and not p.is_dir())


def _tool(name: str, what: str) -> Capability:
    found = shutil.which(name)
    return Capability(
        name, found is not None, found or f"not found: no {what}", f"install {name}", required=False
    )


def _traps() -> list[Capability]:
    """Of torch_musa's own loader; this target steps around them."""
    if not os.environ.get("CC"):
        return []
    return [
        Capability(
            "CC",
            False,
            f"set to {os.environ['CC']}: torch_musa's loader would pass -ccbin, which mcc refuses",
            "unset CC before you use torch_musa's load_inline by hand (this target does not care)",
            required=False,
        )
    ]
