"""A passed candidate once more, in a fresh process, for its time."""

import contextlib
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from musaagent.errors import InfraError, TaskError
from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda.reference import GpuReference
from musaagent.tools.cuda.shares import device_time, with_share
from musaagent.tools.cuda.sizes import CROWDING_BYTES, fits_card, plan_bytes
from musaagent.tools.cuda.timing import WAYS, take_timing
from musaagent.tools.cuda.timing_sets import TooLarge
from musaagent.tools.results import Status, Verdict
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
    target, draw, gpu = bench.target, random.SystemRandom(), bench.gpu
    plan = target.plan_or_none(reference.task)
    large = plan is not None and plan_bytes(plan) > CROWDING_BYTES and not reference.overrides
    phases = dict(verdict.phase_seconds)
    rule = ToleranceRule(options.atol, options.rtol)
    session = bench.open_candidate(options, checked=False)
    try:
        construct_again(session, reference, candidate, draw.getrandbits(48))
        # Nobody else takes memory while there are gigabytes on the card.
        with gpu.turn() if large else contextlib.nullcontext():
            state, doubt = target.card_state(gpu)
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
    except CandidateFailure as failure:
        update = {
            "status": failure.status,
            "kind": None,
            "message": f"while it was timed: {failure.message}",
            "details": failure.details,
            "phase_seconds": phases,
        }
        return verdict.model_copy(update=update)
    except TooLarge:
        raise
    except (InfraError, TaskError) as error:
        # A baseline took the reference worker down: the verdict stands, without times.
        target.drop_reference(reference.task, gpu)
        return verdict.model_copy(update={"flags": (*verdict.flags, f"not timed: {error}")})
    finally:
        session.close()
    # Warm, and in memory that nobody fills: a trial's list is replaced.
    verdict = with_share(verdict, device_time(ran.get("kernels"), session.own_kernels()))
    verdict = verdict.model_copy(update={"phase_seconds": phases})
    if judged is None or judged.ok:
        flags = (*timing.flags, doubt) if doubt else timing.flags
        timing = timing.model_copy(update={"card": state, "flags": flags})
        return verdict.model_copy(update={"timing": timing})
    wrong = {
        "status": Status.ILLEGAL if judged.illegal else Status.MISMATCH,
        "kind": None if judged.illegal else judged.kind,
        "message": f"while it was timed: {judged.illegal or judged.message}",
        "details": judged.details,
        "errors": judged.errors,
    }
    return verdict.model_copy(update=wrong)


def _free(bench: "GpuBench", reference: GpuReference) -> None:
    """Nothing large stays on the card; whatever was found before counts, even if this fails."""
    try:
        if reference.alive:
            reference.forget_timing()
    except (InfraError, TaskError):
        bench.target.drop_reference(reference.task, bench.gpu)
