"""The NVIDIA GPUs of this machine, and who may use each one when.

Nothing here makes a CUDA context: workers are forked from processes that must never have one.
"""

import contextlib
import fcntl
import functools
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from musaagent.tools.host.cache import default_cache_dir

_QUERY = "index,uuid,name,compute_cap,memory.total,driver_version"
_TOOLS = 3
_SEATS = 8
_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")


@dataclass(frozen=True)
class GpuInfo:
    """One card, as nvidia-smi names it."""

    index: int
    uuid: str
    name: str
    arch: str
    """`sm_90`."""
    memory_mb: int
    driver: str


@functools.cache
def find_gpus() -> tuple[GpuInfo, ...]:
    """All cards that CUDA_VISIBLE_DEVICES leaves; empty without a driver."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    try:
        done = subprocess.run(
            [tool, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    if done.returncode != 0:
        return ()
    return visible(parse_gpus(done.stdout), os.environ.get("CUDA_VISIBLE_DEVICES"))


def parse_gpus(text: str) -> tuple[GpuInfo, ...]:
    """nvidia-smi's csv; lines that are no card (an error text) are left out."""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 6 or not fields[0].isdigit():
            continue
        index, uuid, name, capability, memory, driver = fields
        arch = "sm_" + capability.replace(".", "")
        memory_mb = int(float(memory)) if memory.replace(".", "").isdigit() else 0
        found.append(GpuInfo(int(index), uuid, name, arch, memory_mb, driver))
    return tuple(found)


def visible(gpus: tuple[GpuInfo, ...], allowed: str | None) -> tuple[GpuInfo, ...]:
    """Those that CUDA_VISIBLE_DEVICES names, in its order."""
    if allowed is None:
        return gpus
    chosen = []
    for word in (w.strip() for w in allowed.split(",")):
        match = [g for g in gpus if word and (str(g.index) == word or g.uuid.startswith(word))]
        if not match:
            break
        chosen.append(match[0])
    return tuple(chosen)


def device_files() -> tuple[str, ...]:
    """What a jail needs of /dev for CUDA."""
    cards = sorted(p for p in Path("/dev").glob("nvidia[0-9]*"))
    nodes = [Path("/dev", name) for name in _NODES]
    caps = sorted(Path("/dev/nvidia-caps").glob("*")) if Path("/dev/nvidia-caps").is_dir() else []
    return tuple(str(p) for p in (*cards, *nodes, *caps) if p.exists())


class Gpu:
    """One card: who may run on it when, and a count of who holds memory there.

    Candidates run beside each other (`share`); whoever takes time is alone (`turn`). Both hold
    between threads and, by files, between processes; nobody overtakes one who waits for a turn.
    """

    def __init__(self, info: GpuInfo, room: threading.Condition | None = None) -> None:
        self.info = info
        self._mine = threading.local()
        self._room = room or threading.Condition()
        self._waiting = 0
        self.tool_slots = threading.Semaphore(_TOOLS)
        """So many programs under a tool may be loaded at once, to take a turn each."""
        self.seats = threading.Semaphore(_SEATS)
        """So many candidates are verified at a time: processes on a card wait for each other, and
        the driver makes and ends one after the other.
        """
        self._tenants = 0
        self._closed_by: int | None = None

    @property
    def tenants(self) -> int:
        return self._tenants

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Nobody else runs or times anything on this card meanwhile."""
        with self._held(fcntl.LOCK_EX):
            yield

    @contextlib.contextmanager
    def share(self) -> Iterator[None]:
        """Others may run meanwhile, but nobody takes time."""
        with self._held(fcntl.LOCK_SH):
            yield

    @contextlib.contextmanager
    def large(self) -> Iterator[None]:
        """Nobody else has gigabytes of inputs on this card meanwhile. Comes before any turn."""
        lock = _lock_file(f"large-{self.info.uuid}", fcntl.LOCK_EX)
        try:
            yield
        finally:
            os.close(lock)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """For what this thread does without the card in the middle of its share, as a build."""
        kept = getattr(self._mine, "lock", None)
        if kept is None or kept.mode != fcntl.LOCK_SH:
            yield
            return
        kept.release()
        try:
            yield
        finally:
            kept.take()

    @contextlib.contextmanager
    def _held(self, mode: int) -> Iterator[None]:
        """A thread that has its turn has every share too."""
        if getattr(self._mine, "lock", None) is not None:
            assert mode == fcntl.LOCK_SH or self._mine.lock.mode == fcntl.LOCK_EX
            yield
            return
        self._mine.lock = _CardLock(self.info.uuid, mode)
        try:
            self._mine.lock.take()
            yield
        finally:
            self._mine.lock.release()
            self._mine.lock = None

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no candidate is on the card, and let in only this thread's.

        From the call on nobody new comes to the card (`GpuPool.take`); who is there may still open
        further workers, so that it ends.
        """
        me = threading.get_ident()
        with self._room:
            self._waiting += 1
            try:
                self._room.wait_for(lambda: self._tenants == 0 and self._closed_by is None)
                self._closed_by = me
            finally:
                self._waiting -= 1
                self._room.notify_all()
        try:
            yield
        finally:
            with self._room:
                self._closed_by = None
                self._room.notify_all()

    @property
    def takes_guests(self) -> bool:
        """Nobody has the card alone, or waits to."""
        return self._waiting == 0 and self._closed_by is None

    def enter(self, thread: int | None = None) -> None:
        """For a process of that thread's verification, or of the caller's."""
        me = threading.get_ident() if thread is None else thread
        with self._room:
            self._room.wait_for(lambda: self._closed_by in (None, me))
            self._tenants += 1

    def leave(self) -> None:
        with self._room:
            self._tenants -= 1
            self._room.notify_all()


class _CardLock:
    """A file lock that is shared or not; a second file is the door that all pass in order."""

    def __init__(self, uuid: str, mode: int) -> None:
        self.mode = mode
        self._uuid = uuid
        self._open: list[int] = []

    def take(self) -> None:
        door = _lock_file(f"door-{self._uuid}", fcntl.LOCK_EX)
        try:
            self._open.append(_lock_file(f"gpu-{self._uuid}", self.mode))
        except BaseException:
            os.close(door)
            raise
        if self.mode == fcntl.LOCK_EX:
            self._open.append(door)
        else:
            os.close(door)

    def release(self) -> None:
        while self._open:
            os.close(self._open.pop())


def _lock_file(name: str, mode: int) -> int:
    folder = default_cache_dir() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class GpuPool:
    """All cards; a candidate goes to the one with the fewest others."""

    def __init__(self, gpus: tuple[GpuInfo, ...]) -> None:
        self._room = threading.Condition()
        self.gpus = tuple(Gpu(info, self._room) for info in gpus)

    def take(self) -> Gpu:
        """Waits for a card that is not held alone. The caller must call `leave()` on it."""
        with self._room:
            self._room.wait_for(lambda: any(gpu.takes_guests for gpu in self.gpus))
            gpu = min((g for g in self.gpus if g.takes_guests), key=lambda g: g.tenants)
            gpu.enter()
            return gpu
