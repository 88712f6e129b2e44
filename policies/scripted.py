"""A policy that plays given answers in order: for tests, demonstrations and replayed models."""

from collections.abc import Sequence

from musaagent.policies.policy import PolicyAnswer, PolicyRequest


class ScriptedPolicy:
    """Turn n gets the n-th answer, whatever was asked; after the last one it refuses.

    The answer depends on the request alone, so a run that is resumed gets the same ones.
    """

    name = "scripted"

    def __init__(self, answers: Sequence[str]) -> None:
        """answers: raw texts as a model would give them (a bare candidate counts as its block)."""
        self._answers = tuple(answers)

    def propose(self, request: PolicyRequest) -> PolicyAnswer:
        if request.turn > len(self._answers):
            return PolicyAnswer(text="", refusal=f"the script has {len(self._answers)} answers")
        text = self._answers[request.turn - 1]
        if "```" not in text:
            text = f"```python\n{text.strip()}\n```\n"
        return PolicyAnswer(text=text, model="scripted")
