"""The parent's side of the reference worker on a GPU: expected values and PyTorch's times."""

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from musaagent.errors import SandboxLost
from musaagent.tools.arrays import value_from_wire
from musaagent.tools.compare import Sample, Value
from musaagent.tools.cuda.devices import Gpu
from musaagent.tools.cuda.regions import passable
from musaagent.tools.reference_session import Expected, ReferenceSession
from musaagent.tools.task import Task
from musaagent.tools.trees import Tree
from musaagent.tools.wire import WireError
from musaagent.tools.zygote import Child

WORKER_ENTRY = "musaagent.tools.cuda.worker_reference:main"
BASELINE_TIMEOUT_S = 300.0
MOST_SENT_BYTES = 4 << 30
"""Inputs of more than this are not sent through sockets."""
_DESCRIPTORS_TIMEOUT_S = 30.0
_ON_GPU = frozenset(
    "open expected timing_inputs pass_on use_set expected_at forget baseline".split()
)


@dataclass(frozen=True)
class PassedOn:
    """One input set on its way to the candidate: memory behind a file, or its values."""

    tree: Tree
    metas: list[dict[str, Any]]
    nbytes: int
    shared: int
    """Bytes of the shared region; 0: the values are in `blobs`."""
    where: str
    """`card`, `host` memory, or '' for blobs."""
    descriptor: int
    """Of the region, for `close`; -1: none."""
    blobs: list[bytes]
    why_not: str
    """Why the ways that were tried first do not work."""

    @property
    def nowhere(self) -> bool:
        """Too large to be sent, and not shared."""
        return not self.shared and self.nbytes > 0 and not self.blobs

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


class GpuReference(ReferenceSession):
    """One process that holds the task's module on one card, at the sizes of one `room` of it.

    A context on a card costs more than a verification's runs do, so all sizes share one.
    """

    def __init__(self, child: Child, task: Task, gpu: Gpu, room: str = "") -> None:
        super().__init__(child, task)
        self.gpu = gpu
        self.room = room

    def at(self, room: str) -> "GpuReference":
        """The same process, for other sizes."""
        session = GpuReference(self.child, self.task, self.gpu, room)
        session._turn = self._turn
        return session

    def close(self) -> None:
        """The process, if this is not one of its rooms."""
        if not self.room:
            super().close()

    def timing_inputs(self, seed: int, *, first: bool, ways: Sequence[str]) -> PassedOn:
        """Draw one more set for timing (`first`: instead of all that there are).

        `ways`: `card`, `host`, in the order in which they are tried; then blobs.
        """
        return self._passed_on({"op": "timing_inputs", "seed": seed, "first": first}, ways)

    def pass_on(self, ways: Sequence[str]) -> PassedOn:
        """The set drawn last once more."""
        return self._passed_on({"op": "pass_on"}, ways)

    def _passed_on(self, header: dict[str, Any], ways: Sequence[str]) -> PassedOn:
        header |= {"ways": list(ways), "most_sent": MOST_SENT_BYTES}
        answer, blobs = self._ask(header, BASELINE_TIMEOUT_S)
        shared, descriptor = int(answer["shared"]), -1
        if shared:
            descriptor = self._descriptor()
        return PassedOn(
            answer["tree"],
            answer["tensors"],
            int(answer["nbytes"]),
            shared,
            str(answer["where"]),
            descriptor,
            blobs,
            str(answer["unshared"]),
        )

    def _descriptor(self) -> int:
        try:
            descriptor = self.child.channel.recv_descriptors(1, _DESCRIPTORS_TIMEOUT_S)[0]
        except (WireError, TimeoutError) as error:
            self.child.kill()
            raise SandboxLost(f"{self.task.path}: the reference sent no file: {error}") from None
        if not passable(descriptor):
            os.close(descriptor)
            raise SandboxLost(f"{self.task.path}: the reference sent a file that is no memory")
        return descriptor

    def use_set(self, index: int) -> None:
        """`expected` is for that set from now on; all others, and the baselines, are freed."""
        self._ask({"op": "use_set", "index": index}, BASELINE_TIMEOUT_S)

    def forget_timing(self) -> None:
        """Frees all that timing took of the card."""
        self._ask({"op": "forget"}, BASELINE_TIMEOUT_S)

    def expected_at(
        self, seed: int, counts: Sequence[int], places: Sequence[np.ndarray]
    ) -> tuple[Expected, list[dict[str, Any]]]:
        """Expected values at some flat indices of each output, and metas of the whole outputs.

        `counts` are the elements of the candidate's outputs: where the reference's differ there
        are no values.
        """
        header = {"op": "expected_at", "seed": seed, "counts": list(counts)}
        blobs = [np.ascontiguousarray(p, np.int64).tobytes() for p in places]
        answer, out = self._ask(header, BASELINE_TIMEOUT_S, blobs)
        values = [
            value_from_wire(f"output {i % max(len(places), 1)}", meta, blob)
            for i, (meta, blob) in enumerate(zip(answer["tensors"], out, strict=True))
        ]
        whole = answer["whole"]
        native = [
            Value(v.name, v.dtype, v.array, Sample(p, tuple(w["shape"]), *map(float, size)))
            for v, p, w, size in zip(values, places, whole, answer["sizes"], strict=False)
        ]
        exact: list[np.ndarray | None] = [None] * len(native)
        if answer["has_exact"]:
            exact = [value.array for value in values[len(native) :]]
        expected = Expected(
            answer["tree"], native, exact, answer["reference"], {}, answer["changed_inputs"]
        )
        return expected, whole

    def baseline(self, name: str, *, fresh: bool) -> dict[str, Any]:
        """Make and warm up one baseline over the sets that were drawn."""
        header = {
            "op": "baseline",
            "name": name,
            "fresh": fresh,
            "warm_up": 3,
            "tf32": False,
        }
        return self._ask(header, BASELINE_TIMEOUT_S)[0]

    def time(self, header: dict[str, Any]) -> dict[str, Any]:
        return self._ask(header, BASELINE_TIMEOUT_S)[0]

    def _ask(
        self, header: dict[str, Any], timeout_s: float, blobs: Sequence[bytes] = ()
    ) -> tuple[dict[str, Any], list[bytes]]:
        header = {"gpu": self.gpu.info.uuid, "room": self.room, **header}
        if header["op"] == "time":
            with self.gpu.turn():
                return super()._ask(header, timeout_s, blobs)
        with self.gpu.share() if header["op"] in _ON_GPU else contextlib.nullcontext():
            return super()._ask(header, timeout_s, blobs)


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
