"""The parent's side of the reference worker: inputs, weights and expected values of one task."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from musaagent.errors import InfraError, SandboxLost, TaskError
from musaagent.tools.arrays import value_from_wire
from musaagent.tools.compare import Value
from musaagent.tools.opgraph import Plan
from musaagent.tools.task import Task
from musaagent.tools.trees import Tree
from musaagent.tools.wire import WireError
from musaagent.tools.zygote import Child

WORKER_ENTRY = "musaagent.tools.worker_reference:main"
PLAN_TIMEOUT_S = 240.0
RUN_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Sent:
    """A tree of values as it goes on to the candidate's process, undecoded."""

    tree: Tree
    metas: list[dict[str, Any]]
    blobs: list[bytes]
    state_names: list[str]
    """Names of the trailing tensors that are the module's state (construct only)."""


@dataclass(frozen=True)
class Expected:
    """What the reference returned for the inputs drawn last."""

    tree: Tree
    native: list[Value]
    exact: list[np.ndarray | None]
    """float64 values, or None where the float64 run is not to be had."""
    reference: str
    buffers: dict[str, Value]
    changed_inputs: list[int]


class ReferenceSession:
    """One jailed process that holds the task's module at one scale."""

    def __init__(self, child: Child, task: Task) -> None:
        self.child = child
        self.task = task
        self.scale = ""
        self.shapes: tuple[str, ...] = ()
        self.overrides: dict[str, int] = {}
        self.resized = False
        """Whether other sizes than the batch are not the task's own."""
        self._turn = threading.Lock()

    def open(self, scale: str, overrides: dict[str, int] | None = None) -> None:
        """Load the task at `scale` (`own`, `run`, `check`), or at known overrides of its sizes.

        Raises TaskError.
        """
        header = {
            "op": "open",
            "source": self.task.source,
            "name": self.task.name,
            "scale": scale,
            "overrides": overrides,
        }
        answer, _ = self._ask(header, PLAN_TIMEOUT_S)
        self.scale = scale
        self.shapes = tuple(answer["shapes"])
        self.overrides = dict(answer["overrides"])
        self.resized = bool(answer["resized"])

    def scaling(self, scale: str) -> dict[str, int]:
        """The size constants that another scale of the task changes."""
        answer, _ = self._ask({"op": "scaling", "scale": scale}, PLAN_TIMEOUT_S)
        return dict(answer["overrides"])

    def lane(self, name: str) -> dict[str, int] | None:
        """The size constants that a lane of other sizes changes; None where there is no such."""
        answer, _ = self._ask({"op": "lane", "lane": name}, PLAN_TIMEOUT_S)
        found = answer["overrides"]
        return None if found is None else dict(found)

    @property
    def alive(self) -> bool:
        return self.child.exit is None

    def plan(self) -> Plan:
        """Trace and measure the task."""
        answer, _ = self._ask({"op": "plan"}, PLAN_TIMEOUT_S)
        return Plan.model_validate(answer["plan"])

    def own(self) -> dict[str, Any]:
        """Trees and metas of the init inputs and inputs at the task's own sizes, no values."""
        answer, _ = self._ask({"op": "own"}, RUN_TIMEOUT_S)
        return {key: answer[key] for key in ("init", "init_metas", "inputs", "inputs_metas")}

    def construct(self, seed: int) -> Sent:
        """Init inputs and the state of a module that was built with `seed`."""
        answer, blobs = self._ask({"op": "construct", "seed": seed}, RUN_TIMEOUT_S)
        return Sent(answer["tree"], answer["tensors"], blobs, answer["state_names"])

    def inputs(self, seed: int) -> Sent:
        """Inputs of forward, drawn with `seed`."""
        answer, blobs = self._ask({"op": "inputs", "seed": seed, "stress": ""}, RUN_TIMEOUT_S)
        return Sent(answer["tree"], answer["tensors"], blobs, [])

    def stressed(self, seed: int, lane: str) -> Sent | None:
        """Inputs changed as a lane of `stress` says; None where it changes nothing."""
        header = {"op": "inputs", "seed": seed, "stress": lane}
        answer, blobs = self._ask(header, RUN_TIMEOUT_S)
        if not answer["applies"]:
            return None
        return Sent(answer["tree"], answer["tensors"], blobs, [])

    def restate(self, seed: int) -> Sent | None:
        """Give the module other weights; the whole state, or None where it has no weights."""
        answer, blobs = self._ask({"op": "restate", "seed": seed}, RUN_TIMEOUT_S)
        if not answer["applies"]:
            return None
        return Sent({}, answer["tensors"], blobs, answer["state_names"])

    def expected(self, seed: int) -> Expected:
        """Run the reference on the inputs drawn last, in its own dtype and in float64."""
        answer, blobs = self._ask({"op": "expected", "seed": seed}, RUN_TIMEOUT_S)
        metas, outputs = answer["tensors"], int(answer["outputs"])
        values = [
            value_from_wire(f"output {i}", meta, blob)
            for i, (meta, blob) in enumerate(zip(metas, blobs, strict=True))
        ]
        native, rest = values[:outputs], values[outputs:]
        exact: list[np.ndarray | None] = [None] * outputs
        if answer["has_exact"]:
            exact = [value.array for value in rest[:outputs]]
            rest = rest[outputs:]
        names = [f"buffer {name}" for name in answer["buffers"]]
        buffers = {
            name.removeprefix("buffer "): Value(name, value.dtype, value.array)
            for name, value in zip(names, rest, strict=True)
        }
        return Expected(
            answer["tree"], native, exact, answer["reference"], buffers, answer["changed_inputs"]
        )

    def _ask(
        self, header: dict[str, Any], timeout_s: float, blobs: Sequence[bytes] = ()
    ) -> tuple[dict[str, Any], list[bytes]]:
        doing = header["op"]
        try:
            with self._turn:
                self.child.channel.send(header, blobs)
                answer, out = self.child.channel.recv(timeout_s)
        except TimeoutError:
            self.child.kill()
            raise InfraError(
                f"{self.task.path}: the reference was still busy after {timeout_s:g} s ({doing})"
            ) from None
        except (WireError, OSError, EOFError) as error:
            self.child.wait(2.0)
            if self.child.memory_exceeded:
                raise InfraError(
                    f"{self.task.path}: the reference needs more memory than the limit ({doing})"
                ) from None
            tail = self.child.stderr_tail.strip().splitlines()[-1:]
            raise SandboxLost(
                f"{self.task.path}: the reference process was lost ({doing}): {error}"
                + (f"; {tail[0]}" if tail else "")
            ) from None
        if not answer["ok"]:
            raise TaskError(f"{self.task.path}: {answer['error']}")
        return answer, out

    def close(self) -> None:
        self.child.kill()
