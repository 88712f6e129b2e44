"""The parent's side of a candidate on a GPU: turns on the card, and the kernels that ran."""

import contextlib
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from musaagent.tools.cuda.devices import Gpu
from musaagent.tools.cuda.shares import DeviceTime, device_time
from musaagent.tools.host.sources import SourceSet, pieces
from musaagent.tools.ptxas import base_name, demangle
from musaagent.tools.results import Build, Launch
from musaagent.tools.session import (
    CandidateFailure,
    CandidateSession,
    Evidence,
    RunnerSettings,
)
from musaagent.tools.zygote import Child

WORKER_ENTRY = "musaagent.tools.cuda.worker:main"
_ON_GPU = frozenset({"warm", "construct", "run", "time_setup", "sample"})
_TIMED = frozenset({"time", "profile"})
# Kernels of libraries that do whole operations; ATen's own are seen by the operator record.
_LIBRARY = re.compile(
    r"cublas|cudnn|cutlass|cusparse|cufft|xmma|gemm|gemv|triton_|splitK|flash_|cub::|thrust::", re.I
)
_WATCHED_SHARE = 0.34
# Every later call fails with the same words.
_FATAL = re.compile(
    r"illegal (?:memory access|address|instruction|barrier)|misaligned address|device-side assert"
    r"|unspecified launch failure|launch timed out|hardware stack error|invalid program counter",
    re.I,
)


@dataclass
class KernelEvidence(Evidence):
    """What ran on the device; runs that were not watched count as launches."""

    runs: int = 0
    device_time: DeviceTime | None = None
    """Of the first run that was watched."""
    unseen: str = ""
    """Why no kernels were seen, where the profiler does not work here."""

    @property
    def launch_count(self) -> int:
        return self.runs


class CudaSession(CandidateSession):
    """`gpu` None: a worker that only imports, for its sources."""

    def __init__(
        self,
        child: Child,
        settings: RunnerSettings,
        build: Callable[[SourceSet], Build],
        gpu: Gpu | None,
        *,
        tf32: bool = False,
    ) -> None:
        def built(sources: SourceSet) -> Build:
            """A build inside of __init__ or forward lets others have the card meanwhile."""
            with gpu.away() if gpu else contextlib.nullcontext():
                return build(sources)

        super().__init__(child, settings, built, lambda finding, raw: finding)
        self.gpu = gpu
        self.evidence: KernelEvidence = KernelEvidence()
        self._tf32 = tf32
        self._draw = random.SystemRandom()

    def setup(self) -> None:
        self.request(
            {
                "op": "setup",
                "runtime": self.settings.runtime_library,
                "gpu": self.gpu.info.uuid if self.gpu else "",
                "tf32": self._tf32,
            },
            doing="start",
        )

    def order_fields(self, order: int, seed: int) -> dict[str, Any]:
        """A GPU orders its threads by itself; instead the first run and some others are watched."""
        watched = self.evidence.runs == 0 or self._draw.random() < _WATCHED_SHARE
        return {"watch_kernels": watched and not self.evidence.unseen}

    def request(
        self,
        header: dict[str, Any],
        blobs: Sequence[Any] = (),
        *,
        doing: str,
        timeout_s: float | None = None,
        descriptors: Sequence[int] = (),
    ) -> tuple[dict[str, Any], list[bytes]]:
        with self._lock_for(header["op"]):
            answer, out = super().request(
                header, blobs, doing=doing, timeout_s=timeout_s, descriptors=descriptors
            )
        if header["op"] == "run":
            own = self._note_kernels(answer)
            if header.get("mode") == "no_kernels":
                split = all(build.level == "split" for _, build in self.builds)
                self.ran_all_the_same = not split if own is None else own > 0
        return answer, out

    def _lock_for(self, op: str) -> contextlib.AbstractContextManager[None]:
        if self.gpu is not None and op in _TIMED:
            return self.gpu.turn()
        return self.gpu.share() if self.gpu and op in _ON_GPU else contextlib.nullcontext()

    def _note_kernels(self, answer: dict[str, Any]) -> int | None:
        """How many kernels of the candidate's ran; None where nobody looked."""
        kernels, unseen = answer.get("kernels"), str(answer.get("kernels_unseen") or "")
        evidence = self.evidence
        if unseen:
            evidence.unseen = unseen
        if not isinstance(kernels, list) or unseen:
            evidence.runs += 1
            return None
        names = self.own_kernels()
        own, foreign = split_kernels(kernels, names)
        if evidence.device_time is None:
            evidence.device_time = device_time(kernels, names, poisoned=True)
        count = sum(launch.count for launch in own)
        evidence.runs += count
        for launch in own:
            key = (launch.kernel, launch.grid, launch.block, launch.shared_bytes)
            evidence.launches.setdefault(key, launch)
        if foreign:
            answer["operators"] = [*(answer.get("operators") or []), *foreign]
        return count

    def _raised(self, doing: str, error: Any) -> CandidateFailure:
        """After a fault of the device the process is of no more use, though it lives on."""
        failure = super()._raised(doing, error)
        failure.raised = failure.raised and not _FATAL.search(failure.message)
        return failure

    def own_kernels(self) -> frozenset[str]:
        """Plain names of the kernels in the candidate's sources."""
        names = {base_name(r.kernel) for _, build in self.builds for r in build.resources}
        for sources, _ in self.builds:
            for part in pieces(sources):
                names |= {f.name for f in part.source.outline.functions if f.kernel}
        return frozenset(names)

    def _close(self) -> None:
        try:
            super()._close()
        finally:
            if self.gpu is not None:
                self.gpu.leave()


def split_kernels(
    kernels: Sequence[Any], own: frozenset[str]
) -> tuple[list[Launch], tuple[str, ...]]:
    """The candidate's launches, and names of library kernels that did work for it."""
    launches, foreign = [], []
    for raw in kernels:
        try:
            name = demangle([str(raw["kernel"])])[0]
            launch = Launch(
                kernel=name,
                grid=tuple(raw["grid"]),
                block=tuple(raw["block"]),
                shared_bytes=int(raw["shared_bytes"]),
                count=int(raw["count"]),
            )
        except (KeyError, TypeError, ValueError):
            continue
        if base_name(name) in own:
            launches.append(launch)
        elif _LIBRARY.search(name):
            foreign.append(f"library.kernel {base_name(name)}")
    return launches, tuple(dict.fromkeys(foreign))
