"""MusaCoder's score, term by term."""

import pytest

from musaagent.tools.results import Build, MismatchKind, Status, Trial, Verdict
from musaagent.traces.rewards import score
from musaagent.traces.schema import RewardSettings


def verdict(status: Status, passed: int = 0, failed: int = 0) -> Verdict:
    trials = [Trial(name="p", passed=True)] * passed + [Trial(name="f", passed=False)] * failed
    return Verdict(
        status=status,
        target="host",
        kind=MismatchKind.NUMERIC if status is Status.MISMATCH else None,
        build=Build(ok=False) if status is Status.COMPILE_ERROR else None,
        trials=tuple(trials),
    )


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (verdict(Status.EXTRACTION_ERROR), -1.0),
        (verdict(Status.COMPILE_ERROR), -1.0),
        (verdict(Status.TIMEOUT, 2, 1), -1.0),
        (verdict(Status.ILLEGAL, 5), -1.0),
        (verdict(Status.RUNTIME_ERROR, 5), -1.0),
        (verdict(Status.MISMATCH, 0, 5), -1.0),
        (verdict(Status.MISMATCH, 1, 4), -0.4),
        (verdict(Status.MISMATCH, 4, 1), -0.1),
        (verdict(Status.PASSED, 5), 1.0),
    ],
)
def test_score(given: Verdict, value: float) -> None:
    terms = score(given)
    assert terms is not None
    assert terms.score == pytest.approx(value)
    assert terms.legal is (given.status is not Status.ILLEGAL)


@pytest.mark.parametrize(
    ("speedup", "value"), [(None, 1.0), (0.5, 1.0), (1.0, 1.0), (2.0, 1.5), (9.0, 2.0)]
)
def test_speed_earns_up_to_its_cap(speedup: float | None, value: float) -> None:
    settings = RewardSettings(speedup_weight=0.5, speedup_cap=2.0)
    terms = score(verdict(Status.PASSED, 5), speedup, settings)
    assert terms is not None
    assert terms.score == pytest.approx(value)
    assert terms.settings == settings


def test_our_failure_is_charged_to_nobody() -> None:
    assert score(verdict(Status.INFRA_ERROR)) is None
