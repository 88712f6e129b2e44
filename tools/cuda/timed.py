"""A passed candidate once more, in a fresh process, for its time."""

import contextlib
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from musaagent.errors import InfraError, TaskError
from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda.reference import GpuReference
from musaagent.tools.cuda.session import CudaSession
from musaagent.tools.cuda.shares import device_time, with_share
from musaagent.tools.cuda.sizes import CROWDING_BYTES, fits_card, plan_bytes
from musaagent.tools.cuda.timing import WAYS, take_timing
from musaagent.tools.cuda.timing_sets import TooLarge
from musaagent.tools.judge import Judgement
from musaagent.tools.results import MismatchKind, Status, Timing, Verdict
from musaagent.tools.session import CandidateFailure
from musaagent.tools.steps import construct_again
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import Task
from musaagent.tools.tolerance import ToleranceRule

if TYPE_CHECKING:
    from musaagent.tools.cuda.bench import GpuBench


def with_times(
    bench: "GpuBench",
    task: Task,
    candidate: Candidate,
    options: VerifyOptions,
    verdict: Verdict,
    *,
    ways: Sequence[str] = WAYS,
) -> Verdict:
    """The verdict with its timing; a candidate that is wrong while it is timed has not passed.

    It runs in a process of its own, so that what it learned in the trials is of no use. Times are
    taken at the task's own sizes where they fit on the card, whatever the trials ran at. `ways`:
    how inputs may be shared with its process; none: they go through sockets.
    """
    target, gpu = bench.target, bench.gpu
    trials = bench.reference(task, "run")
    assert isinstance(trials, GpuReference)
    plan = target.plan_or_none(task)
    if not trials.overrides or not fits_card(plan, gpu.info.memory_mb):
        return _timed_at(bench, trials, candidate, options, verdict, ways)
    try:
        own = target.gpu_reference(task, gpu, {})
        return _timed_at(bench, own, candidate, options, verdict, ways)
    except TooLarge as error:
        timed = _timed_at(bench, trials, candidate, options, verdict, ways)
        if timed.timing is None:
            return timed
        flags = (*timed.timing.flags, f"not timed at the task's own sizes: {error}")
        return timed.model_copy(update={"timing": timed.timing.model_copy(update={"flags": flags})})
    except (InfraError, TaskError) as error:
        target.drop_reference(task, gpu)
        return verdict.model_copy(update={"flags": (*verdict.flags, f"not timed: {error}")})


def _timed_at(
    bench: "GpuBench",
    reference: GpuReference,
    candidate: Candidate,
    options: VerifyOptions,
    verdict: Verdict,
    ways: Sequence[str],
) -> Verdict:
    """At the sizes of one reference process. Raises TooLarge."""
    phases = dict(verdict.phase_seconds)
    session = bench.open_candidate(options, checked=False)
    try:
        timing, judged, ran = _measured(bench, reference, session, candidate, options, ways, phases)
    except CandidateFailure as failure:
        return _failed(verdict, failure.status, None, failure.message, failure.details, phases)
    except TooLarge:
        raise
    except (InfraError, TaskError) as error:
        # A baseline took the reference worker down: the verdict stands, without times.
        bench.target.drop_reference(reference.task, bench.gpu)
        return verdict.model_copy(update={"flags": (*verdict.flags, f"not timed: {error}")})
    finally:
        session.close()
    # Warm, and in memory that nobody fills: a trial's list is replaced.
    verdict = with_share(verdict, device_time(ran.get("kernels"), session.own_kernels()))
    if judged is None or judged.ok:
        return verdict.model_copy(update={"timing": timing, "phase_seconds": phases})
    status = Status.ILLEGAL if judged.illegal else Status.MISMATCH
    kind = None if judged.illegal else judged.kind
    message = judged.illegal or judged.message
    verdict = _failed(verdict, status, kind, message, judged.details, phases)
    return verdict.model_copy(update={"errors": judged.errors})


def _measured(
    bench: "GpuBench",
    reference: GpuReference,
    session: CudaSession,
    candidate: Candidate,
    options: VerifyOptions,
    ways: Sequence[str],
    phases: dict[str, float],
) -> tuple[Timing, Judgement | None, dict[str, Any]]:
    """The times, the judged repetition, and a list of kernels. The session is closed afterwards."""
    draw, gpu = random.SystemRandom(), bench.gpu
    plan = bench.target.plan_or_none(reference.task)
    large = plan is not None and plan_bytes(plan) > CROWDING_BYTES and not reference.overrides
    rule = ToleranceRule(options.atol, options.rtol)
    construct_again(session, reference, candidate, draw.getrandbits(48))
    with gpu.large() if large else contextlib.nullcontext():
        state, doubt = bench.target.card_state(gpu)
        try:
            timing, judged = take_timing(
                session,
                reference,
                gpu,
                plan,
                draw,
                rule,
                options.baselines,
                ways=ways,
                phases=phases,
            )
            ran, _ = session.request({"op": "profile"}, doing="run under the profiler")
        finally:
            session.close()
            _free(bench, reference)
    flags = (*timing.flags, doubt) if doubt else timing.flags
    return timing.model_copy(update={"card": state, "flags": flags}), judged, ran


def _failed(
    verdict: Verdict,
    status: Status,
    kind: MismatchKind | None,
    message: str,
    details: str,
    phases: dict[str, float],
) -> Verdict:
    """What passed its trials and is wrong now has not passed."""
    return verdict.model_copy(
        update={
            "status": status,
            "kind": kind,
            "message": f"while it was timed: {message}",
            "details": details,
            "phase_seconds": phases,
        }
    )


def _free(bench: "GpuBench", reference: GpuReference) -> None:
    """Nothing large stays on the card; whatever was found before counts, even if this fails."""
    try:
        if reference.alive:
            reference.forget_timing()
    except (InfraError, TaskError):
        bench.target.drop_reference(reference.task, bench.gpu)
