"""What runs on a card, over a stand-in for torch.musa; see on_shim.py for what that shows."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from musaagent.tools.musa.loaders import NotRunnable


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "on_shim.py")],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_tensors_go_to_the_card_by_its_name(found: dict[str, Any]) -> None:
    assert found["device"] == "musa:0"


def test_the_cpu_is_the_judge(found: dict[str, Any]) -> None:
    assert found["right"] == "float64 on the CPU"
    assert found["right is the CPU's"]


def test_a_wrong_reference_on_the_card_is_a_dispute_and_not_the_measure(
    found: dict[str, Any],
) -> None:
    assert found["wrong"].startswith("float64 on the CPU; DISPUTE: torch_musa's own answer")
    assert "values are wrong" in found["wrong"]
    assert found["wrong is the CPU's"]


def test_only_eager_is_timed(found: dict[str, Any]) -> None:
    for name in ("compile", "graph"):
        assert found[name] == "on MUSA only eager is timed: torch.compile and graphs are not used"


def test_the_clock_runs_over_torch_musas_events(found: dict[str, Any]) -> None:
    assert found["times"] == 2
    assert found["kept"] == [2.0]  # the second repetition, on the first set


def test_what_was_only_compiled_cannot_be_called() -> None:
    with pytest.raises(RuntimeError, match=r"ext\.run: compiled only"):
        NotRunnable("ext").run(1)
