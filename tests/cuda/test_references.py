"""Reference processes, seats on a card, and fresh memory; the card is the CPU, the jails are real."""

import contextlib
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from musaagent.errors import TaskError
from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda import devices
from musaagent.tools.cuda.bench import GpuBench
from musaagent.tools.cuda.reference import GpuReference
from musaagent.tools.cuda.target import CudaTarget
from musaagent.tools.gathered import Run
from musaagent.tools.results import MismatchKind, Status, Verdict
from musaagent.tools.steps import Ask, construct_again, run_once
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import Task, check_task

OP = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 4)

    def forward(self, x):
        return FORWARD


batch_size = 50
dim = 40


def get_inputs():
    return [INPUT]


def get_init_inputs():
    return []
"""
FLOATS, INTEGERS = "torch.randn(batch_size, dim)", "torch.randint(0, 9, (batch_size, dim))"


def task_of(forward: str = "torch.relu(x)", drawn: str = FLOATS) -> Task:
    return check_task(Path("op.py"), OP.replace("FORWARD", forward).replace("INPUT", drawn))


def reference_of(
    target: CudaTarget, task: Task, overrides: dict[str, int] | None = None
) -> GpuReference:
    return target.gpu_reference(task, target.pool.gpus[0], overrides)


def shape_expected(reference: GpuReference) -> tuple[int, ...]:
    return reference.expected(1).native[0].shape


def test_all_sizes_of_a_task_share_a_process_and_nothing_else(target: CudaTarget) -> None:
    task = task_of()
    own, few = reference_of(target, task), reference_of(target, task, {"batch_size": 3})
    assert few.child is own.child
    for reference in (own, few):
        reference.construct(1)
        reference.inputs(2)
    assert shape_expected(own) == (50, 40)
    assert shape_expected(few) == (3, 40)
    target.forget(task)
    assert not own.alive


def test_a_size_at_which_the_task_fails_ends_no_process(target: CudaTarget) -> None:
    task = task_of()
    own = reference_of(target, task)
    with pytest.raises(TaskError, match="negative dimension"):
        reference_of(target, task, {"batch_size": -3})
    assert own.alive
    target.forget(task)


def test_a_lost_process_is_started_again_for_all_sizes(target: CudaTarget) -> None:
    task = task_of()
    own, few = reference_of(target, task), reference_of(target, task, {"batch_size": 3})
    own.child.kill()
    again = reference_of(target, task)
    assert again.alive
    assert again.child is not own.child
    assert reference_of(target, task, {"batch_size": 3}).child is again.child
    assert not few.alive
    target.forget(task)


def test_integers_below_zero_are_sent_only_where_the_op_takes_them(target: CudaTarget) -> None:
    for forward, taken in (("x * 2", True), ("self.table(x)", False)):
        task = task_of(forward, INTEGERS)
        reference = reference_of(target, task)
        reference.construct(1)
        reference.inputs(2)
        assert (reference.stressed(3, "integers") is not None) == taken, forward
        assert reference.alive
        target.forget(task)


class Crowded(CudaTarget):
    """Notes how many verdicts are in the making at once."""

    here, most = 0, 0
    counting = threading.Lock()

    def find_cards(self) -> tuple[devices.GpuInfo, ...]:
        return (devices.GpuInfo(0, "GPU-crowd", "a card", "sm_90", 4096, "1"),)

    def _verify_in_turn(self, *args: object) -> Verdict:
        with self.counting:
            self.here += 1
            self.most = max(self.most, self.here)
        time.sleep(0.02)
        with self.counting:
            self.here -= 1
        return Verdict(status=Status.ILLEGAL, target="cuda")


def test_few_candidates_at_a_time_are_on_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_SEATS", 3)
    with Crowded() as target, ThreadPoolExecutor(12) as pool:
        tasks = [task_of(f"torch.relu(x) + {i}") for i in range(24)]
        verdicts = [
            pool.submit(target.verify, task, Candidate(source=""), VerifyOptions())
            for task in tasks
        ]
        assert {v.result().status for v in verdicts} == {Status.ILLEGAL}
        assert target.most == 3


COPIES = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.clone()\n"


@pytest.mark.parametrize("alone", [False, True])
def test_a_whole_verdict_comes_to_its_end(
    target: CudaTarget, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it has the card alone, its process that is started ahead may come in too."""
    monkeypatch.setattr(type(target), "candidate_entry", "on_cpu:runs")
    task, gpu = task_of("x.clone()"), target.pool.gpus[0]
    options = VerifyOptions(timing=False, seed=3)
    found: list[Verdict] = []

    def judge() -> None:
        with gpu.alone() if alone else contextlib.nullcontext():
            found.append(target._verify_on(gpu, task, Candidate(source=COPIES), options))

    thread = threading.Thread(target=judge, daemon=True)
    thread.start()
    thread.join(60)
    assert found, "no end"
    assert found[0].status is Status.PASSED, found[0].message
    assert {"negative", "as constructed", "odd sizes"} <= {p.name for p in found[0].probes}
    target.forget(task)


