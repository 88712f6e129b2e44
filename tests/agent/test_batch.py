"""verify --batch, with the toy target."""

import json
from pathlib import Path

import pytest

from musaagent.batch import finished_ids, read_manifest, verify_batch
from musaagent.errors import UsageError
from musaagent.tools.candidate import Candidate
from musaagent.tools.host.target import HostTarget
from musaagent.tools.results import Verdict
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import Task

OP = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return BODY


def get_inputs():
    return [torch.randn(16, 32)]


def get_init_inputs():
    return []
"""
CALLS_TORCH = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return BODY
"""


def test_manifest_rows_and_their_faults(tmp_path: Path) -> None:
    manifest = tmp_path / "m.jsonl"
    row = {"id": "a", "task": "op.py", "candidate": "c.py"}
    manifest.write_text(json.dumps(row) + "\n\n")
    (read,) = read_manifest(manifest)
    assert (read.id, read.task, read.candidate) == ("a", tmp_path / "op.py", tmp_path / "c.py")
    for text, words in (
        ("{", "line 1: not JSON"),
        ('{"id": "a"}', "line 1: a row needs"),
        (json.dumps(row) + "\n" + json.dumps(row), "line 2: the id 'a' is there twice"),
        ("\n \n", "is empty"),
    ):
        manifest.write_text(text)
        with pytest.raises(UsageError, match=words):
            read_manifest(manifest)


def test_a_half_written_line_is_cut_off(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    out.write_text('{"id": "a", "status": "passed"}\n{"id": "b", "sta')
    assert finished_ids(out) == {"a"}
    assert out.read_text().endswith("}\n")
    assert finished_ids(tmp_path / "none.jsonl") == set()
    out.write_text("text\n")
    with pytest.raises(UsageError, match="line 1: not a result"):
        finished_ids(out)


class Remembers(HostTarget):
    """The host target; which tasks are held, and how many at most."""

    def __init__(self) -> None:
        super().__init__(compile_for_gpu=False)
        self.held: set[str] = set()
        self.most = 0

    def verify(self, task: Task, candidate: Candidate, options: VerifyOptions) -> Verdict:
        self.held.add(task.hash)
        self.most = max(self.most, len(self.held))
        return super().verify(task, candidate, options)

    def forget(self, task: Task) -> None:
        super().forget(task)
        self.held.discard(task.hash)


def test_a_task_is_forgotten_with_its_last_row(tmp_path: Path) -> None:
    """Its processes would stay until the end: a batch may be of thousands."""
    rows = []
    for number, name in enumerate(("row_sum", "relu", "row_sum", "lost", "relu")):
        body = {"row_sum": "x.sum(1)", "relu": "torch.relu(x)"}.get(name, "x")
        (tmp_path / f"{name}.py").write_text(OP.replace("BODY", body))
        row = {"id": f"{number}", "task": f"{name}.py", "candidate": f"{number}.py"}
        rows.append(json.dumps(row))
        if name != "lost":
            (tmp_path / f"{number}.py").write_text(CALLS_TORCH.replace("BODY", body))
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_text("\n".join(rows) + "\n")
    options = VerifyOptions(trials=1, probes=False)
    with Remembers() as target:
        counts = verify_batch(manifest, tmp_path / "out.jsonl", target, options, jobs=1)
        assert counts == {"illegal": 4, "infra_error": 1}
        assert target.held == set()
        assert target.most <= 2
