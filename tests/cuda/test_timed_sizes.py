"""At which sizes a passed candidate is timed, with processes in jails; the card is the CPU."""

from pathlib import Path

import pytest

from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda import timed, timing
from musaagent.tools.cuda.bench import ReducedBench
from musaagent.tools.cuda.target import CudaTarget
from musaagent.tools.cuda.timed import with_times
from musaagent.tools.results import Status, Trial, Verdict
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import check_task

OP = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


batch_size = 600
dim = 2000


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
"""
ANSWER = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return OUTPUT
"""
OWN, REDUCED = ("float32[600, 2000]",), ("float32[30, 2000]",)


@pytest.fixture(autouse=True)
def _few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_ROUNDS", 3)
    monkeypatch.setattr(timing, "_ROUND_MS", 1.0)


def verdict_of(target: CudaTarget, output: str = "torch.relu(x)") -> Verdict:
    """Passed at 30 rows, then timed; there is no driver, so inputs go through host memory."""
    gpu = target.pool.gpus[0]
    passed = Verdict(
        status=Status.PASSED,
        target="cuda",
        trials=(Trial(name="seed 1", passed=True),),
        phase_seconds={"run": 1.0},
    )
    bench = ReducedBench(target, gpu, {"batch_size": 30})
    candidate = Candidate(source=ANSWER.replace("OUTPUT", output))
    options = VerifyOptions(baselines=("eager",))
    return with_times(bench, check_task(Path("op.py"), OP), candidate, options, passed)


def test_times_are_taken_at_own_sizes_whatever_the_trials_ran_at(target: CudaTarget) -> None:
    verdict = verdict_of(target)
    assert verdict.timing is not None, verdict
    assert verdict.timing.shapes == OWN
    assert not any("reduced" in flag for flag in verdict.timing.flags)
    why_not = verdict.timing.missing["shared memory"]
    assert why_not.startswith("in host memory: CardMemoryError: no such library")
    phases = verdict.phase_seconds
    assert {"run", "timing inputs", "baselines", "clock", "judge"} <= set(phases)
    assert phases["run"] == 1.0
    again = verdict_of(target)  # what the first one left is of no harm
    assert again.timing is not None
    assert again.timing.shapes == OWN


def test_what_does_not_fit_is_timed_reduced_and_says_so(
    target: CudaTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed, "fits_card", lambda plan, memory_mb: False)
    verdict = verdict_of(target)
    assert verdict.timing is not None, verdict
    assert verdict.timing.shapes == REDUCED
    assert verdict.timing.flags == ("timed at reduced shapes: the task's own are too large",)


def test_what_can_be_neither_shared_nor_sent_says_why(
    target: CudaTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("musaagent.tools.cuda.reference.MOST_SENT_BYTES", 1 << 20)
    monkeypatch.setattr(type(target), "candidate_entry", "on_cpu:cannot_map")
    verdict = verdict_of(target)
    assert verdict.timing is not None, verdict
    assert verdict.timing.shapes == REDUCED
    assert any(
        flag.startswith("not timed at the task's own sizes: 0.0 GiB of inputs")
        and "no such library" in flag
        for flag in verdict.timing.flags
    )


def test_who_is_wrong_at_own_sizes_only_has_not_passed(target: CudaTarget) -> None:
    verdict = verdict_of(target, "torch.relu(x) if len(x) < 100 else torch.zeros_like(x)")
    assert verdict.status is Status.MISMATCH
    assert verdict.message.startswith("while it was timed: output 0: ")
    assert verdict.timing is None


def test_a_candidate_without_memory_at_own_sizes_has_not_passed(target: CudaTarget) -> None:
    lack = "exec(\"raise RuntimeError('CUDA out of memory')\") if len(x) > 99 else torch.relu(x)"
    verdict = verdict_of(target, lack)
    assert verdict.status is Status.OOM
    assert verdict.message.startswith("while it was timed: ")
    assert verdict_of(target).timing is not None
