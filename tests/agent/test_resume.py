"""A run killed in the middle of a node goes on, and asks nothing twice."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from musaagent.app import resume, solve
from musaagent.errors import UsageError
from musaagent.traces.schema import (
    AnswerReceived,
    BuildDone,
    RunFinished,
    RunResumed,
    VerdictReached,
)
from musaagent.traces.store import TraceStore, read_trajectory

TOY = Path(__file__).with_name("toy.py")
KERNELS = ("x *", "x + 2", "x + x", "x * 2")


class Processes:
    """Processes that solve or resume the run in a folder, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = subprocess.Popen(
            [sys.executable, str(TOY)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, command: str, stop_in: str = "") -> int:
        job = {"command": command, "folder": str(self.folder), "kernels": KERNELS}
        assert self.server.stdin is not None
        print(json.dumps(job | {"stop_in": stop_in}), file=self.server.stdin, flush=True)
        return int(self.line())

    def line(self) -> str:
        assert self.server.stdout is not None
        return self.server.stdout.readline()

    def kill_in(self, call: str, command: str) -> None:
        pid = self.start(command, stop_in=call)
        log, deadline = self.folder / "log", time.monotonic() + 60
        while not (log.exists() and f"waiting in {call}" in log.read_text()):
            assert time.monotonic() < deadline, f"the run never reached {call}"
            time.sleep(0.02)
        os.kill(pid, signal.SIGKILL)
        assert os.WTERMSIG(int(self.line())) == signal.SIGKILL


@pytest.fixture
def processes(tmp_path: Path, op: Path) -> Iterator[Processes]:
    started = Processes(tmp_path)
    yield started
    started.server.communicate()


def test_killed_in_every_node_and_resumed(processes: Processes, tmp_path: Path) -> None:
    """Turn 1 does not compile, turn 2 is wrong, turn 3 can be better, turn 4 is best."""
    processes.kill_in("plan", "solve")
    for call in ("propose", "build", "verify", "profile"):
        processes.kill_in(call, "resume")
    before = read_trajectory(tmp_path / "run/trajectory.jsonl")
    assert [event.turn for event in before.all(BuildDone)] == [1, 2, 3]
    processes.start("resume")
    assert int(processes.line()) == 0
    result = json.loads((tmp_path / "told.json").read_text())
    assert result["calls"] == ["profile", "build", "verify", "profile"]
    assert result["result"]["status"] == "solved"
    assert (result["result"]["best_turn"], result["result"]["turns"]) == (4, 4)
    answered = Counter((tmp_path / "log").read_text().split("\n"))
    assert {f"answered turn {turn}": 1 for turn in range(1, 5)}.items() <= answered.items()
    trajectory = read_trajectory(tmp_path / "run/trajectory.jsonl")
    assert [event.turn for event in trajectory.all(AnswerReceived)] == [1, 2, 3, 4]
    assert [event.turn for event in trajectory.all(VerdictReached)] == [1, 2, 3, 4]
    assert len({event.event_id for event in trajectory.events}) == len(trajectory.events)
    assert len(trajectory.all(RunResumed)) == 5


def played_until_lost(toy: Any, op: Path, run: Path) -> None:
    target, policy = toy.ToyTarget(lost=("profile",)), toy.ToyPolicy([toy.candidate("x * 2")])
    with pytest.raises(Exception, match="lost in profile"):
        solve(op, target=target, policy=policy, out=run)


@pytest.mark.parametrize("damage", ["missing", "garbage", "empty"])
def test_trajectory_alone_is_enough(damage: str, toy: Any, tmp_path: Path, op: Path) -> None:
    run = tmp_path / "run"
    played_until_lost(toy, op, run)
    checkpoint = run / "checkpoint.sqlite"
    for file in run.glob("checkpoint.sqlite*"):
        file.unlink()
    if damage != "missing":
        checkpoint.write_bytes(b"" if damage == "empty" else b"no database" * 1000)
    target, policy = toy.ToyTarget(), toy.ToyPolicy([])
    result = resume(run, target=target, policy=policy)
    assert result.status == "solved"
    assert target.calls == ["profile"]
    assert policy.requests == []


def test_line_cut_short_is_dropped_and_remarked(toy: Any, tmp_path: Path, op: Path) -> None:
    run = tmp_path / "run"
    played_until_lost(toy, op, run)
    with (run / "trajectory.jsonl").open("a") as file:
        file.write('{"kind":"profile","schema_ver')
    resume(run, target=toy.ToyTarget(), policy=toy.ToyPolicy([]))
    trajectory = read_trajectory(run / "trajectory.jsonl")
    assert trajectory.all(RunResumed)[0].remarks == ("dropped an unfinished last line of 29 bytes",)
    assert trajectory.all(RunFinished)[0].status == "solved"


def test_finished_run_is_only_written_again(toy: Any, tmp_path: Path, op: Path) -> None:
    run = tmp_path / "run"
    policy = toy.ToyPolicy([toy.candidate("x * 2")])
    solved = solve(op, target=toy.ToyTarget(), policy=policy, out=run)
    before = (run / "trajectory.jsonl").read_bytes()
    (run / "candidate.py").unlink()
    (run / "report.md").unlink()
    target = toy.ToyTarget()
    again = resume(run, target=target, policy=toy.ToyPolicy([]))
    assert target.calls == []
    assert (run / "trajectory.jsonl").read_bytes() == before
    assert (run / "candidate.py").exists()
    assert (run / "report.md").exists()
    assert again.model_copy(update={"op": solved.op}) == solved


def test_one_process_at_a_time(toy: Any, tmp_path: Path, op: Path) -> None:
    run = tmp_path / "run"
    played_until_lost(toy, op, run)
    with (
        TraceStore.open(run / "trajectory.jsonl"),
        pytest.raises(UsageError, match="in use by another"),
    ):
        resume(run, target=toy.ToyTarget(), policy=toy.ToyPolicy([]))
    with (
        TraceStore.open(run / "trajectory.jsonl"),
        pytest.raises(UsageError, match="in use by another"),
    ):
        solve(op, target=toy.ToyTarget(), policy=toy.ToyPolicy([]), out=run, force=True)


def test_op_file_may_be_gone(toy: Any, tmp_path: Path, op: Path) -> None:
    run = tmp_path / "run"
    played_until_lost(toy, op, run)
    op.unlink()
    assert resume(run, target=toy.ToyTarget(), policy=toy.ToyPolicy([])).status == "solved"


class Stopped(BaseException):
    """What a kill is to a process, without the process."""


@pytest.mark.parametrize("step", range(1, 6))
def test_stopped_between_a_nodes_writes_and_the_next_checkpoint(
    step: int, toy: Any, tmp_path: Path, op: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node's outcome is stored by then, what follows it is not."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    put, puts = SqliteSaver.put, Counter[str]()

    def stopped(self: Any, *args: Any, **kwargs: Any) -> Any:
        puts["all"] += 1
        if puts["all"] > step:
            raise Stopped
        return put(self, *args, **kwargs)

    run, answers = tmp_path / "run", [toy.candidate("x * 2")]
    with monkeypatch.context() as patch:
        patch.setattr(SqliteSaver, "put", stopped)
        with pytest.raises(Stopped):
            solve(op, target=toy.ToyTarget(), policy=toy.ToyPolicy(answers), out=run)
    assert resume(run, target=toy.ToyTarget(), policy=toy.ToyPolicy(answers)).status == "solved"
