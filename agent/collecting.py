"""A collection for those who read it: groups of episodes of one task, and their sums."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from musaagent import evaluation
from musaagent.result import RunResult
from musaagent.traces.schema import RunStatus


@dataclass(frozen=True)
class Group:
    """All episodes of one op."""

    op: str
    results: tuple[RunResult, ...]

    @property
    def solved(self) -> int:
        return sum(result.status is RunStatus.SOLVED for result in self.results)

    @property
    def turns(self) -> int:
        return sum(result.turns for result in self.results)

    @property
    def mean_score(self) -> float | None:
        return mean_score(self.results)

    @property
    def outcomes(self) -> str:
        """`5 x solved, 2 x compile_error`, the most common first."""
        words = Counter(
            "solved" if r.status is RunStatus.SOLVED else evaluation.outcome_word(r)
            for r in self.results
        )
        return ", ".join(f"{count} x {word}" for word, count in words.most_common())


def is_collection(results: Sequence[RunResult]) -> bool:
    return any(result.episode is not None for result in results)


def groups(results: Sequence[RunResult]) -> list[Group]:
    """results: as `evaluation.read_results` orders them."""
    return [Group(op, tuple(part)) for op, part in groupby(results, key=lambda r: r.op)]


def best_score(result: RunResult) -> float | None:
    """Of the turn that earned most; None where no turn was scored."""
    return max((score for score in result.turn_scores if score is not None), default=None)


def mean_score(results: Sequence[RunResult]) -> float | None:
    """Of the best turns; episodes that ended by our own failure, or wait, do not count."""
    ended = [r for r in results if r.status in (RunStatus.SOLVED, RunStatus.NOT_SOLVED)]
    scores = [score for r in ended if (score := best_score(r)) is not None]
    return sum(scores) / len(scores) if scores else None


def summary(results: list[RunResult]) -> dict[str, Any]:
    """As of an evaluation, and what a trainer asks first."""
    return {
        **evaluation.summary(results),
        "tasks": len(groups(results)),
        "turns": sum(result.turns for result in results),
        "mean_score": mean_score(results),
        "token_exact": sum(result.token_exact for result in results),
    }
