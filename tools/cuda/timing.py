"""Takes the time of a passed candidate and of PyTorch's own ways, in turns, and judges the numbers.

The candidate and the baselines live in processes of their own. What is timed is device time between
two events, with the CPU ahead of the device on both sides; `clock` has one repetition.
"""

import random
import statistics
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from musaagent.errors import InfraError
from musaagent.tools.cuda.devices import Gpu
from musaagent.tools.cuda.peaks import floor_ms
from musaagent.tools.cuda.reference import GpuReference
from musaagent.tools.cuda.regions import CARD, HOST
from musaagent.tools.cuda.sampling import MOST_SENT_BYTES, Kept, judge_sample
from musaagent.tools.cuda.sampling import keep as keep_outputs
from musaagent.tools.cuda.session import CudaSession
from musaagent.tools.cuda.stats import latency, speedup
from musaagent.tools.cuda.timing_sets import send_sets
from musaagent.tools.gathered import seconds_of
from musaagent.tools.judge import Judgement, judge_run
from musaagent.tools.opgraph import Plan
from musaagent.tools.results import Status, Timing
from musaagent.tools.session import CandidateFailure
from musaagent.tools.target import BASELINES
from musaagent.tools.tolerance import ToleranceRule

PRECISION = "float32 products in float32 (TF32 off) on both sides"
_ROUNDS = 10
_MOST_PER_ROUND = 10
_ROUND_MS = 10.0
_WARM_UP = 5
_CACHE_BYTES = 64 << 20
_FLOOR_MARGIN = 0.9
_SIDE_STREAM_MS = 0.02
WAYS = (CARD, HOST)
"""How inputs are shared with the candidate's process, the best first."""


@dataclass
class _Series:
    """Times of one implementation, by round."""

    host_s: float = 0.0
    stream: list[list[float]] = field(default_factory=list)
    device: list[list[float]] = field(default_factory=list)

    @property
    def rest_ms(self) -> float:
        """What the device was still busy, or the CPU late, after the stream's end."""
        pairs = zip(self.stream, self.device, strict=True)
        return statistics.median(
            d - s for stream, device in pairs for s, d in zip(stream, device, strict=True)
        )


@dataclass
class _Clock:
    session: CudaSession
    reference: GpuReference
    gpu: Gpu
    draw: random.Random
    rule: ToleranceRule
    baselines: Sequence[str]
    ways: Sequence[str] = WAYS
    sets: int = 0
    missing: dict[str, str] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    kept: Kept | None = None
    judgement: Judgement | None = None
    judged: str = ""

    def phase(self, name: str) -> AbstractContextManager[None]:
        return seconds_of(self.phases, name)

    def prepare(self) -> dict[str, _Series]:
        """Fresh inputs in both processes; everything warm."""
        with self.phase("timing inputs"):
            sent = send_sets(
                self.session, self.reference, self.draw, ways=self.ways, warm_up=_WARM_UP
            )
        self.sets, self.ways = sent.count, sent.ways
        if sent.why_not:
            self.missing["shared memory"] = sent.why_not
        series = {"candidate": _Series(host_s=sent.host_s)}
        with self.phase("baselines"):
            for name in self.baselines:
                made = self.reference.baseline(name, fresh=name == self.baselines[0])
                if made["error"]:
                    self.missing[name] = made["error"]
                else:
                    series[name] = _Series(host_s=float(made["host_s"]))
        return series

    def take(self) -> dict[str, _Series]:
        """All rounds; one repetition of the candidate, which it cannot foresee, is judged."""
        series = self.prepare()
        with self.phase("clock"), self.gpu.turn():
            counts = {name: self._count(name, s) for name, s in series.items()}
            judged = self.draw.randrange(_ROUNDS)
            for index in range(_ROUNDS):
                names = list(series)
                self.draw.shuffle(names)
                for name in names:
                    keep = -1
                    if name == "candidate" and index == judged:
                        keep = self.draw.randrange(counts[name])
                    self._round(name, series[name], counts[name], index, keep)
        with self.phase("judge"):
            self._judge()
        return series

    def believed(self, floor: float | None, plan: Plan | None) -> tuple[dict[str, _Series], bool]:
        """All rounds, and whether the candidate was faster than possible, twice."""
        series = self.take()
        first = self.judgement
        if not _too_fast(series, floor, plan) or not (first is None or first.ok):
            return series, False
        series = self.take()  # once more, with inputs that nobody has seen
        if self.judgement is None:
            self.judgement = first
        return series, _too_fast(series, floor, plan)

    def _count(self, name: str, series: _Series) -> int:
        probe = _Series(host_s=series.host_s)
        self._round(name, probe, 2, 0, -1)
        once = max(min(probe.stream[0]), 1e-3)
        return max(1, min(_MOST_PER_ROUND, int(_ROUND_MS / once)))

    def _round(self, name: str, series: _Series, count: int, first: int, keep: int) -> None:
        header = {
            "op": "time",
            "name": name,
            "count": count,
            "first": first,
            "host_s": series.host_s,
            "keep": keep,
            "most_bytes": MOST_SENT_BYTES,
        }
        if name != "candidate":
            answer: dict[str, Any] = self.reference.time(header)
        else:
            answer, blobs = self.session.request(header, doing="run while it was timed")
            if keep >= 0:
                index = (first + keep) % self.sets
                self.kept = keep_outputs(self.session, index, answer, blobs, self.draw)
        series.stream.append(_times(answer["stream_ms"], count))
        series.device.append(_times(answer["device_ms"], count))

    def _judge(self) -> None:
        """After all rounds, when the baselines need no memory any more."""
        kept, self.kept = self.kept, None
        if kept is None:
            raise InfraError("no repetition was kept to be judged")
        self.reference.use_set(kept.index)
        seed = self.draw.getrandbits(48)
        if kept.whole:
            expected, whole = self.reference.expected_at(seed, kept.counts, kept.places)
            judged = judge_sample(kept, expected, whole, self.rule)
        else:
            expected = self.reference.expected(seed)
            judged = judge_run(kept.answer, kept.blobs, expected, self.rule, kernels_ran=1)
        if not expected.reference.endswith("random numbers"):
            self.judgement = judged
            self.judged = f"{kept.looked_at}, against {expected.reference}"


