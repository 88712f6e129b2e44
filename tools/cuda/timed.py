"""A passed candidate once more, in a fresh process, for its time."""

import random
from typing import TYPE_CHECKING

from musaagent.errors import InfraError
from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda.reference import GpuReference
from musaagent.tools.cuda.shares import device_time, with_share
from musaagent.tools.cuda.timing import take_timing
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
) -> Verdict:
    """The verdict with its timing; a candidate that is wrong while it is timed has not passed.

    It runs in a process of its own, so that what it learned in the trials is of no use.
    """
    target, draw = bench.target, random.SystemRandom()
    reference = bench.reference(task, "run")
    assert isinstance(reference, GpuReference)
    rule, plan = ToleranceRule(options.atol, options.rtol), target.plan_or_none(task)
    session = bench.open_candidate(options, checked=False)
    try:
        construct_again(session, reference, candidate, draw.getrandbits(48))
        state, doubt = target.card_state(bench.gpu)
        timing, judged = take_timing(
            session, reference, bench.gpu, plan, draw, rule, options.baselines
        )
        ran, _ = session.request({"op": "profile"}, doing="run under the profiler")
    except CandidateFailure as failure:
        update = {
            "status": failure.status,
            "kind": None,
            "message": f"while it was timed: {failure.message}",
            "details": failure.details,
        }
        return verdict.model_copy(update=update)
    except InfraError as error:
        # A baseline took the reference worker down: the verdict stands, without times.
        target.drop_reference(task, bench.gpu)
        return verdict.model_copy(update={"flags": (*verdict.flags, f"not timed: {error}")})
    finally:
        session.close()
    # Warm, and in memory that nobody fills: a trial's list is replaced.
    verdict = with_share(verdict, device_time(ran.get("kernels"), session.own_kernels()))
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
