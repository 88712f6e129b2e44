"""The builtin policy: a first schedule, and what each kind of feedback changes in it."""

import time
from collections.abc import Callable, Iterator, Sequence

from musaagent.policies.builtin.generate import Generated, generate
from musaagent.policies.builtin.schedule import (
    Schedule,
    alternatives,
    families_alternatives,
    smaller,
)
from musaagent.policies.builtin.sizes import Refusal
from musaagent.policies.policy import PolicyAnswer, PolicyRequest, TurnRecord
from musaagent.tools.results import Build, Profile, Status, Verdict

Change = Callable[[Schedule], Schedule]
_TRAFFIC, _IDLE, _SPILLS = range(3)
_FEW_THREADS = 0.25
"""Below this share of resident threads a multiprocessor waits for memory."""


class BuiltinPolicy:
    """Writes candidates without a model. Never gives the same text twice in one run."""

    name = "builtin"

    def propose(self, request: PolicyRequest) -> PolicyAnswer:
        start = time.perf_counter()
        try:
            generated, schedule = self._next(request)
        except Refusal as refusal:
            return PolicyAnswer(
                text="", refusal=str(refusal), model=self.name,
                latency_s=time.perf_counter() - start,
            )  # fmt: skip
        return PolicyAnswer(
            text=f"```python\n{generated.text}```\n",
            model=self.name,
            latency_s=time.perf_counter() - start,
            policy_state={"schedule": schedule.to_json(), "kernels": list(generated.notes)},
        )

    def _next(self, request: PolicyRequest) -> tuple[Generated, Schedule]:
        tried = {turn.candidate.strip() for turn in request.history}
        for schedule in _schedules(request):
            made = generate(request.task_source, request.plan, request.target, schedule)
            if made.text.strip() not in tried:
                return made, schedule
        raise Refusal("no further schedule")


def _schedules(request: PolicyRequest) -> Iterator[Schedule]:
    """What to try now, best first."""
    if not request.history:
        yield Schedule()
        return
    last = request.history[-1]
    if request.phase == "optimise":
        yield from _faster(request)
        return
    now = _schedule_of(last)
    changes = _repairs(last, _kinds(request, now))
    for count in range(1, len(changes) + 1):  # each more cautious than the one before
        made = now
        for change in changes[:count]:
            made = change(made)
        yield made


def _faster(request: PolicyRequest) -> Iterator[Schedule]:
    profiles = [turn.profile for turn in request.history if turn.profile is not None]
    if profiles and profiles[-1].target == "host":
        yield from _leaner(request, profiles)
        return
    profiled = [turn for turn in request.history if turn.profile is not None]
    base = profiled[-1] if profiled else request.history[-1]
    bound = base.profile.bound if base.profile else "unknown"
    for turn in (base, request.history[0]):
        now = _schedule_of(turn)
        yield from alternatives(_kinds(request, now), now, bound)


def _leaner(request: PolicyRequest, profiles: Sequence[Profile]) -> Iterator[Schedule]:
    """The host sees bytes, spills and occupancy but no time: only what can change those is worth
    a turn, and only while it does."""
    last = profiles[-1]
    fault, size = _fault(last)
    if any(_fault(earlier) <= (fault, size) for earlier in profiles[:-1]):
        return
    now = _schedule_of(next(t for t in reversed(request.history) if t.profile is last))
    kinds = _kinds(request, now)
    if fault == _TRAFFIC:
        yield from families_alternatives(kinds, now, last.bound)
    else:
        yield smaller(kinds, now)


def _fault(profile: Profile) -> tuple[int, float]:
    """What is to be mended first, the worst kind as the largest number, and how much of it."""
    counters = profile.counters
    if spilled := counters.get("spill_bytes", 0.0):
        return _SPILLS, spilled
    if (resident := counters.get("occupancy", 1.0)) < _FEW_THREADS:
        return _IDLE, 1 - resident
    return _TRAFFIC, counters.get("global_bytes", 0.0)


def _kinds(request: PolicyRequest, now: Schedule) -> frozenset[str]:
    return generate(request.task_source, request.plan, request.target, now).kinds


def _schedule_of(turn: TurnRecord) -> Schedule:
    state = turn.policy_state.get("schedule")
    return Schedule() if state is None else Schedule.from_json(state)


def _repairs(turn: TurnRecord, kinds: frozenset[str]) -> Sequence[Change]:
    """Changes to make one on top of the other, the likeliest cure first."""
    scalar: Change = lambda s: s.but(vector=1)  # noqa: E731
    apart: Change = lambda s: s.but(fuse=False)  # noqa: E731
    whole: Change = lambda s: s.but(split=False)  # noqa: E731
    exact: Change = lambda s: s.but(precise=True)  # noqa: E731
    less: Change = lambda s: smaller(kinds, s)  # noqa: E731
    status = turn.verdict.status if turn.verdict else Status.COMPILE_ERROR
    match status:
        case Status.MISMATCH:
            return (exact, scalar, apart, whole)
        case Status.COMPILE_ERROR if _too_large(turn.build or _build_of(turn.verdict)):
            return (less, less, scalar, apart)
        case Status.COMPILE_ERROR:
            return (scalar, apart, less, whole)
        case Status.RUNTIME_ERROR:
            return (less, less, scalar, apart, whole)
        case Status.TIMEOUT | Status.OOM:
            return (apart, less, whole)
    return (apart, scalar, whole)


def _build_of(verdict: Verdict | None) -> Build | None:
    return verdict.build if verdict else None


def _too_large(build: Build | None) -> bool:
    """The compiler refused for the device's limits, not for the language."""
    if build is None:
        return False
    text = " ".join(d.message for d in build.diagnostics)
    return any(words in text for words in ("shared data", "shared memory", "too many resources"))
