"""The reference processes of a cuda target: of each task one on the CPU, and one on each card."""

from collections.abc import Callable
from typing import Protocol

from musaagent.tools import reference_session
from musaagent.tools.cuda.devices import Gpu
from musaagent.tools.cuda.reference import GpuReference, close_all, opened
from musaagent.tools.cuda.shared import Shared
from musaagent.tools.jail import JailSpec
from musaagent.tools.reference_session import ReferenceSession
from musaagent.tools.task import Task
from musaagent.tools.zygote import Child


class Starter(Protocol):
    """Starts a jailed process that answers for a task."""

    def __call__(self, entry: str, spec: JailSpec) -> Child: ...


class References:
    """Thread-safe. Sessions are shared by all candidates of a task; a lost one is made again."""

    def __init__(self, start_plain: Starter, start_on_card: Callable[[], Child]) -> None:
        self._start_plain = start_plain
        self._start_on_card = start_on_card
        self._sessions: Shared[tuple[str, str], ReferenceSession] = Shared()

    def plain(self, task: Task, scale: str) -> ReferenceSession:
        """On the CPU: for tracing (at scale `run`), and for inputs of a checked run."""

        def make() -> ReferenceSession:
            spec = JailSpec(memory_mb=8192, cpu_s=1200)
            child = self._start_plain(reference_session.WORKER_ENTRY, spec)
            return opened(ReferenceSession(child, task), scale, None)

        return self._once(task, f"plan {scale}", make)

    def on_card(
        self, task: Task, gpu: Gpu, name: str, sizes: Callable[[], dict[str, int] | None]
    ) -> GpuReference:
        """At `sizes`, which are asked for once under that name; all sizes share a process."""
        card = _card(gpu)

        def start() -> ReferenceSession:
            return GpuReference(self._start_on_card(), task, gpu)

        def make() -> ReferenceSession:
            overrides = sizes()
            process = self._once(task, card, start)
            assert isinstance(process, GpuReference)
            return opened(process.at(name), "own", overrides)

        found = self._once(task, f"{card} {name}", make)
        assert isinstance(found, GpuReference)
        return found

    def drop(self, task: Task, gpu: Gpu) -> None:
        """What is on that card, at all sizes."""
        card = _card(gpu)
        self._close(lambda key: key[0] == task.hash and key[1].startswith(card))

    def forget(self, task: Task) -> None:
        self._close(lambda key: key[0] == task.hash)

    def close(self) -> None:
        self._close(lambda key: True)

    def _once(
        self, task: Task, name: str, make: Callable[[], ReferenceSession]
    ) -> ReferenceSession:
        return self._sessions.get((task.hash, name), make, usable=lambda made: made.alive)

    def _close(self, wanted: Callable[[tuple[str, str]], bool]) -> None:
        close_all(self._sessions.take(wanted))


def _card(gpu: Gpu) -> str:
    return f"gpu {gpu.info.uuid}"
