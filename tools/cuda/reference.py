"""The parent's side of the reference worker on a GPU: expected values and PyTorch's times."""

import contextlib
from collections.abc import Iterable
from typing import Any

from musaagent.errors import SandboxLost
from musaagent.tools.cuda.devices import Gpu
from musaagent.tools.reference_session import ReferenceSession
from musaagent.tools.task import Task
from musaagent.tools.zygote import Child

WORKER_ENTRY = "musaagent.tools.cuda.worker_reference:main"
BASELINE_TIMEOUT_S = 300.0
_ON_GPU = frozenset({"open", "expected", "keep_inputs", "baseline"})


class GpuReference(ReferenceSession):
    """One process that holds the task's module on one card."""

    def __init__(self, child: Child, task: Task, gpu: Gpu) -> None:
        super().__init__(child, task)
        self.gpu = gpu

    def keep_inputs(self) -> None:
        """The inputs drawn last become one more set for timing."""
        self._ask({"op": "keep_inputs"}, BASELINE_TIMEOUT_S)

    def baseline(self, name: str, sets: int, *, fresh: bool) -> dict[str, Any]:
        """Make and warm up one baseline over the last `sets` kept inputs."""
        header = {
            "op": "baseline",
            "name": name,
            "sets": sets,
            "fresh": fresh,
            "warm_up": 3,
            "tf32": False,
        }
        return self._ask(header, BASELINE_TIMEOUT_S)[0]

    def time(self, header: dict[str, Any]) -> dict[str, Any]:
        return self._ask(header, BASELINE_TIMEOUT_S)[0]

    def _ask(self, header: dict[str, Any], timeout_s: float) -> tuple[dict[str, Any], list[bytes]]:
        header = {"gpu": self.gpu.info.uuid, **header}
        if header["op"] == "time":
            with self.gpu.turn():
                return super()._ask(header, timeout_s)
        with self.gpu.share() if header["op"] in _ON_GPU else contextlib.nullcontext():
            return super()._ask(header, timeout_s)


def opened(
    session: ReferenceSession, scale: str, overrides: dict[str, int] | None
) -> ReferenceSession:
    """The session with its task loaded; closed where that fails."""
    try:
        session.open(scale, overrides)
    except BaseException:
        session.close()
        raise
    return session


def close_all(sessions: Iterable[ReferenceSession]) -> None:
    for session in sessions:
        try:
            session.close()
        except SandboxLost:
            continue
