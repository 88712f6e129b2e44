"""What this machine has, and what is missing for which target. Imports no torch."""

import os
from pathlib import Path

from musaagent import machine
from musaagent.errors import ToolchainMissing
from musaagent.tools.results import Record


class Need(Record):
    """One thing that a target needs."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    required: bool = True


class TargetHealth(Record):
    name: str
    ready: bool
    needs: tuple[Need, ...]
    remark: str = ""


class Findings(Record):
    """The answer of `musaagent doctor`."""

    status: str
    """`ready`, or `missing` where an asked target cannot run here."""
    python: str
    torch: str | None
    compilers: dict[str, str | None]
    """Name -> first line of its version; None where it is not on the PATH."""
    gpus: tuple[str, ...]
    sandbox: str
    cache: str
    cache_bytes: int
    cpu: str
    cpu_count: int
    targets: tuple[TargetHealth, ...]

    @property
    def ready(self) -> bool:
        return self.status == "ready"


def examine(target: str | None = None) -> Findings:
    """All targets, or one; without a choice the host target decides what `ready` means."""
    from musaagent.tools.sandbox import sandbox_kind

    checks = {"host": _host, "cuda": _cuda, "musa": _musa}
    names = [target] if target else list(checks)
    targets = tuple(checks[name]() for name in names)
    folder = cache_folder()
    return Findings(
        status="ready" if targets[0].ready else "missing",
        python=machine.python_line(),
        torch=machine.torch_version(),
        compilers={
            "g++": machine.tool_version("g++"),
            "nvcc": machine.nvcc_version(),
            "mcc": machine.tool_version("mcc"),
        },
        gpus=(*machine.nvidia_gpus(), *machine.musa_gpus()),
        sandbox=sandbox_kind().detail,
        cache=str(folder),
        cache_bytes=folder_bytes(folder),
        cpu=machine.cpu_name(),
        cpu_count=os.cpu_count() or 1,
        targets=targets,
    )


def cache_folder() -> Path:
    from musaagent.tools.host.cache import default_cache_dir

    return default_cache_dir()


def folder_bytes(folder: Path) -> int:
    """Size of all files below; files that vanish meanwhile count nothing."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).lstat().st_size
            except OSError:
                continue
    return total


def _host() -> TargetHealth:
    from musaagent.tools.host.target import HostTarget

    torch = machine.torch_version()
    needs = [
        Need(name="torch", ok=torch is not None, detail=torch or "none", remedy="install torch")
    ]
    try:
        target = HostTarget()
    except ToolchainMissing as error:
        needs.append(Need(name="host target", ok=False, detail=str(error)))
        return _health("host", needs)
    try:
        needs += [Need(**vars(capability)) for capability in target.capabilities()]
    finally:
        target.close()
    return _health("host", needs)


def _cuda() -> TargetHealth:
    from musaagent.tools.cuda.target import CudaTarget

    target = CudaTarget()
    try:
        needs = [Need(**vars(capability)) for capability in target.capabilities()]
    finally:
        target.close()
    return _health("cuda", needs)


def _musa() -> TargetHealth:
    """Ready means that something can run: a card and torch_musa count as required here."""
    from musaagent.tools.musa import health
    from musaagent.tools.musa.target import UNTRIED, MusaTarget

    target = MusaTarget()
    try:
        found = target.capabilities()
    finally:
        target.close()
    needs = [
        Need(**vars(c) | {"required": c.required or c.name in (health.CARD, health.TORCH)})
        for c in found
    ]
    return _health("musa", needs).model_copy(update={"remark": UNTRIED})


def _health(name: str, needs: list[Need]) -> TargetHealth:
    ready = all(need.ok for need in needs if need.required)
    return TargetHealth(name=name, ready=ready, needs=tuple(needs))
