"""Against a live endpoint, where one is named: what it gives is recorded, and a run ends orderly."""

import os
from pathlib import Path
from typing import Any

import pytest

from musaagent.app import solve
from musaagent.policies.settings import ServedSettings
from musaagent.traces.schema import AnswerReceived
from musaagent.traces.store import read_trajectory

BASE_URL = os.environ.get("MUSAAGENT_LIVE_BASE_URL", "")
MODEL = os.environ.get("MUSAAGENT_LIVE_MODEL", "")

pytestmark = [
    pytest.mark.llm,
    pytest.mark.skipif(
        not (BASE_URL and MODEL),
        reason="no live model: set MUSAAGENT_LIVE_BASE_URL and MUSAAGENT_LIVE_MODEL",
    ),
]


@pytest.mark.parametrize("stream", [True, False])
def test_a_run_is_recorded_whole(stream: bool, toy: Any, tmp_path: Path) -> None:
    op = tmp_path / "double.py"
    op.write_text(toy.OP)
    served = ServedSettings(base_url=BASE_URL, model=MODEL, stream=stream, max_tokens=512)
    result = solve(
        op,
        target=toy.ToyTarget(),
        policy="served",
        served=served,
        out=tmp_path / "run",
        max_turns=2,
    )
    assert result.status in ("solved", "not_solved")
    for event in read_trajectory(tmp_path / "run/trajectory.jsonl").all(AnswerReceived):
        answer = event.answer
        ids, logprobs = answer.token_ids, answer.logprobs
        if ids is None:
            assert "the server gave no token ids" in answer.remarks
        elif logprobs is not None:
            assert len(ids) == len(logprobs)
        assert answer.finish_reason in ("stop", "length")
