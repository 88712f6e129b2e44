"""What the verifier borrows of the cuda target: one card, or none for building alone."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from musaagent.errors import TaskError, ToolchainMissing
from musaagent.tools.cuda.devices import Gpu
from musaagent.tools.cuda.session import CudaSession
from musaagent.tools.cuda.shares import DeviceTime
from musaagent.tools.cuda.sizes import sizes_for
from musaagent.tools.host.sources import SourceSet
from musaagent.tools.lanes import OWN
from musaagent.tools.nvcc import RealCompile
from musaagent.tools.reference_session import ReferenceSession
from musaagent.tools.results import Build
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import Task

if TYPE_CHECKING:
    from musaagent.tools.cuda.target import CudaTarget

BUILD_TIMEOUT_S = 900.0


class GpuBench:
    """What the verifier borrows: one card of the target."""

    def __init__(self, target: "CudaTarget", gpu: Gpu) -> None:
        self.target = target
        self.gpu = gpu
        self._thread = threading.get_ident()
        """Whose verification this is: what it starts in other threads is its own too."""
        self._sessions: list[CudaSession] = []
        self._options = VerifyOptions()

    runs_dry = False

    @property
    def modes(self) -> frozenset[str]:
        """Without a build there are no launches to hold back."""
        known = {"failing", "every_thread", "integers"}
        if self.builds and self.target.holds_launches:
            known.add("no_kernels")
        return frozenset(known)

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def unseen(self) -> str:
        return next((s.evidence.unseen for s in self._sessions if s.evidence.unseen), "")

    @property
    def device_time(self) -> DeviceTime | None:
        """Of the first run of a candidate that was watched."""
        found = (s.evidence.device_time for s in self._sessions)
        return next((time for time in found if time is not None), None)

    @property
    def builds(self) -> list[tuple[SourceSet, Build]]:
        """Of the last session that built, in the order in which the candidate asked for them."""
        return next((list(s.builds) for s in reversed(self._sessions) if s.builds), [])

    @property
    def own_kernels(self) -> frozenset[str]:
        """Plain names of the candidate's kernels, as far as it came."""
        return frozenset().union(*(s.own_kernels() for s in self._sessions))

    def open_candidate(self, options: VerifyOptions, *, checked: bool) -> CudaSession:
        self._options = options
        session = self.target.open_session(options, self.gpu, self._thread)
        self._sessions.append(session)
        return session

    def reference(self, task: Task, scale: str) -> ReferenceSession:
        few = sizes_for(self.target, task, scale) if scale == "check" else None
        return self.target.gpu_reference(task, self.gpu, few or None)

    def release(self, reference: ReferenceSession) -> None:
        """It stays: verifications of one task take turns on a card."""

    def other_sizes(self, task: Task, lane: str) -> ReferenceSession | None:
        """Small ones, as a CPU runs them. The task's own run here anyway, unless reduced."""
        if lane in OWN and not self.reference(task, "run").overrides:
            return None
        overrides = sizes_for(self.target, task, lane)
        if overrides is None:
            return None
        try:
            return self.target.gpu_reference(task, self.gpu, overrides)
        except TaskError:
            return None  # its own code fails there

    def real_compile(self, sources: SourceSet) -> RealCompile:
        return self.target.figures(sources, *self._how())

    def prebuild(self, sources: SourceSet, *, checked: bool) -> Build:
        return self.target.build_once(sources, *self._how())

    def _how(self) -> tuple[float, str]:
        """Seconds and architecture for a build, by the options of the candidate opened last."""
        seconds = self._options.build_timeout_s or BUILD_TIMEOUT_S
        return seconds, self.target.arch_for(self._options)

    def submit(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> "Future[Any]":
        return self.target.submit(call, *args, **kwargs)


class ReducedBench(GpuBench):
    """A card, with the task at other sizes than its own."""

    def __init__(self, target: "CudaTarget", gpu: Gpu, overrides: dict[str, int]) -> None:
        super().__init__(target, gpu)
        self._overrides = overrides

    def reference(self, task: Task, scale: str) -> ReferenceSession:
        return self.target.gpu_reference(task, self.gpu, self._overrides)


class CompileBench(GpuBench):
    """For building alone: its workers see no card."""

    def __init__(self, target: "CudaTarget") -> None:
        self.target = target
        self._sessions = []
        self._options = VerifyOptions()

    def open_candidate(self, options: VerifyOptions, *, checked: bool) -> CudaSession:
        return self.target.open_session(options, None)

    def reference(self, task: Task, scale: str) -> ReferenceSession:
        raise ToolchainMissing("there is no NVIDIA GPU here")
