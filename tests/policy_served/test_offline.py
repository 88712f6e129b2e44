"""Rounds by batch file: every answer finds its run, whatever became of the other lines."""

import json
from pathlib import Path
from typing import Any

import pytest

from musaagent import evaluation
from musaagent.app import offline_policy, resume, solve
from musaagent.cli import main
from musaagent.errors import UsageError
from musaagent.policies.offline import read_answers
from musaagent.policies.settings import ServedSettings
from musaagent.traces.schema import AnswerReceived
from musaagent.traces.store import read_trajectory

SERVED = ServedSettings(model="toy-model")


@pytest.fixture
def op(tmp_path: Path, toy: Any) -> Path:
    path = tmp_path / "double.py"
    path.write_text(toy.OP)
    return path


def completion(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "token_ids": [5, 6]}
    choice["logprobs"] = {"content": [{"logprob": -0.1}, {"logprob": -0.2}]}
    return {"id": "c", "model": "toy-model", "choices": [choice], "usage": {"total_tokens": 3}}


def result(identity: str, text: str) -> dict[str, Any]:
    response = {"status_code": 200, "request_id": "r", "body": completion(text)}
    return {"id": "b", "custom_id": identity, "response": response, "error": None}


def failed(identity: str, code: int = 400) -> dict[str, Any]:
    response = {"status_code": code, "body": None}
    return {"id": "b", "custom_id": identity, "response": response, "error": {"message": "no room"}}


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def pending(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_round_by_round(toy: Any, op: Path, tmp_path: Path) -> None:
    run, batch = tmp_path / "run", tmp_path / "results.jsonl"
    waiting = solve(op, target=toy.ToyTarget(), policy="offline", served=SERVED, out=run)
    assert waiting.status == "awaiting_model"
    assert "--answers RESULTS" in waiting.reason
    (first,) = pending(run / "requests.jsonl")
    assert (first["method"], first["url"]) == ("POST", "/v1/chat/completions")
    assert first["body"]["return_token_ids"] is True
    assert first["body"]["messages"][0]["content"].endswith("Only the last such block is read.")
    # Foreign, failed and then good, twice: the good one counts, the rest is told.
    foreign = result("another-run-1", "x")
    good = result(first["custom_id"], toy.candidate("x + 1"))
    write(batch, foreign, failed(first["custom_id"]), good, good)
    answers = read_answers(batch)
    waiting = resume(run, target=toy.ToyTarget(), policy=offline_policy(run, answers))
    assert waiting.status == "awaiting_model"
    assert answers.remarks() == [
        "answers used: 1",
        "answers given twice (the first good one counts): 1",
        "answers not asked for here, or answered before: 1",
    ]
    (second,) = pending(run / "requests.jsonl")
    assert second["custom_id"] != first["custom_id"]
    assert "=== System Feedback for Round 1 ===" in second["body"]["messages"][-1]["content"]
    # Only a failed answer: the same request stays pending.
    write(batch, failed(second["custom_id"], 500))
    waiting = resume(run, target=toy.ToyTarget(), policy=offline_policy(run, read_answers(batch)))
    assert "the last one failed: no room" in waiting.reason
    assert pending(run / "requests.jsonl") == [second]
    write(batch, good, result(second["custom_id"], toy.candidate("x * 2")))
    done = resume(run, target=toy.ToyTarget(), policy=offline_policy(run, read_answers(batch)))
    assert (done.status, done.turns) == ("solved", 2)
    assert not (run / "requests.jsonl").exists()
    events = read_trajectory(run / "trajectory.jsonl").all(AnswerReceived)
    assert [event.answer.token_ids for event in events] == [(5, 6), (5, 6)]
    assert [event.answer.logprobs for event in events] == [(-0.1, -0.2)] * 2


def test_exit_code_4_and_resume_from_the_command_line(
    toy: Any, op: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    solve(op, target=toy.ToyTarget(), policy="offline", served=SERVED, out=run)
    empty = tmp_path / "empty.jsonl"
    for text, said in (
        ("", "holds no results"),
        ("{", "empty.jsonl:1: not JSON"),
        ('{"id": 1}\n', "no `custom_id`"),
        ((run / "requests.jsonl").read_text(), "a request, not a result"),
        (b"\xc1\x00", "empty.jsonl: not UTF-8 text"),
        ("[1, 2]\n", "no `custom_id`"),
    ):
        empty.write_bytes(text.encode() if isinstance(text, str) else text)
        assert main(["resume", str(run), "--answers", str(empty)]) == 2
        assert said in capfd.readouterr().err
    write(empty, result("another", "x"))
    assert main(["resume", str(run), "--answers", str(empty), "--json"]) == 4
    told = json.loads(capfd.readouterr().out)
    assert (told["status"], told["turns"]) == ("awaiting_model", 0)


@pytest.mark.parametrize(
    ("response", "said"),
    [
        ([1], "the line holds no response"),
        ({"status_code": 200, "body": "text"}, "the line holds no response"),
        ({"status_code": 200, "body": {"choices": []}}, "the answer has no choices"),
        ({"status_code": 200, "body": {"choices": [{"message": "x"}]}}, "a choice holds 'x'"),
        ({"status_code": 503, "body": {}}, "HTTP 503"),
    ],
)
def test_garbage_in_a_line_is_a_failed_answer(response: Any, said: str, tmp_path: Path) -> None:
    batch = write(tmp_path / "r.jsonl", {"custom_id": "a", "response": response, "error": None})
    batch.write_bytes(b"\xef\xbb\xbf" + batch.read_bytes().replace(b"\n", b"\r\n"))
    assert said in read_answers(batch).failed["a"]


def test_many_tasks_in_one_file(toy: Any, tmp_path: Path) -> None:
    ops, out, batch = tmp_path / "ops", tmp_path / "eval", tmp_path / "results.jsonl"
    ops.mkdir()
    for number in range(5):
        (ops / f"{number}.py").write_text(f"{toy.OP}\n# {number}\n")
    settings = evaluation.EvalSettings(policy="offline", served=SERVED, max_turns=4)
    results = evaluation.evaluate(ops, out, settings, jobs=2, target=toy.ToyTarget())
    assert {r.status for r in results} == {"awaiting_model"}
    rounds = 0
    while evaluation.requests_file(out).exists():
        rounds += 1
        requests = pending(evaluation.requests_file(out))
        kernel = "x + 1" if rounds == 1 else "x * 2"
        lines = [result(r["custom_id"], toy.candidate(kernel)) for r in reversed(requests)]
        if rounds == 2:
            lines = lines[:2]  # the rest of this batch is missing
        write(batch, *lines)
        results = evaluation.go_on(out, read_answers(batch), jobs=2, target=toy.ToyTarget())
    assert rounds == 3
    assert [(r.status, r.turns) for r in results] == [("solved", 2)] * 5
    assert evaluation.summary(results)["awaiting_model"] == 0


def test_answers_for_other_runs_are_refused(toy: Any, op: Path, tmp_path: Path) -> None:
    policy = toy.ToyPolicy([toy.candidate("x * 2")])
    solve(op, target=toy.ToyTarget(), policy=policy, out=tmp_path / "run")
    batch = write(tmp_path / "r.jsonl", result("a", "x"))
    with pytest.raises(UsageError, match="is for runs of policy offline, not toy"):
        offline_policy(tmp_path / "run", read_answers(batch))
