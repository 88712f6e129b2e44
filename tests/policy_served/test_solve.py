"""Whole runs with the policies that ask a model, against the tests' own server and the toy target."""

import json
from pathlib import Path
from typing import Any

import pytest

from musaagent.app import resume, solve
from musaagent.cli import main
from musaagent.errors import PolicyUnavailable, TaskError, UsageError
from musaagent.opening import open_policy
from musaagent.policies.settings import ServedSettings
from musaagent.traces.schema import AnswerReceived, FeedbackGiven, ReferenceWritten, RunSettings
from musaagent.traces.store import read_trajectory

KEY = "sk-secret-of-the-tests-0123456789"


@pytest.fixture
def op(tmp_path: Path, toy: Any) -> Path:
    path = tmp_path / "double.py"
    path.write_text(toy.OP)
    return path


def answers(toy: Any, *kernels: str) -> list[dict[str, Any]]:
    return [{"kind": "answer", "text": f"<think>..</think>{toy.candidate(k)}"} for k in kernels]


def run_served(server: Any, toy: Any, op: Path, **more: Any) -> Any:
    known: dict[str, Any] = {"policy": "served", "served": server.settings()}
    known["target"] = toy.ToyTarget()
    return solve(op, out=op.parent / "run", **(known | more))


def test_wrong_then_right(server: Any, toy: Any, op: Path, tmp_path: Path) -> None:
    server.play(*answers(toy, "x + 1", "x * 2"))
    result = run_served(server, toy, op)
    assert (result.status, result.turns) == ("solved", 2)
    first, second = (line["body"]["messages"] for line in server.requests())
    assert [m["role"] for m in second] == ["user", "assistant", "user"]
    assert second[0] == first[0]
    assert second[1]["content"].startswith("```python")
    assert "<think>" not in second[1]["content"]
    assert second[2]["content"].startswith("=== System Feedback for Round 1 ===")
    told = read_trajectory(tmp_path / "run/trajectory.jsonl").all(FeedbackGiven)[0].text
    assert told in second[2]["content"]
    assert "expected 4, got 3" in told
    assert server.requests()[0]["key"] == f"Bearer {KEY}"
    for file in (tmp_path / "run").iterdir():
        assert KEY not in file.read_bytes().decode(errors="replace"), file


def test_optimise_round_says_so(server: Any, toy: Any, op: Path) -> None:
    server.play(*answers(toy, "x + x", "x * 2"))
    result = run_served(server, toy, op)
    assert (result.status, result.best_turn) == ("solved", 2)
    last = server.requests()[-1]["body"]["messages"][-1]["content"]
    assert "change only its speed" in last
    assert "load x once" in last
    assert "Bound by: memory" in last


def test_model_down_then_resumed(server: Any, toy: Any, op: Path, tmp_path: Path) -> None:
    """What was answered is not asked again, and the run's settings are enough to go on."""
    broken = {"kind": "status", "code": 503}
    server.play(answers(toy, "x + 1")[0], broken)
    with pytest.raises(PolicyUnavailable, match="HTTP 503"):
        run_served(server, toy, op, served=server.settings(attempts=2))
    server.play(broken, *[broken] * 2, *answers(toy, "x * 2"))
    result = resume(tmp_path / "run", target=toy.ToyTarget())
    assert (result.status, result.turns) == ("solved", 2)
    assert [line["turn"] for line in server.requests()] == [1, 2, 2, 2]


def test_a_server_that_is_not_there_is_told_at_once(
    server: Any, toy: Any, op: Path, tmp_path: Path
) -> None:
    """Before the op is measured, and before there is a run."""
    target = toy.ToyTarget()
    server.play({"kind": "answer", "text": "x"}, refuses_key=True)
    with pytest.raises(PolicyUnavailable, match=r"HTTP 401: the key in \$OPENAI_API_KEY was"):
        run_served(server, toy, op, target=target)
    server.stop()
    with pytest.raises(PolicyUnavailable, match="cannot connect"):
        run_served(server, toy, op, target=target)
    assert target.calls == []
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("model", "path", "advice"),
    [("toy", "", "; the server has toy-model"), ("toy-model", "/v1", "; does --base-url end in")],
)
def test_404_says_what_to_do(
    model: str, path: str, advice: str, server: Any, toy: Any, op: Path
) -> None:
    server.play({"kind": "status", "code": 404, "message": "no such model"})
    served = server.settings(model=model, base_url=server.base_url.removesuffix(path))
    with pytest.raises(PolicyUnavailable, match=f"HTTP 404: no such model or path .*{advice}"):
        run_served(server, toy, op, served=served)


