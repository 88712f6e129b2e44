"""An evaluation goes on where it stopped, and its table is the truth of its lines."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from musaagent.errors import UsageError
from musaagent.evaluation import (
    EvalSettings,
    evaluate,
    find_ops,
    outcome_word,
    read_results,
    summary,
)
from musaagent.policies.settings import ServedSettings
from musaagent.traces.schema import RunSettings, RunStarted
from musaagent.traces.store import read_trajectory

SETTINGS = EvalSettings(policy="scripted", max_turns=2)


@pytest.fixture
def ops(tmp_path: Path, toy: Any) -> Path:
    """Ten ops, and one file that is none."""
    folder = tmp_path / "ops"
    (folder / "level1").mkdir(parents=True)
    for number in range(1, 11):
        (folder / "level1" / f"{number}_op.py").write_text(f"{toy.OP}\n# {number}\n")
    (folder / "level1" / "11_broken.py").write_text("class Model(:")
    (folder / "__init__.py").write_text("")
    (folder / ".hidden.py").write_text("")
    return folder


@pytest.fixture
def answers(tmp_path: Path, toy: Any) -> EvalSettings:
    folder = tmp_path / "answers"
    folder.mkdir()
    (folder / "1.txt").write_text(toy.candidate("x + 2"))
    (folder / "2.txt").write_text(toy.candidate("x * 2"))
    return SETTINGS.model_copy(update={"answers": str(folder)})


class Watch:
    """An observer that remembers, and can interrupt."""

    def __init__(self, interrupt_after: int = 0) -> None:
        self.seen: list[str] = []
        self.known = 0
        self.interrupt_after = interrupt_after

    def begin(self, total: int, known: int) -> None:
        self.known = known

    def finished(self, result: Any) -> None:
        self.seen.append(result.op)
        if len(self.seen) == self.interrupt_after:
            raise KeyboardInterrupt

    def end(self) -> None:
        pass


def test_ops_are_found_in_natural_order(ops: Path) -> None:
    names = find_ops(ops)
    assert names[0] == "level1/1_op.py"
    assert names[1] == "level1/2_op.py"
    assert names[-1] == "level1/11_broken.py"
    assert len(names) == 11


def test_every_op_gets_one_line(ops: Path, answers: Any, toy: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    results = evaluate(ops, out, answers, jobs=3, target=toy.ToyTarget())
    assert [result.op for result in results] == find_ops(ops)
    assert [result.status for result in results] == ["solved"] * 10 + ["failed"]
    assert results[-1].error is not None
    assert results[-1].error.type == "TaskError"
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    needed = {"status", "target", "candidate", "run", "turns", "verdict", "flags", "seconds"}
    assert all(needed <= line.keys() for line in lines)
    assert Path(lines[0]["candidate"]).is_file()
    sums = summary(results)
    assert (sums["total"], sums["solved"], sums["failed"]) == (11, 10, 1)
    assert sums["reasons"] == {"TaskError": 1}


def test_every_setting_reaches_the_runs(
    ops: Path, answers: EvalSettings, toy: Any, tmp_path: Path
) -> None:
    other: dict[str, Any] = {
        "max_turns": 3,
        "seed": 11,
        "warp_size": 128,
        "arch": "mp_22",
        "check": False,
        "baselines": ("eager",),
        "served": ServedSettings(base_url="http://localhost:1/v1", model="m"),
    }
    settings = answers.model_copy(update=other)
    (result,) = evaluate(ops, tmp_path / "out", settings, limit=1, target=toy.ToyTarget())
    assert result.run is not None
    (began,) = read_trajectory(Path(result.run) / "trajectory.jsonl").all(RunStarted)
    shared = EvalSettings.model_fields.keys() & RunSettings.model_fields.keys()
    plain = EvalSettings()
    for name in shared - {"target"}:
        assert getattr(settings, name) != getattr(plain, name), (
            f"{name}: another value here, please"
        )
        assert getattr(began.settings, name) == getattr(settings, name), name


def test_known_results_are_skipped(ops: Path, answers: Any, toy: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    evaluate(ops, out, answers, jobs=1, limit=3, target=toy.ToyTarget())
    before = (out / "results.jsonl").read_text()
    target, watch = toy.ToyTarget(), Watch()
    results = evaluate(ops, out, answers, jobs=1, limit=5, target=target, observer=watch)
    assert watch.known == 3
    assert sorted(watch.seen) == ["level1/4_op.py", "level1/5_op.py"]
    assert target.calls.count("plan") == 2
    assert (out / "results.jsonl").read_text().startswith(before)
    assert len(results) == 5


def test_force_solves_again(ops: Path, answers: Any, toy: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    evaluate(ops, out, answers, jobs=1, limit=3, target=toy.ToyTarget())
    target = toy.ToyTarget()
    results = evaluate(ops, out, answers, jobs=1, limit=2, force=True, target=target)
    assert target.calls.count("plan") == 2
    assert len(results) == 2
    assert len(read_results(out)) == 3


def test_interrupted_evaluation_goes_on(ops: Path, answers: Any, toy: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    target = toy.ToyTarget()
    with pytest.raises(KeyboardInterrupt):
        evaluate(ops, out, answers, jobs=1, target=target, observer=Watch(interrupt_after=4))
    assert "close" in target.calls
    stored = read_results(out)
    assert 4 <= len(stored) < 11
    with (out / "results.jsonl").open("a") as file:
        file.write('{"status":"sol')
    results = evaluate(ops, out, answers, jobs=2, target=toy.ToyTarget())
    assert [r.status for r in results] == ["solved"] * 10 + ["failed"]
    assert [r for r in results if r in stored] == stored


def test_our_failure_is_tried_again_and_resumed(
    ops: Path, answers: Any, toy: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    lost = toy.ToyTarget(lost=("verify", "verify"))
    first = evaluate(ops, out, answers, jobs=1, limit=3, target=lost)
    assert [outcome_word(r) for r in first if r.status == "failed"] == ["SandboxLost"] * 2
    assert [r.status for r in first] == ["failed", "failed", "solved"]
    target = toy.ToyTarget()
    second = evaluate(ops, out, answers, jobs=1, limit=3, target=target)
    assert [r.status for r in second] == ["solved"] * 3
    assert "plan" not in target.calls
    assert len((out / "results.jsonl").read_text().splitlines()) == 3


def test_fault_of_ours_is_a_line_and_a_logged_traceback(
    ops: Path, answers: Any, toy: Any, tmp_path: Path
) -> None:
    class Buggy(toy.ToyTarget):  # type: ignore[misc]
        def build(self, *_: Any) -> Any:
            raise ZeroDivisionError("ours")

    out = tmp_path / "out"
    results = evaluate(ops, out, answers, jobs=1, limit=1, target=Buggy())
    assert results[0].status == "failed"
    assert results[0].reason == "ZeroDivisionError: ours"
    assert "Traceback" in (out / "errors.log").read_text()


def test_other_settings_need_another_folder(
    ops: Path, answers: Any, toy: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    evaluate(ops, out, answers, jobs=1, limit=1, target=toy.ToyTarget())
    other = answers.model_copy(update={"max_turns": 3})
    with pytest.raises(UsageError, match="was made with max_turns 2"):
        evaluate(ops, out, other, jobs=1, limit=1, target=toy.ToyTarget())


def test_two_evaluations_of_one_folder(ops: Path, answers: Any, toy: Any, tmp_path: Path) -> None:
    out, inside, go_on = tmp_path / "out", threading.Event(), threading.Event()

    class Waiting(toy.ToyTarget):  # type: ignore[misc]
        def plan(self, task: Any) -> Any:
            inside.set()
            go_on.wait(30)
            return super().plan(task)

    def run() -> None:
        evaluate(ops, out, answers, jobs=1, limit=1, target=Waiting())

    first = threading.Thread(target=run)
    first.start()
    assert inside.wait(30)
    try:
        with pytest.raises(UsageError, match="in use by another"):
            evaluate(ops, out, answers, jobs=1, limit=1, target=toy.ToyTarget())
    finally:
        go_on.set()
        first.join()


def test_bad_folders(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        find_ops(tmp_path / "none")
    with pytest.raises(UsageError, match=r"no \.py file"):
        find_ops(tmp_path)
    with pytest.raises(UsageError, match="is no evaluation"):
        read_results(tmp_path)
    (tmp_path / "results.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match=r"results\.jsonl:1: no result"):
        read_results(tmp_path)
