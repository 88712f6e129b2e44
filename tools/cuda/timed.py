"""A passed candidate once more, in a fresh process, for its time."""

from collections.abc import Callable

from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda.reference import GpuReference
from musaagent.tools.cuda.session import CudaSession
from musaagent.tools.judge import Judgement
from musaagent.tools.results import Status, Timing, Verdict
from musaagent.tools.verifier import construct_again

Take = Callable[[], tuple[Timing, Judgement | None]]


def time_again(
    session: CudaSession,
    reference: GpuReference,
    candidate: Candidate,
    verdict: Verdict,
    take: Take,
    seed: int,
) -> Verdict:
    """The verdict with its timing, or what was wrong in the repetition that was looked at."""
    construct_again(session, reference, candidate, seed)
    timing, judged = take()
    if judged is None or judged.ok:
        return verdict.model_copy(update={"timing": timing})
    status = Status.ILLEGAL if judged.illegal else Status.MISMATCH
    return verdict.model_copy(
        update={
            "status": status,
            "kind": None if judged.illegal else judged.kind,
            "message": f"while it was timed: {judged.illegal or judged.message}",
            "details": judged.details,
            "errors": judged.errors,
        }
    )
