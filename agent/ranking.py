"""Which candidate of a run is the best: the one that is kept, whatever came after it."""

from musaagent.tools.results import MismatchKind, Profile, Status, Verdict
from musaagent.traces.schema import ProfileTaken, VerdictReached
from musaagent.traces.store import Trajectory

_FURTHEST_FIRST = (
    Status.PASSED,
    Status.MISMATCH,
    Status.ILLEGAL,
    Status.RUNTIME_ERROR,
    Status.TIMEOUT,
    Status.OOM,
    Status.COMPILE_ERROR,
)
"""How far a candidate came; an answer without a candidate is never the best."""


def best_turn(trajectory: Trajectory) -> int | None:
    """The turn whose candidate is kept; None while no answer held a candidate."""
    keys = {}
    for event in trajectory.all(VerdictReached):
        if event.verdict.status in _FURTHEST_FIRST:
            taken = trajectory.find(ProfileTaken, event.turn)
            keys[event.turn] = sort_key(event.verdict, taken.profile if taken else None)
    return min(keys, key=lambda turn: (*keys[turn], turn), default=None)


def sort_key(verdict: Verdict, profile: Profile | None) -> tuple[float, float]:
    """Smaller is better: how far it came, then what it costs (passed) or how wrong it is.

    The cost is the measured time, and where nothing was timed the bytes moved.
    """
    stage = float(_FURTHEST_FIRST.index(verdict.status))
    if verdict.status is Status.PASSED:
        if verdict.timing is not None and not verdict.timing.too_fast:
            return stage, verdict.timing.candidate.median_ms
        return stage, global_bytes(profile)
    if verdict.status is Status.MISMATCH:
        numeric = verdict.kind in (MismatchKind.NUMERIC, MismatchKind.NONFINITE)
        bad = max((error.bad_fraction for error in verdict.errors), default=1.0)
        return stage, bad if numeric else 2.0
    return stage, 0.0


def global_bytes(profile: Profile | None) -> float:
    """Bytes that all launches moved to and from global memory; infinite where not measured.

    The host target has no speed to compare; moving less is the one cost that it can see. Where
    times are measured, one without a time comes after all that have one.
    """
    if profile is None:
        return float("inf")
    moved = sum(
        launch.count * (launch.global_read_bytes + launch.global_write_bytes)
        for launch in profile.launches
    )
    return float(moved) if moved else float("inf")  # a GPU's profile does not count them
