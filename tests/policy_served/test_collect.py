"""Many episodes of many tasks: each a sample of its own, none lost, none asked for twice."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from musaagent import collecting, evaluation
from musaagent.cli import main
from musaagent.errors import UsageError
from musaagent.eval_settings import EvalSettings
from musaagent.policies.offline import read_answers
from musaagent.policies.settings import ServedSettings
from musaagent.shared_target import SharedTarget
from musaagent.tools.task import check_task
from musaagent.traces.schema import AnswerReceived, CandidateRead, RewardGiven
from musaagent.traces.store import read_trajectory

TASKS, EPISODES = 3, 4


@pytest.fixture
def ops(tmp_path: Path, toy: Any) -> Path:
    folder = tmp_path / "ops"
    folder.mkdir()
    for number in range(TASKS):
        (folder / f"{number}.py").write_text(f"{toy.OP}\n# {number}\n")
    return folder


def settings(served: ServedSettings, **more: Any) -> EvalSettings:
    known: dict[str, Any] = {"policy": "served", "served": served, "episodes": EPISODES}
    return EvalSettings(**(known | {"max_turns": 3, "seed": 7} | more))


def texts(toy: Any, *kernels: str) -> list[dict[str, Any]]:
    return [{"kind": "answer", "text": toy.candidate(kernel)} for kernel in kernels]


def test_every_episode_is_a_sample(server: Any, toy: Any, ops: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    server.play(*texts(toy, "x + 1", "x * 2"), by_turn=True)
    results = evaluation.evaluate(
        ops, out, settings(server.settings()), jobs=6, target=toy.ToyTarget()
    )
    assert [(r.op, r.episode) for r in results] == [
        (f"{op}.py", n) for op in range(TASKS) for n in range(EPISODES)
    ]
    assert {r.status for r in results} == {"solved"}
    assert {r.turn_statuses for r in results} == {("mismatch", "passed")}
    assert all(r.token_exact for r in results)
    assert len({r.trajectory_id for r in results}) == TASKS * EPISODES
    seeds = [line["body"]["seed"] for line in server.requests()]
    assert len(set(seeds)) == len(seeds) == 2 * TASKS * EPISODES
    for result in results:
        trajectory = read_trajectory(Path(str(result.run)) / "trajectory.jsonl")
        assert trajectory.events[0].trajectory_id == result.trajectory_id
        scores = [event.reward.score for event in trajectory.all(RewardGiven)]
        assert scores == list(result.turn_scores)
        assert scores[-1] == 1.0
    expect_rows(out, [line["body"] for line in server.requests()])
    sums = collecting.summary(results)
    assert (sums["tasks"], sums["total"], sums["token_exact"]) == (3, 12, 12)
    assert sums["mean_score"] == 1.0


def expect_rows(out: Path, asked: list[dict[str, Any]]) -> None:
    """The reader that docs/collect.md shows gives a training row for every request."""
    page = Path(__file__).parents[2] / "docs/collect.md"
    code = page.read_text().partition("```python\n")[2].partition("```")[0]
    known: dict[str, Any] = {}
    exec(code, known)
    rows = list(known["rows"](out))
    assert len(rows) == len(asked)
    assert len({row["group"] for row in rows}) == TASKS
    assert len({row["rollout"] for row in rows}) == TASKS * EPISODES
    assert {(row["turn"], row["score"]) for row in rows} == {(1, -0.375), (2, 1.0)}
    assert all(len(row["response_ids"]) == len(row["logprobs"]) for row in rows)


def test_more_episodes_are_added(server: Any, toy: Any, ops: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    server.play(*texts(toy, "x * 2"))
    few = settings(server.settings(), episodes=2)
    evaluation.evaluate(ops, out, few, jobs=2, limit=2, target=toy.ToyTarget())
    before = (out / "results.jsonl").read_text()
    assert len(server.requests()) == 4
    more = settings(server.settings(), episodes=3)
    results = evaluation.evaluate(ops, out, more, jobs=2, limit=2, target=toy.ToyTarget())
    assert len(server.requests()) == 6
    assert (out / "results.jsonl").read_text().startswith(before)
    assert [r.episode for r in results] == [0, 1, 2] * 2
    # What goes on by itself keeps to the limit that was given.
    assert len(evaluation.go_on(out, target=toy.ToyTarget())) == 6
    with pytest.raises(UsageError, match="was made with max_turns 3"):
        evaluation.evaluate(ops, out, settings(server.settings(), max_turns=4))


class Interrupt:
    """An observer that stops the collection after some episodes."""

    def __init__(self, after: int) -> None:
        self.after = after

    def begin(self, total: int, known: int) -> None:
        self.total = total

    def finished(self, result: Any) -> None:
        self.after -= 1
        if not self.after:
            raise KeyboardInterrupt

    def end(self) -> None:
        pass


def test_interrupted_collection_asks_nothing_twice(
    server: Any, toy: Any, ops: Path, tmp_path: Path
) -> None:
    out, chosen = tmp_path / "out", settings(server.settings())
    replies = [r | {"chunk": 8, "delay": 0.01} for r in texts(toy, "x + 1", "x * 2")]
    server.play(*replies, by_turn=True)
    with pytest.raises(KeyboardInterrupt):
        evaluation.evaluate(ops, out, chosen, jobs=4, target=toy.ToyTarget(), observer=Interrupt(3))
    recorded = {
        event.answer.sampling["seed"]
        for path in out.rglob("trajectory.jsonl")
        if b"\n" in path.read_bytes()
        for event in read_trajectory(path).all(AnswerReceived)
    }
    asked = len(server.requests())
    results = evaluation.go_on(out, jobs=4, target=toy.ToyTarget())
    assert [r.status for r in results] == ["solved"] * (TASKS * EPISODES)
    again = {line["body"]["seed"] for line in server.requests()[asked:]}
    assert recorded
    assert not again & recorded


def answer_all(requests: Path, out: Path, toy: Any, kernel: str) -> int:
    """Answers to a whole batch, last request first."""
    asked = [json.loads(line) for line in requests.read_text().splitlines()]
    assert len({line["custom_id"] for line in asked}) == len(asked)
    assert len({line["body"]["seed"] for line in asked}) == len(asked)
    with out.open("w") as file:
        for line in reversed(asked):
            message = {"role": "assistant", "content": toy.candidate(kernel)}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            body = {"id": "c", "model": "toy-model", "choices": [choice]}
            response = {"status_code": 200, "body": body}
            record = {"custom_id": line["custom_id"], "response": response, "error": None}
            file.write(json.dumps(record) + "\n")
    return len(asked)


def test_offline_rounds_over_all_episodes(toy: Any, ops: Path, tmp_path: Path) -> None:
    out, batch = tmp_path / "out", tmp_path / "results.jsonl"
    chosen = settings(ServedSettings(model="toy-model"), policy="offline", seed=None)
    results = evaluation.evaluate(ops, out, chosen, jobs=4, target=toy.ToyTarget())
    assert {r.status for r in results} == {"awaiting_model"}
    counts = []
    for kernel in ("x + 1", "x - 1", "x * 2"):
        counts.append(answer_all(evaluation.requests_file(out), batch, toy, kernel))
        results = evaluation.go_on(out, read_answers(batch), jobs=4, target=toy.ToyTarget())
    assert counts == [TASKS * EPISODES] * 3
    assert not evaluation.requests_file(out).exists()
    assert {(r.status, r.turns) for r in results} == {("solved", 3)}
    assert not any(r.token_exact for r in results)
    sources = [
        [event.source for event in read_trajectory(path).all(CandidateRead)]
        for path in out.rglob("trajectory.jsonl")
    ]
    assert [len(found) for found in sources] == [3] * (TASKS * EPISODES)


def test_the_command_waits_and_tells(
    toy: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Exit code 4 on the host target, then 0 with the table by task: an unsolved one is data too."""
    ops, out, batch = tmp_path / "ops", tmp_path / "out", tmp_path / "results.jsonl"
    ops.mkdir()
    (ops / "relu.py").write_text(
        "import torch\n\nclass Model(torch.nn.Module):\n"
        "    def forward(self, x):\n        return torch.relu(x)\n\n"
        "def get_inputs():\n    return [torch.randn(8)]\n"
    )
    words = ["collect", str(ops), "--out", str(out), "--episodes", "2", "--max-turns", "1"]
    assert main([*words, "--policy", "offline", "--model", "toy-model"]) == 4
    assert "musaagent resume" in capfd.readouterr().out
    answer_all(out / "requests.jsonl", batch, toy, "x")
    batch.write_text(batch.read_text().replace("class ModelNew", "class Other"))
    evaluation.go_on(out, read_answers(batch), target=toy.ToyTarget())
    assert main(["resume", str(out)]) == 0  # with nothing left to do, and no target started
    said = capfd.readouterr().out
    assert "2 x extraction_error" in said
    assert "2 episodes of 1 task: 0 solved, 2 not solved" in said
    assert main(["show", str(out)]) == 0
    assert main(["show", str(out / "runs")]) == 2


def test_a_machine_is_not_asked_for_more_than_it_has(toy: Any) -> None:
    inside, most = [0], [0]
    lock = threading.Lock()

    class Slow(toy.ToyTarget):  # type: ignore[misc]
        def plan(self, task: Any) -> Any:
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            time.sleep(0.05)
            with lock:
                inside[0] -= 1
            return super().plan(task)

        def forget(self, task: Any) -> None:
            self.calls.append("forget")

    task, slow = check_task(Path("op.py"), toy.OP), Slow()
    shared = SharedTarget(slow, 2, ["op.py"] * 6)

    def run() -> None:
        shared.plan(task)
        shared.ended("op.py", task)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [2]
    assert slow.calls.count("forget") == 1
    assert slow.calls[-1] == "forget"
