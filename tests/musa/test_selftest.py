"""`musaagent selftest`, run on the host target in place of a card."""

import json
from pathlib import Path

import pytest

from musaagent.cli import main
from musaagent.selftest import OPS, run_selftest, summary
from musaagent.tools.musa import questions


def test_it_asks_the_card_and_solves_ops() -> None:
    report = run_selftest(
        "host", arch="mp_22", warp_size=128, ops={"row_sum": OPS["row_sum"]}, minutes=10
    )
    answers = report["answers"]
    assert answers["warp_size"] == 128
    assert answers["arch"] == 220
    assert answers["shfl_xor_16"] == [lane ^ 16 for lane in range(128)]
    assert answers["shfl_lane_0"] == 0
    op = report["ops"]["row_sum"]
    assert op["status"] == "solved", op
    assert "musa_runtime.h" in op["source"]
    assert json.loads(json.dumps(report)) == report
    assert summary(report) == "1 of 1 ops solved; warpSize: 128"


def test_it_writes_the_file_whatever_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("MUSA_HOME", "/nonexistent")
    out = tmp_path / "back.json"
    assert main(["selftest", "--out", str(out)]) == 1
    report = json.loads(out.read_text())
    assert "target musa cannot run here" in report["error"]
    assert set(report["tools"]) >= {"mcc", "musaInfo", "mthreads-gmi"}
    assert f"send back {out}" in " ".join(capsys.readouterr().out.split())


def test_each_question_is_a_row() -> None:
    text = questions.candidate()
    assert text.count("answers[") == len(questions.QUESTIONS)
    assert set(questions.BASIC) < set(questions.QUESTIONS)
