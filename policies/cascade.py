"""A small model drafts and a larger one takes over where it stalls, and to optimise.

Which of the two is asked follows from the recorded turns alone, so a resumed run asks the same.
"""

from collections.abc import Sequence
from enum import StrEnum

from musaagent.policies.policy import Policy, PolicyAnswer, PolicyRequest, TurnRecord
from musaagent.tools.results import Status, Verdict

_FURTHEST_LAST = (
    Status.EXTRACTION_ERROR,
    Status.COMPILE_ERROR,
    Status.OOM,
    Status.TIMEOUT,
    Status.RUNTIME_ERROR,
    Status.ILLEGAL,
    Status.MISMATCH,
    Status.PASSED,
)


class Escalation(StrEnum):
    """Why the larger model is asked."""

    SAME_ERROR_TWICE = "same_error_twice"
    """The last two answers failed in the same way."""
    NO_PROGRESS = "no_progress"
    """No answer of the last turns came further than the ones before."""
    OPTIMISE = "optimise"
    """The candidate is correct; speed is the larger model's work."""
    REFUSED = "refused"
    """The small model had nothing to offer."""


class CascadePolicy:
    """Once the larger model has been asked it stays: what it mends, the small one may break."""

    name = "cascade"

    def __init__(self, small: Policy, large: Policy, patience: int = 2) -> None:
        self._small = small
        self._large = large
        self._patience = patience

    def propose(self, request: PolicyRequest) -> PolicyAnswer:
        reason = escalation(request, self._patience)
        if reason is None:
            answer = self._small.propose(request)
            if not answer.refusal:
                return _marked(answer, "small", "")
            reason = Escalation.REFUSED
        return _marked(self._large.propose(request), "large", reason)

    def describe(self, description: str, fault: str, seed: int) -> PolicyAnswer:
        """A reference decides what is correct: the larger model writes it."""
        answer: PolicyAnswer = self._large.describe(description, fault, seed)  # type: ignore[attr-defined]
        return answer

    def check(self) -> None:
        for policy in (self._small, self._large):
            if (check := getattr(policy, "check", None)) is not None:
                check()

    def close(self) -> None:
        for policy in (self._small, self._large):
            if (close := getattr(policy, "close", None)) is not None:
                close()


def escalation(request: PolicyRequest, patience: int) -> str | None:
    """Why the larger model answers this turn; None while the small one does."""
    if earlier := _earlier(request.history):
        return earlier
    if request.phase == "optimise":
        return Escalation.OPTIMISE
    verdicts = [turn.verdict for turn in request.history if turn.verdict is not None]
    if len(verdicts) >= 2 and _same_error(verdicts[-2], verdicts[-1]):
        return Escalation.SAME_ERROR_TWICE
    if len(verdicts) > patience:
        before = max(progress(verdict) for verdict in verdicts[:-patience])
        if max(progress(verdict) for verdict in verdicts[-patience:]) <= before:
            return Escalation.NO_PROGRESS
    return None


def progress(verdict: Verdict) -> tuple[int, float]:
    """How far a candidate came: larger is further."""
    stage = _FURTHEST_LAST.index(verdict.status) if verdict.status in _FURTHEST_LAST else 0
    worst = max((error.bad_fraction for error in verdict.errors), default=0.0)
    return stage, -worst


def _same_error(before: Verdict, now: Verdict) -> bool:
    failed = now.status is not Status.PASSED
    return failed and (before.status, before.kind, before.message) == (
        now.status,
        now.kind,
        now.message,
    )


def _earlier(history: Sequence[TurnRecord]) -> str:
    for turn in history:
        noted = turn.policy_state.get("cascade")
        if isinstance(noted, dict) and noted.get("model") == "large":
            return str(noted.get("because"))
    return ""


def _marked(answer: PolicyAnswer, which: str, because: str) -> PolicyAnswer:
    state = {**answer.policy_state, "cascade": {"model": which, "because": str(because)}}
    remarks = answer.remarks
    if because:
        remarks = (f"the larger model was asked: {because}", *remarks)
    return answer.model_copy(update={"policy_state": state, "remarks": remarks})
