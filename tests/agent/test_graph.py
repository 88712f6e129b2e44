"""The routes through the graph, with a real target and a real trajectory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from musaagent.app import resume
from musaagent.errors import SandboxLost
from musaagent.graph import after_answer, after_evidence, graph_mermaid, step_limit
from musaagent.state import State
from musaagent.traces.schema import (
    AnswerReceived,
    FeedbackGiven,
    RewardGiven,
    RunStatus,
    StopReason,
    VerdictReached,
)
from musaagent.traces.store import read_trajectory

Play = Callable[..., Any]


@pytest.mark.parametrize(
    ("outcome", "turn", "node"),
    [
        ("built", 1, "test"),
        ("built", 6, "test"),
        ("passed", 6, "profile"),
        ("failed", 5, "revise"),
        ("failed", 6, "__end__"),
        ("improvable", 5, "revise"),
        ("improvable", 6, "__end__"),
        ("done", 1, "__end__"),
    ],
)
def test_evidence_routes(outcome: Any, turn: int, node: str) -> None:
    assert after_evidence(State(max_turns=6, turn=turn, outcome=outcome)) == node


def test_answer_routes() -> None:
    assert after_answer(State()) == "compile"
    assert after_answer(State(stop="refused")) == "__end__"


def test_right_candidate_is_solved_in_one_turn(play: Play) -> None:
    played = play("x * 2")
    assert played.result.status is RunStatus.SOLVED
    assert played.result.stop is StopReason.GOAL
    assert (played.result.turns, played.result.best_turn) == (1, 1)
    assert played.target.calls == ["plan", "build", "verify", "profile"]
    assert (played.out / "candidate.py").read_text().startswith("KERNEL = 'x * 2'")
    assert not (played.out / "attempt.py").exists()


def test_compile_error_then_mismatch_then_right(play: Play) -> None:
    played = play("x *", "x + 2", "x * 2")
    assert played.result.status is RunStatus.SOLVED
    assert played.result.best_turn == 3
    assert [r.phase for r in played.policy.requests] == ["write", "repair", "repair"]
    first, second = played.trajectory.all(FeedbackGiven)
    assert "cuda_sources[0]:1: error: invalid syntax" in first.text
    assert "expected 2, got 3" in second.text
    assert [e.reward.score for e in played.trajectory.all(RewardGiven)] == [-1.0, -0.375, 1.0]


def test_verify_is_not_called_for_what_does_not_compile(play: Play) -> None:
    played = play("x *", max_turns=1)
    assert played.target.calls == ["plan", "build"]
    assert played.result.status is RunStatus.NOT_SOLVED
    assert played.result.stop is StopReason.BUDGET
    assert played.result.candidate is None
    assert played.result.attempt == str(played.out / "attempt.py")


def test_policy_sees_its_history(play: Play) -> None:
    played = play("x *", "x + 2", "x * 2")
    last = played.policy.requests[-1]
    assert [record.turn for record in last.history] == [1, 2]
    assert [record.verdict.status for record in last.history] == ["compile_error", "mismatch"]
    assert [record.policy_state for record in last.history] == [{"turn": 1}, {"turn": 2}]
    assert "x + 2" in last.history[1].candidate


def test_optimise_keeps_the_cheaper_candidate(play: Play) -> None:
    played = play("x + x", "x * 2")
    assert [r.phase for r in played.policy.requests] == ["write", "optimise"]
    assert "load x once" in played.policy.requests[1].feedback
    assert played.result.best_turn == 2


def test_best_is_kept_not_last(play: Play) -> None:
    played = play("x + x", "x + x + x - x", "x *", "x + 1", max_turns=4)
    assert played.result.status is RunStatus.SOLVED
    assert (played.result.turns, played.result.best_turn) == (4, 1)
    assert "'x + x'" in (played.out / "candidate.py").read_text()
    phases = [r.phase for r in played.policy.requests]
    assert phases == ["write", "optimise", "optimise", "repair"]
    assert "The candidate of turn 1 passed; this change broke it." in (
        played.policy.requests[3].feedback
    )


def test_equal_cost_keeps_the_earlier(play: Play) -> None:
    played = play("x + x", "0 + x + x", max_turns=2)
    assert played.result.best_turn == 1


def test_furthest_attempt_is_kept_when_none_passes(play: Play) -> None:
    played = play("x *", "x + 2", "x + 1", "x *", max_turns=4)
    assert played.result.status is RunStatus.NOT_SOLVED
    assert played.result.best_turn == 2  # 3 of 4 elements wrong, as in turn 3, and earlier
    assert "'x + 2'" in (played.out / "attempt.py").read_text()
    assert played.result.verdict.status == "mismatch"


def test_refusal_ends_the_run(play: Play) -> None:
    played = play()
    assert played.result.status is RunStatus.NOT_SOLVED
    assert played.result.stop is StopReason.REFUSED
    assert played.result.reason == "out of answers"
    assert played.result.turns == 0
    assert played.target.calls == ["plan"]


def test_refusal_to_optimise_keeps_the_solution(play: Play) -> None:
    played = play("x + x")
    assert played.result.status is RunStatus.SOLVED
    assert played.result.stop is StopReason.REFUSED
    assert played.result.reason == ""


def test_repeated_candidate_ends_the_optimise_phase(play: Play) -> None:
    played = play("x + x", "x + x", "x * 2")
    assert played.result.stop is StopReason.REPEATED
    assert len(played.policy.requests) == 2


def test_repeated_failure_is_not_judged_again_but_said(play: Play) -> None:
    played = play("x + 2", "x + 2", "x * 2")
    assert played.target.calls.count("verify") == 2
    verdicts = played.trajectory.all(VerdictReached)
    assert [v.same_as_turn for v in verdicts] == [None, 1, None]
    assert played.policy.requests[2].feedback.startswith("This is the candidate of turn 1 again")


def test_answer_without_a_candidate_is_a_turn(play: Play, toy: Any) -> None:
    played = play("I cannot.", toy.candidate("x * 2"), raw=True)
    assert played.result.status is RunStatus.SOLVED
    assert played.result.best_turn == 2
    first = played.trajectory.all(VerdictReached)[0]
    assert first.verdict.status == "extraction_error"
    assert "complete Python code block" in played.policy.requests[1].feedback


def test_our_failure_is_raised_and_the_run_goes_on(play: Play, toy: Any, tmp_path: Path) -> None:
    with pytest.raises(SandboxLost, match="lost in verify"):
        play("x * 2", lost=("verify",))
    target, policy = toy.ToyTarget(), toy.ToyPolicy([])
    result = resume(tmp_path / "run", target=target, policy=policy)
    assert result.status is RunStatus.SOLVED
    assert target.calls == ["verify", "profile"]
    assert policy.requests == []
    trajectory = read_trajectory(tmp_path / "run/trajectory.jsonl")
    assert len(trajectory.all(AnswerReceived)) == 1


def test_longest_run_fits_the_step_limit(play: Play) -> None:
    kernels = [f"x + x + {n} - {n}" for n in range(6)]
    played = play(*kernels)
    assert played.result.turns == 6
    assert step_limit(6) == 26


def test_readme_shows_the_graph() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    shown = readme.split("<!-- graph -->")[1].split("<!-- /graph -->")[0]
    assert shown.strip() == f"```mermaid\n{graph_mermaid()}\n```"