ALLOCATIONS = (
    "torch.empty_like(x)",
    "torch.empty(x.shape)",
    "torch.empty_strided(x.shape, (1, x.shape[0]))",
    "x.new_empty(x.shape)",
    "x.new_empty_strided(x.shape, (x.shape[1], 1))",
    "torch.empty(2, *x.shape)[1]",
)


@pytest.mark.parametrize("made", ALLOCATIONS)
def test_fresh_memory_of_python_reads_as_nan(
    target: CudaTarget, made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what a kernel leaves out may hold the last call's right values (exploit 21)."""
    monkeypatch.setattr(type(target), "candidate_entry", "on_cpu:runs")
    task, bench = task_of(), GpuBench(target, target.pool.gpus[0])
    source = f"import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return {made}\n"
    options, draw = VerifyOptions(), random.Random(5)
    reference = reference_of(target, task)
    session = bench.open_candidate(options, checked=False)
    try:
        construct_again(session, reference, Candidate(source=source), 1)
        for deep in (False, True):
            run = Run(target="cuda", seed=1)
            judged = run_once(run, session, reference, options, draw, Ask(every_thread=deep))
            assert judged.kind is MismatchKind.NONFINITE, judged
            assert "2000 of 2000 values are NaN" in judged.message
            assert "PyTorch did" not in judged.illegal
    finally:
        session.close()
        target.forget(task)


WAITS = """import sys, threading, time
import torch
sys.setswitchinterval(1e-5)
known = {}


def compute():
    while True:
        x = known.get("x")
        if x is not None and not torch.equal(x, known["last"]):
            known["out"] = torch.relu(x)
            known["last"] = x.clone()
            known["done"] = True
        time.sleep(1e-5)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if "x" not in known:
            known.update(x=x, last=x.clone())
            threading.Thread(target=compute, daemon=True).start()
            return x.clone()
        for _ in range(20000):
            if known.pop("done", False):
                break
            time.sleep(1e-4)
        return known["out"].clone()
"""


def test_a_thread_that_waits_for_the_next_inputs_is_recorded(
    target: CudaTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs reach the buffers, which it knows, within the record (exploit 10)."""
    monkeypatch.setattr(type(target), "candidate_entry", "on_cpu:runs")
    task, bench, draw = task_of(), GpuBench(target, target.pool.gpus[0]), random.Random(6)
    reference = reference_of(target, task)
    session = bench.open_candidate(VerifyOptions(), checked=False)
    try:
        construct_again(session, reference, Candidate(source=WAITS), 1)
        ask, run = Ask(every_thread=True), Run(target="cuda", seed=1)
        first = run_once(run, session, reference, VerifyOptions(), draw, ask)
        assert first.kind is MismatchKind.NUMERIC
        second = run_once(run, session, reference, VerifyOptions(), draw, ask)
        assert second.kind is None, second
        assert "relu" in second.illegal
    finally:
        session.close()
        target.forget(task)
