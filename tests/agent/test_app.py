"""The run folder, and what solve refuses."""

import shutil
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import musaagent
from musaagent.app import open_target, read_candidate, settings_of, solve
from musaagent.cli import build_parser
from musaagent.errors import TaskError, ToolchainMissing, UsageError
from musaagent.evaluation import EvalSettings
from musaagent.opening import open_policy
from musaagent.rundir import write_whole
from musaagent.tools.extract import ExtractionError
from musaagent.tools.musa.gmi import find_cards
from musaagent.traces.schema import RunSettings

Play = Callable[..., Any]


def test_public_names() -> None:
    assert musaagent.solve is solve
    assert set(dir(musaagent)) == set(musaagent.__all__)
    with pytest.raises(AttributeError, match="no attribute 'solved'"):
        musaagent.solved  # noqa: B018 - the access is the test


def test_run_folder_holds_the_run(play: Play) -> None:
    played = play("x * 2")
    names = {file.name for file in played.out.iterdir()}
    assert {
        "candidate.py",
        "report.md",
        "trajectory.jsonl",
        "checkpoint.sqlite",
        "task.py",
    } <= names
    assert not any(name.startswith(".") for name in names)
    assert (played.out / "task.py").read_text() == played.trajectory.events[0].task_source


def test_existing_run_needs_force(play: Play) -> None:
    first = play("x + 2", max_turns=1)
    with pytest.raises(UsageError, match=r"already holds a run; give --force"):
        play("x * 2")
    assert (first.out / "attempt.py").exists()
    second = play("x * 2", force=True)
    assert second.result.status == "solved"
    assert not (second.out / "attempt.py").exists()


def test_other_files_in_the_folder_stay(play: Play, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/notes.txt").write_text("mine")
    play("x * 2", force=True)
    assert (tmp_path / "run/notes.txt").read_text() == "mine"


def test_out_may_not_be_a_file(play: Play, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(UsageError, match="is a file; --out needs a folder"):
        play("x * 2")


def test_broken_op_leaves_no_run(toy: Any, op: Path, tmp_path: Path) -> None:
    class BrokenOp(toy.ToyTarget):  # type: ignore[misc]
        def plan(self, task: Any) -> Any:
            raise TaskError("double.py: forward raised ValueError")

    with pytest.raises(TaskError):
        solve(op, target=BrokenOp(), policy=toy.ToyPolicy([]), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "options", [{"max_turns": 0}, {"trials": 0}, {"timeout_s": -1.0}, {"warp_size": 64}]
)
def test_settings_out_of_range(toy: Any, op: Path, tmp_path: Path, options: Any) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        solve(op, target=toy.ToyTarget(), policy=toy.ToyPolicy([]), out=tmp_path / "r", **options)
    assert not (tmp_path / "r").exists()


@pytest.mark.skipif(bool(find_cards()), reason="there is a Moore Threads GPU here")
def test_musa_without_a_card_has_nothing_to_run_on() -> None:
    with pytest.raises(ToolchainMissing, match="target musa cannot run here"):
        open_target("musa")


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there may be a GPU here")
def test_cuda_without_a_gpu_has_nothing_to_run_on() -> None:
    with pytest.raises(ToolchainMissing, match=r"target cuda cannot run here: .*NVIDIA GPU"):
        open_target("cuda")


def test_policy_scripted_needs_its_answers(tmp_path: Path) -> None:
    for folder, said in [
        ("", "needs --answers DIR"),
        (str(tmp_path / "none"), "no such folder"),
        (str(tmp_path), "is empty"),
    ]:
        with pytest.raises(UsageError, match=said):
            open_policy(RunSettings(policy="scripted", answers=folder))


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), (b"", "empty"), (b" \n", "empty"), (b"\xff\xfe\x00", "not UTF-8")],
)
def test_candidate_file_that_is_none(content: Any, said: str, tmp_path: Path) -> None:
    path = tmp_path / "candidate.py"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=said):
        read_candidate(path)
    with pytest.raises(UsageError, match="is a directory"):
        read_candidate(tmp_path)


def test_candidate_file_that_does_not_parse_is_the_candidates_fault(tmp_path: Path) -> None:
    path = tmp_path / "candidate.py"
    path.write_text("class ModelNew(:\n    pass\n")
    found = read_candidate(path)
    assert isinstance(found, ExtractionError)
    assert (found.fault, found.line) == ("syntax", 1)


def test_write_whole_leaves_the_old_file_when_it_fails(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "new \ud800")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["report.md"]


def test_no_tracing_leaves_the_machine(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """LangSmith's own switches are on; a listener in its place hears nothing."""
    from langchain_core.tracers.langchain import wait_for_all_tracers

    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            with suppress(OSError):  # raised when the server is shut down
                while True:
                    connection, _ = server.accept()
                    with connection:
                        heard.append(connection.recv(100))

        listener = threading.Thread(target=listen)
        listener.start()
        monkeypatch.setenv("LANGSMITH_TRACING", "true")
        monkeypatch.setenv("LANGCHAIN_TRACING_V2", "true")
        monkeypatch.setenv("LANGSMITH_API_KEY", "none")
        monkeypatch.setenv("LANGSMITH_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        played = play("x * 2")
        wait_for_all_tracers()
        server.shutdown(socket.SHUT_RDWR)
        listener.join()
    assert played.result.status == "solved"
    assert heard == []


def test_the_watched_run_is_for_who_asks_on_a_gpu_and_for_all_elsewhere() -> None:
    assert settings_of("host", "builtin", {}).check
    assert not settings_of("cuda", "builtin", {"check": None}).check
    assert settings_of("cuda", "builtin", {"check": True}).check
    assert not settings_of("host", "builtin", {"check": False}).check
    assert EvalSettings(target="host").run_settings().check
    assert not EvalSettings(target="cuda").run_settings().check
    assert EvalSettings(target="cuda", check=True).run_settings().check


def test_baselines_that_are_asked_for_come_to_the_target() -> None:
    settings = EvalSettings(target="cuda", baselines=("eager",)).run_settings()
    assert settings.baselines == ("eager",)
    chosen = build_parser().parse_args(["solve", "op.py", "--baselines", "eager,graph"])
    assert chosen.baselines == ("eager", "graph")
    assert settings_of("cuda", "builtin", {"baselines": ("graph",)}).baselines == ("graph",)
