"""Every family through the real host target: values, and a watched run with nothing to report."""

from collections.abc import Callable
from pathlib import Path

import pytest

from musaagent.tools.results import Status, Verdict

TASKS = Path(__file__).parent / "tasks"
FAMILIES = sorted(path.stem for path in TASKS.glob("*.py"))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_familys_ops_agree_with_torch(family: str, first_verdict: Callable[..., Verdict]) -> None:
    verdict = first_verdict((TASKS / f"{family}.py").read_text())
    assert verdict.status is Status.PASSED, (verdict.message, verdict.details[-2000:])
    assert verdict.checked
    assert not verdict.findings


def test_a_warp_of_128_changes_nothing(first_verdict: Callable[..., Verdict]) -> None:
    source = (TASKS / "norms.py").read_text()
    verdict = first_verdict(source, warp=128)
    assert verdict.status is Status.PASSED, (verdict.message, verdict.details[-2000:])
