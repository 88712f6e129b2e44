"""A real vLLM on the CPU, from `tests/vllm/run.sh`: what it gives, rounds by batch file, its flags.

The model's weights are random, so its answers are noise: every run has to end not solved, orderly,
with all of it on record.
"""

import json
import os
import subprocess
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from musaagent.errors import PolicyUnavailable
from musaagent.policies.policy import PolicyAnswer
from musaagent.policies.served import ServedPolicy
from musaagent.policies.settings import ServedSettings
from musaagent.result import token_exact
from musaagent.serve import plan
from musaagent.traces.schema import AnswerReceived, FeedbackGiven, VerdictReached
from musaagent.traces.store import Trajectory, read_trajectory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.vllm,
    pytest.mark.skipif(
        not os.environ.get("MUSAAGENT_VLLM"),
        reason="takes minutes and an environment of 3.5 GB: bash tests/vllm/run.sh",
    ),
]

OP = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * {factor}


def get_inputs():
    return [torch.randn(8, 16)]
"""


@pytest.fixture
def ops(tmp_path: Path) -> Path:
    folder = tmp_path / "ops"
    folder.mkdir()
    for factor in (2, 3, 5):
        (folder / f"relu{factor}.py").write_text(OP.format(factor=factor))
    return folder


def ask(server: Any, description: str = "ReLU of a vector", **settings: Any) -> PolicyAnswer:
    known: dict[str, Any] = {"base_url": server.base_url, "model": server.model, "max_tokens": 48}
    policy = ServedPolicy(ServedSettings(**(known | settings)))
    try:
        return policy.describe(description, "", seed=3)
    finally:
        policy.close()


def post(server: Any, path: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        server.base_url.removesuffix("/v1") + path,
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@pytest.mark.parametrize("stream", [True, False])
def test_tokens_are_recorded_as_they_were_drawn(server: Any, stream: bool) -> None:
    seen: list[Any] = []
    policy = ServedPolicy(
        ServedSettings(base_url=server.base_url, model=server.model, max_tokens=48, stream=stream),
        live=seen.append,
    )
    try:
        answer = policy.describe("ReLU of a vector", "", seed=3)
    finally:
        policy.close()
    assert token_exact(answer)
    assert answer.remarks == ()
    assert answer.policy_state["streamed"] is stream
    assert answer.policy_state["system_fingerprint"].startswith("vllm-")
    ids, prompt, logprobs = answer.token_ids, answer.prompt_token_ids, answer.logprobs
    assert ids is not None
    assert prompt is not None
    assert logprobs is not None
    assert all(number < 0 for number in logprobs)
    assert answer.usage["completion_tokens"] == len(ids) <= 48
    assert answer.usage["prompt_tokens"] == len(prompt)
    assert answer.finish_reason in ("stop", "length")
    body = {"model": server.model, "messages": list(answer.messages)}
    assert post(server, "/tokenize", body)["tokens"] == list(prompt)
    # The end mark is drawn too, and is no text.
    drawn = ids if answer.finish_reason == "length" else ids[:-1]
    text = post(server, "/detokenize", {"model": server.model, "tokens": drawn})["prompt"]
    assert text == answer.text


def test_prompts_are_counted_by_the_server(server: Any) -> None:
    """The window is the server's own, and so is the room that an answer gets in it."""
    words = post(server, "/tokenize", {"model": server.model, "prompt": "relu " * 100})["count"]
    answer = ask(server, description="relu " * (700_000 // words), max_tokens=8000)
    assert answer.prompt_token_ids is not None
    assert answer.sampling["max_tokens"] == 8192 - len(answer.prompt_token_ids)
    assert answer.finish_reason in ("stop", "length")
    with pytest.raises(PolicyUnavailable, match=r"of 8192 tokens and leaves no room"):
        ask(server, description="relu " * (800_000 // words))


def test_a_solve_ends_not_solved(server: Any, vllm: Any, ops: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["--policy", "served", "--base-url", server.base_url, "--model", server.model]
    words += ["--profile", "musacoder", "--max-tokens", "96", "--max-turns", "3", "--json"]
    done = vllm.musaagent("solve", str(ops / "relu2.py"), *words, "--out", str(run))
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    result = json.loads(done.stdout)
    assert (result["status"], result["turns"], result["stop"]) == ("not_solved", 3, "budget")
    assert result["turn_statuses"] == ["extraction_error"] * 3
    assert result["turn_scores"] == [-1.0] * 3
    assert result["token_exact"] is True
    trajectory = read_trajectory(run / "trajectory.jsonl")
    expect_whole(trajectory, turns=3)
    answers = [event.answer for event in trajectory.all(AnswerReceived)]
    last = answers[-1].messages[-1]["content"]
    assert last.startswith("=== System Feedback for Round 2 ===")
    assert trajectory.all(FeedbackGiven)[-1].text in last
    # Counted by the server, so nothing was estimated; nothing failed, nothing was left out.
    assert [answer.remarks for answer in answers] == [()] * 3
    assert "not solved" in (run / "report.md").read_text()


def expect_whole(trajectory: Trajectory, turns: int) -> None:
    """Every turn has its answer with exact tokens, and its verdict."""
    answers = trajectory.all(AnswerReceived)
    assert [event.turn for event in answers] == list(range(1, turns + 1))
    assert all(token_exact(event.answer) for event in answers)
    assert [event.turn for event in trajectory.all(VerdictReached)] == list(range(1, turns + 1))


def test_a_collection(server: Any, vllm: Any, ops: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["--policy", "served", "--base-url", server.base_url, "--model", server.model]
    words += ["--max-tokens", "64", "--max-turns", "2", "--episodes", "4", "--json"]
    done = vllm.musaagent("collect", str(ops), *words, "--out", str(out))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["tasks"], told["total"], told["not_solved"]) == (3, 12, 12)
    assert (told["turns"], told["token_exact"], told["mean_score"]) == (24, 12, -1.0)
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    drawn = set()
    for row in rows:
        trajectory = read_trajectory(Path(row["run"]) / "trajectory.jsonl")
        expect_whole(trajectory, turns=2)
        drawn |= {event.answer.token_ids for event in trajectory.all(AnswerReceived)}
    assert len(drawn) == 24, "episodes drew the same answer"


def test_offline_rounds(vllm: Any, model: str, ops: Path, tmp_path: Path) -> None:
    """Three tasks, two rounds by `vllm run-batch`: exit codes 4, 4 and 1."""
    out, results = tmp_path / "out", tmp_path / "results.jsonl"
    words = ["eval", str(ops), "--out", str(out), "--policy", "offline", "--model", model]
    words += ["--context", "8192", "--max-tokens", "48", "--max-turns", "2"]
    done = vllm.musaagent(*words)
    assert done.returncode == 4, done.stderr
    for code, number in ((4, 1), (1, 2)):
        requests = (out / "requests.jsonl").read_text().splitlines()
        assert len(requests) == 3
        batch = tmp_path / f"batch{number}.jsonl"
        # One that vLLM itself refuses: what it writes for it has to be read as a failure.
        refused = json.loads(requests[0])
        refused["custom_id"] = "too-long"
        refused["body"]["max_tokens"] = 10**6
        batch.write_text("\n".join([*requests, json.dumps(refused)]) + "\n")
        run_batch(vllm, model, batch, results)
        done = vllm.musaagent("resume", str(out), "--answers", str(results))
        assert done.returncode == code, done.stderr
        assert "answers used: 3" in done.stderr
        assert "answers failed: " in done.stderr
    assert not (out / "requests.jsonl").exists()
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert [(row["status"], row["turns"]) for row in rows] == [("not_solved", 2)] * 3
    assert all(row["token_exact"] for row in rows)
    for row in rows:
        expect_whole(read_trajectory(Path(row["run"]) / "trajectory.jsonl"), turns=2)


def run_batch(vllm: Any, model: str, batch: Path, results: Path) -> None:
    words = ["run-batch", "-i", str(batch), "-o", str(results), "--model", model]
    words += ["--max-model-len", "8192", *vllm.whole_prompts]
    subprocess.run(
        [str(vllm.folder / "bin/vllm"), *words],
        env=vllm.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=600,
        check=True,
    )


def parse(vllm: Any, *lines: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    text = "".join(json.dumps(list(words)) + "\n" for words in lines)
    script = Path(__file__).with_name("parse_flags.py")
    return subprocess.run(
        [vllm.python, str(script)],
        input=text,
        env=vllm.environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_every_flag_is_vllms(vllm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", vllm.environment["PATH"])
    commands = []
    for size, gpus in (("27b", "1x80"), ("27b", "8x16"), ("9b", "2x24"), ("27b", "musa:8x48")):
        planned = plan(size, model="some/model", gpus=gpus, more=["--seed", "3"])
        after = planned.command.index("serve") + 1
        commands.append(planned.command[after:])
    done = parse(vllm, *commands)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-4:] == ["40960"] * 4
    wrong = parse(vllm, [*commands[0], "--no-such-flag"])
    assert wrong.returncode == 1
    assert "vLLM has no --no-such-flag" in wrong.stderr
