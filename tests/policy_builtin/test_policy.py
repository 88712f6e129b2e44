"""Propose, repair, optimise: what each kind of feedback changes, and that nothing comes twice."""

from collections.abc import Callable
from typing import Any

import pytest

from musaagent.policies.builtin import BuiltinPolicy
from musaagent.policies.policy import PolicyAnswer, PolicyRequest, TurnRecord
from musaagent.policies.scripted import ScriptedPolicy
from musaagent.tools.extract import ExtractionError, extract
from musaagent.tools.opgraph import Plan
from musaagent.tools.results import (
    Build,
    Diagnostic,
    MismatchKind,
    Profile,
    Status,
    Trial,
    Verdict,
)

SOFTMAX = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)
def get_inputs():
    return [torch.randn(64, 1000)]
def get_init_inputs():
    return []
"""
OUTSIDE = SOFTMAX.replace("torch.softmax(x, -1)", "torch.fft.fft(x).real")


def failed(status: Status, message: str = "") -> dict[str, Any]:
    build = Build(ok=True)
    if status is Status.COMPILE_ERROR:
        found = Diagnostic(tool="nvcc", severity="error", message=message)
        build = Build(ok=False, diagnostics=(found,))
    kind = MismatchKind.NUMERIC if status is Status.MISMATCH else None
    return {"verdict": Verdict(status=status, target="host", kind=kind, build=build)}


def passed(bound: str) -> dict[str, Any]:
    verdict = Verdict(status=Status.PASSED, target="cuda", trials=(Trial(name="1", passed=True),))
    return {"verdict": verdict, "profile": Profile(target="cuda", engine="", bound=bound)}


class Run:
    """A policy and its turns so far."""

    def __init__(self, source: str, plan: Plan, asked: Callable[..., PolicyRequest]) -> None:
        self.source, self.plan, self.asked = source, plan, asked
        self.policy = BuiltinPolicy()
        self.turns: tuple[TurnRecord, ...] = ()

    def turn(self, phase: str, **evidence: Any) -> PolicyAnswer:
        answer = self.policy.propose(
            self.asked(self.source, self.plan, history=self.turns, phase=phase)
        )
        found = extract(answer.text) if answer.text else None
        assert not isinstance(found, ExtractionError)
        record = TurnRecord(
            turn=len(self.turns) + 1,
            phase=phase,  # type: ignore[arg-type]
            candidate=found.source if found else "",
            policy_state=answer.policy_state,
            **evidence,
        )
        self.turns = (*self.turns, record)
        return answer

    @property
    def texts(self) -> list[str]:
        return [turn.candidate for turn in self.turns if turn.candidate]


@pytest.fixture
def run(plan_of: Callable[..., Plan], asked: Callable[..., PolicyRequest]) -> Run:
    return Run(SOFTMAX, plan_of(SOFTMAX), asked)


def schedule(answer: PolicyAnswer) -> dict[str, Any]:
    return answer.policy_state["schedule"]  # type: ignore[no-any-return]


def test_the_first_answer_is_one_block_with_its_schedule(run: Run) -> None:
    answer = run.turn("write")
    assert answer.text.count("```") == 2
    assert "class ModelNew(nn.Module)" in run.texts[0]
    assert schedule(answer)["fuse"] is True


def test_the_same_request_gets_the_same_answer(run: Run) -> None:
    request = run.asked(SOFTMAX, run.plan)
    assert run.policy.propose(request).text == BuiltinPolicy().propose(request).text


def test_a_mismatch_makes_sums_precise_first(run: Run) -> None:
    run.turn("write", **failed(Status.MISMATCH))
    answer = run.turn("repair", **failed(Status.MISMATCH))
    assert schedule(answer)["precise"] is True
    assert "double acc" in run.texts[1]


def test_too_much_shared_memory_makes_blocks_smaller(run: Run) -> None:
    message = "ptxas error: Entry function uses too much shared data (0x20000 bytes)"
    first = run.turn("write", **failed(Status.COMPILE_ERROR, message))
    answer = run.turn("repair")
    assert schedule(answer)["block"] < schedule(first)["block"]
    assert schedule(answer)["fuse"] is True


def test_any_other_diagnostic_ends_at_the_plainest_form(run: Run) -> None:
    run.turn("write", **failed(Status.COMPILE_ERROR, "expected ';'"))
    answer = run.turn("repair")
    assert schedule(answer)["vector"] == 1


@pytest.mark.parametrize("status", [Status.MISMATCH, Status.RUNTIME_ERROR, Status.TIMEOUT])
def test_repairs_never_repeat_and_come_to_an_end(run: Run, status: Status) -> None:
    run.turn("write", **failed(status))
    for _ in range(20):
        answer = run.turn("repair", **failed(status))
        if answer.refusal:
            break
    assert answer.refusal == "no further schedule"
    assert len(set(run.texts)) == len(run.texts) >= 2


def test_optimising_goes_on_from_the_last_profile_and_ends(run: Run) -> None:
    run.turn("write", **passed("memory"))
    for _ in range(40):
        answer = run.turn("optimise", **passed("memory"))
        if answer.refusal:
            break
    assert answer.refusal == "no further schedule"
    assert len(set(run.texts)) == len(run.texts) >= 4


def test_latency_asks_for_other_blocks_before_wider_accesses(run: Run) -> None:
    run.turn("write", **passed("latency"))
    assert schedule(run.turn("optimise"))["block"] != 256


def on_host(**counters: float) -> dict[str, Any]:
    profile = Profile(target="host", engine="", bound="memory", counters=counters)
    return {**passed("memory"), "profile": profile}


def test_without_times_no_turn_goes_to_what_only_time_shows(run: Run) -> None:
    run.turn("write", **on_host(global_bytes=900.0))
    assert run.turn("optimise").refusal == "no further schedule"


def test_on_host_spills_make_blocks_smaller_while_it_helps(run: Run) -> None:
    first = run.turn("write", **on_host(spill_bytes=64.0))
    second = run.turn("optimise", **on_host(spill_bytes=32.0))
    third = run.turn("optimise", **on_host(spill_bytes=32.0))
    assert schedule(third)["block"] < schedule(second)["block"] < schedule(first)["block"]
    assert run.turn("optimise").refusal == "no further schedule"


def test_outside_the_families_the_op_is_named(
    plan_of: Callable[..., Plan], asked: Callable[..., PolicyRequest]
) -> None:
    answer = BuiltinPolicy().propose(asked(OUTSIDE, plan_of(OUTSIDE)))
    assert answer.refusal == "no family for aten.fft_fft.default"
    assert not answer.text


def test_without_a_trace_the_reason_is_passed_on(asked: Callable[..., PolicyRequest]) -> None:
    plan = Plan(task="t", graph=None, trace_error="line 3: data-dependent")
    answer = BuiltinPolicy().propose(asked(SOFTMAX, plan))
    assert "data-dependent" in answer.refusal


def test_a_script_is_played_by_turn(
    plan_of: Callable[..., Plan], asked: Callable[..., PolicyRequest]
) -> None:
    plan, policy = plan_of(SOFTMAX), ScriptedPolicy(["x = 1", "```python\ny = 2\n```"])
    history = tuple(TurnRecord(turn=k + 1, phase="write", candidate="") for k in range(2))
    assert policy.propose(asked(SOFTMAX, plan)).text == "```python\nx = 1\n```\n"
    assert "y = 2" in policy.propose(asked(SOFTMAX, plan, history=history[:1])).text
    assert (
        policy.propose(asked(SOFTMAX, plan, history=history)).refusal == "the script has 2 answers"
    )
