"""When the larger model is asked; decided by the recorded turns alone."""

from typing import Any

import pytest

from musaagent.policies.cascade import CascadePolicy, escalation
from musaagent.policies.policy import PolicyAnswer, PolicyRequest
from musaagent.tools.results import Build, Status, Verdict


def verdict(status: Status, message: str) -> Verdict:
    build = Build(ok=False) if status is Status.COMPILE_ERROR else None
    return Verdict(status=status, target="host", message=message, build=build)


COMPILE, RUN = Status.COMPILE_ERROR, Status.RUNTIME_ERROR


@pytest.mark.parametrize(
    ("verdicts", "phase", "reason"),
    [
        ((), "write", None),
        (((COMPILE, "a"),), "repair", None),
        (((COMPILE, "a"), (COMPILE, "b")), "repair", None),
        (((COMPILE, "a"), (COMPILE, "a")), "repair", "same_error_twice"),
        (((COMPILE, "a"), (COMPILE, "b"), (COMPILE, "c")), "repair", "no_progress"),
        (((COMPILE, "a"), (COMPILE, "b"), (RUN, "c")), "repair", None),
        (((RUN, "a"), (COMPILE, "b"), (COMPILE, "c")), "repair", "no_progress"),
        (((COMPILE, "a"),), "optimise", "optimise"),
    ],
)
def test_escalation(
    verdicts: Any, phase: str, reason: str | None, request_of: Any, turn_of: Any
) -> None:
    turns = [turn_of(n, "x", verdict=verdict(*v)) for n, v in enumerate(verdicts, start=1)]
    assert escalation(request_of(*turns, phase=phase), patience=2) == reason


class Fixed:
    def __init__(self, name: str, refusal: str = "") -> None:
        self.name = name
        self.refusal = refusal

    def propose(self, request: PolicyRequest) -> PolicyAnswer:
        return PolicyAnswer(text="", refusal=self.refusal, model=self.name)


def test_larger_model_stays_and_stands_in(request_of: Any, turn_of: Any) -> None:
    cascade = CascadePolicy(Fixed("small"), Fixed("large"))
    noted = {"cascade": {"model": "large", "because": "no_progress"}}
    answer = cascade.propose(request_of(turn_of(1, "x", policy_state=noted)))
    assert (answer.model, answer.policy_state["cascade"]["because"]) == ("large", "no_progress")
    silent = CascadePolicy(Fixed("small", refusal="no idea"), Fixed("large"))
    answer = silent.propose(request_of())
    assert (answer.model, answer.policy_state["cascade"]["because"]) == ("large", "refused")