def _times(values: Any, count: int) -> list[float]:
    """The worker is not trusted to send numbers."""
    times = [float(v) for v in values] if isinstance(values, list) else []
    if len(times) != count or not all(0 < t < 1e7 for t in times):
        raise CandidateFailure(Status.RUNTIME_ERROR, "sent no valid times")
    return times


def take_timing(
    session: CudaSession,
    reference: GpuReference,
    gpu: Gpu,
    plan: Plan | None,
    draw: random.Random,
    rule: ToleranceRule,
    baselines: Sequence[str] = BASELINES,
    *,
    ways: Sequence[str] = WAYS,
    phases: dict[str, float] | None = None,
) -> tuple[Timing, Judgement | None]:
    """The timing, and what a run in the middle of it showed. Raises CandidateFailure, TooLarge.

    `ways`: how inputs may be shared; none: sockets. Seconds of its parts are added to `phases`.
    """
    clock = _Clock(session, reference, gpu, draw, rule, baselines, ways)
    if phases is not None:
        clock.phases = phases
    floor = None
    if plan is not None and not reference.overrides:
        floor = floor_ms(gpu.info.name, plan.least_bytes, plan.flops)
    series, suspect = clock.believed(floor, plan)
    flags: list[str] = []
    if suspect:
        flags.append(f"faster than the card's floor of {floor:.4g} ms, twice: check it by hand")
    times = series["candidate"].stream
    if side_stream(series):
        times = series["candidate"].device
        flags.append("work went on after its stream's end: timed to the end of the whole device")
    if reference.overrides:
        flags.append("timed at reduced shapes: the task's own are too large")
    names = [name for name in baselines if name in series]
    timing = Timing(
        device=gpu.info.name,
        candidate=latency([t for r in times for t in r], series["candidate"].host_s),
        baselines={
            n: latency([t for r in series[n].stream for t in r], series[n].host_s) for n in names
        },
        speedups=tuple(speedup(n, series[n].stream, times) for n in names),
        missing=clock.missing,
        precision=PRECISION,
        floor_ms=floor,
        flags=tuple(flags),
        too_fast=suspect,
        shapes=reference.shapes,
        judged=clock.judged,
    )
    return timing, clock.judgement


def _too_fast(series: dict[str, _Series], floor: float | None, plan: Plan | None) -> bool:
    """Only where the data cannot stay in the cache."""
    if floor is None or plan is None or plan.least_bytes < 4 * _CACHE_BYTES:
        return False
    times = [t for r in series["candidate"].stream for t in r]
    return statistics.median(times) < _FLOOR_MARGIN * floor


def side_stream(series: dict[str, _Series]) -> bool:
    """Whether the device stayed busy after the candidate's stream, longer than after eager's."""
    usual = series["eager"].rest_ms if "eager" in series else 0.05
    rest = series["candidate"].rest_ms
    stream = statistics.median(t for r in series["candidate"].stream for t in r)
    return rest - usual > _SIDE_STREAM_MS + 0.1 * stream
