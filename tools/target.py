"""The protocol that every target fulfils, and the values that go in."""

from dataclasses import dataclass, field
from typing import Literal, Protocol

from musaagent.tools.candidate import Candidate
from musaagent.tools.opgraph import Plan
from musaagent.tools.results import Build, Profile, Verdict
from musaagent.tools.task import Task

TargetName = Literal["host", "cuda", "musa"]


@dataclass(frozen=True)
class Capability:
    """One thing that a target needs, and whether this machine has it."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    required: bool = True


BASELINES = ("eager", "compile", "graph")
"""PyTorch's own ways: eager, torch.compile, and a CUDA graph of eager."""


def checks_by_default(target: str) -> bool:
    """Whether `solve` and `eval` make the watched run unasked: on a GPU it takes far longer."""
    return target != "cuda"


@dataclass(frozen=True)
class VerifyOptions:
    seed: int | None = None
    """Base of all random draws; None draws a secret one."""
    trials: int = 5
    check: bool = False
    """Also make the watched run on small shapes."""
    warp_size: Literal[32, 128] = 32
    arch: str = ""
    """A Moore Threads architecture, as `mp_22`: candidates are checked for what it lacks."""
    timeout_s: float = 60.0
    """Wall limit of one candidate run, building not counted."""
    build_timeout_s: float | None = None
    """Wall limit of one build; None: the target's own."""
    memory_mb: int = 8192
    atol: float | None = None
    rtol: float | None = None
    allow: tuple[str, ...] = ()
    """Rules that are relaxed: `vendor-libs` (`musaagent.tools.legality`)."""
    probes: bool = True
    """After the trials: runs without kernels, stress inputs, other weights and sizes."""
    timing: bool = True
    """Take the time of what passed, on targets that have a clock."""
    baselines: tuple[str, ...] = BASELINES
    """What its time is taken beside."""
    tags: tuple[str, ...] = field(default=())


class Target(Protocol):
    """Where candidates are built and run. Candidate failures are values, never exceptions."""

    name: TargetName

    def capabilities(self) -> tuple[Capability, ...]:
        """What this machine has for the target; all required ones must be ok to run."""
        ...

    def start_warm_up(self) -> object:
        """Begin, without waiting, what every candidate needs; who needs a part waits for it."""
        ...

    def plan(self, task: Task) -> Plan:
        """Trace and measure the task. Raises TaskError where its own code fails."""
        ...

    def build(self, task: Task, candidate: Candidate, options: VerifyOptions) -> Build:
        """Import the candidate and construct ModelNew with every compile served; run nothing."""
        ...

    def verify(self, task: Task, candidate: Candidate, options: VerifyOptions) -> Verdict: ...

    def profile(self, task: Task, candidate: Candidate, options: VerifyOptions) -> Profile: ...

    def forget(self, task: Task) -> None:
        """Stop what is kept running for a task; the task may be asked for again."""
        ...

    def close(self) -> None:
        """Stop worker processes."""
        ...