def test_a_run_goes_on_at_another_address(
    server: Any, toy: Any, op: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The server died in the middle of an answer; a new one has another port."""
    run = str(tmp_path / "run")
    cut = {"kind": "answer", "text": toy.candidate("x * 2"), "chunk": 4, "cut_after": 3}
    server.play(answers(toy, "x + 1")[0], cut)
    with pytest.raises(PolicyUnavailable, match="broke after 12 characters"):
        run_served(server, toy, op, served=server.settings(attempts=2))
    asked = len(server.requests())
    server.stop()
    assert main(["resume", run]) == 3
    said = capfd.readouterr().err
    assert "cannot connect" in said
    assert f"; go on with: musaagent resume {run}" in said
    assert main(["resume", run, "--base-url", "elsewhere"]) == 2
    assert "--base-url: must be an http" in capfd.readouterr().err
    (tmp_path / "new").mkdir()
    new = type(server)(tmp_path / "new")
    try:
        new.play(*answers(toy, "x * 2"))
        result = resume(run, target=toy.ToyTarget(), base_url=new.base_url)
        assert (result.status, result.turns) == ("solved", 2)
        assert [line["turn"] for line in new.requests()] == [2]
    finally:
        new.stop()
    assert [line["turn"] for line in server.lines() if "request" in line] == [1, 2, 2]
    assert asked == 3


def test_noise_ends_not_solved(server: Any, toy: Any, op: Path, tmp_path: Path) -> None:
    server.play({"kind": "answer", "text": "lorem ipsum " * 50})
    result = run_served(server, toy, op, max_turns=3)
    assert (result.status, result.turns) == ("not_solved", 3)
    assert result.reason.startswith("extraction_error: ")
    trajectory = read_trajectory(tmp_path / "run/trajectory.jsonl")
    assert all(event.answer.token_ids for event in trajectory.all(AnswerReceived))
    last = server.requests()[-1]["body"]["messages"][-1]["content"]
    assert "Put the whole program into one ```python block" in last


def test_replay_is_bit_for_bit(server: Any, toy: Any, op: Path, tmp_path: Path) -> None:
    server.play(*answers(toy, "x + 1", "x + x", "x * 2"))
    run_served(server, toy, op)
    server.stop()
    recorded = tmp_path / "run"
    again = solve(
        op, target=toy.ToyTarget(), policy="replay", answers=str(recorded), out=tmp_path / "again"
    )
    assert (again.status, again.turns) == ("solved", 3)
    first, second = (
        [event.answer for event in read_trajectory(run / "trajectory.jsonl").all(AnswerReceived)]
        for run in (recorded, tmp_path / "again")
    )
    assert first == second
    op.write_text(op.read_text() + "# another task\n")
    other = solve(
        op, target=toy.ToyTarget(), policy="replay", answers=str(recorded), out=tmp_path / "other"
    )
    assert other.status == "not_solved"
    assert "another task" in other.reason


def test_cascade_escalates_on_the_same_error(server: Any, toy: Any, op: Path) -> None:
    server.play(*answers(toy, "x + 1", "(x + 1)", "x * 2"))
    served = server.settings(repair_model="large-model")
    result = run_served(server, toy, op, policy="cascade", served=served)
    assert (result.status, result.turns) == ("solved", 3)
    asked = [line["body"]["model"] for line in server.requests()]
    assert asked == ["toy-model", "toy-model", "large-model"]
    events = read_trajectory(op.parent / "run/trajectory.jsonl").all(AnswerReceived)
    assert [event.answer.policy_state["cascade"] for event in events] == [
        {"model": "small", "because": ""},
        {"model": "small", "because": ""},
        {"model": "large", "because": "same_error_twice"},
    ]
    assert "the larger model was asked: same_error_twice" in events[2].answer.remarks


def test_describe_writes_the_reference_first(
    server: Any, toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from musaagent.describing import solve_described

    monkeypatch.chdir(tmp_path)
    broken = {"kind": "answer", "text": "```python\nclass Model(:\n```"}
    good = {"kind": "answer", "text": f"```python\n{toy.OP}```"}
    server.play(broken, good, *answers(toy, "x * 2"))
    shown: list[str] = []
    result = solve_described(
        "double the input",
        target=toy.ToyTarget(),
        out=tmp_path / "run",
        show=shown.append,
        options={"served": server.settings()},
    )
    assert result.status == "solved"
    assert "return 2 * x" in shown[0]
    prompts = [line["body"]["messages"][0]["content"] for line in server.requests()]
    assert "double the input" in prompts[0]
    assert "could not be used: invalid Python" in prompts[1]
    assert "return 2 * x" in prompts[2]
    trajectory = read_trajectory(tmp_path / "run/trajectory.jsonl")
    (written,) = trajectory.all(ReferenceWritten)
    assert (written.description, len(written.answers)) == ("double the input", 2)
    report = (tmp_path / "run/report.md").read_text()
    assert "The reference was written by the model" in report
    assert "double the input" in report


def test_describe_gives_up_in_one_line(server: Any, toy: Any, tmp_path: Path) -> None:
    from musaagent.describing import solve_described

    server.play({"kind": "answer", "text": "no"})
    with pytest.raises(TaskError, match="no usable reference in 3 tries"):
        solve_described("x", target=toy.ToyTarget(), options={"served": server.settings()})
    with pytest.raises(UsageError, match="policy toy cannot write a reference"):
        solve_described("x", target=toy.ToyTarget(), policy=toy.ToyPolicy([]))


def test_settings_hold_no_key() -> None:
    for address in ("https://user:sk-1@host/v1", "https://host/v1?key=sk-1"):
        with pytest.raises(ValueError, match="must hold no key"):
            ServedSettings(base_url=address, model="m")
    with pytest.raises(ValueError, match="not the key"):
        ServedSettings(key_env="sk-123456")


def test_policies_say_what_they_lack() -> None:
    for policy, served, said in (
        ("served", None, "needs --model"),
        ("offline", ServedSettings(), "needs --model"),
        ("cascade", ServedSettings(model="m", base_url="http://h/v1"), "--repair-model"),
    ):
        with pytest.raises(UsageError, match=said):
            open_policy(RunSettings(policy=policy, served=served))


def test_cli_redacts_a_key_in_an_address(
    op: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["solve", str(op), "--policy", "served", "--model", "m"]
    assert main([*words, "--base-url", "http://me:sk-1@host/v1"]) == 2
    said = capfd.readouterr().err
    assert said.startswith("musaagent solve: --base-url: must hold no key")
    assert "sk-1" not in said


def test_show_tells_of_remarks(
    server: Any, toy: Any, op: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server.play({"kind": "status", "code": 500}, *answers(toy, "x * 2"))
    run_served(server, toy, op)
    assert main(["show", str(tmp_path / "run")]) == 0
    said = capfd.readouterr().out
    assert "attempt 1 failed" in said
    assert "toy-model" in said


def test_json_of_the_trace_is_whole(server: Any, toy: Any, op: Path, tmp_path: Path) -> None:
    server.play(*answers(toy, "x * 2"))
    run_served(server, toy, op)
    lines = (tmp_path / "run/trajectory.jsonl").read_text().splitlines()
    started = json.loads(lines[0])
    assert started["settings"]["served"]["key_env"] == "OPENAI_API_KEY"
    answer = next(json.loads(line) for line in lines if '"kind":"answer"' in line)["answer"]
    assert answer["token_ids"]
    assert len(answer["logprobs"]) == len(answer["token_ids"])
