"""A policy that plays a recorded trajectory: every answer as it was, and no model."""

from collections.abc import Sequence

from musaagent.policies.policy import PolicyAnswer, PolicyRequest


class ReplayPolicy:
    """Turn n gets the recorded answer of turn n, bit for bit, token ids and latency included."""

    name = "replay"

    def __init__(self, answers: Sequence[PolicyAnswer], task: str) -> None:
        """task: hash of the task that they were given for."""
        self._answers = tuple(answers)
        self._task = task

    def propose(self, request: PolicyRequest) -> PolicyAnswer:
        if request.plan.task != self._task:
            return PolicyAnswer(text="", refusal="the recorded run is of another task")
        if request.turn > len(self._answers):
            return PolicyAnswer(text="", refusal=f"the record has {len(self._answers)} answers")
        return self._answers[request.turn - 1]
