"""The commands with the real host target: compilers, sandbox and all."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from musaagent.traces.schema import AnswerReceived, BuildDone
from musaagent.traces.store import read_trajectory

KEYS = {"status", "target", "candidate", "run", "turns", "verdict", "flags", "seconds"}

OP = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0


def get_inputs():
    return [torch.randn(64, 100)]
"""

WRONG = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>

__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * 2.0f;
}

torch::Tensor run(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    twice<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
ext = load_inline("twice", cpp_sources="torch::Tensor run(torch::Tensor x);",
                  cuda_sources=source, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x)
'''
RIGHT = WRONG.replace("x[i] * 2.0f", "x[i] > 0 ? x[i] * 2.0f : 0.0f")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "relu2.py").write_text(OP)
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers/1.txt").write_text(f"<think>hm</think>\n```python\n{WRONG}```\n")
    (tmp_path / "answers/2.txt").write_text(f"```python\n{RIGHT}```<|im_end|>")
    return tmp_path


def musaagent(*words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "musaagent", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=600,
        check=False,
    )


def only_object(done: "subprocess.CompletedProcess[str]") -> dict[str, object]:
    assert done.stdout.count("\n") == 1, done.stdout
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    assert answer.keys() >= KEYS
    return answer


def test_solve_with_the_builtin_policy(folder: Path) -> None:
    done = musaagent("solve", "relu2.py", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    answer = only_object(done)
    assert done.stderr == ""
    assert answer["status"] == "solved"
    verdict = answer["verdict"]
    assert isinstance(verdict, dict)
    assert (verdict["status"], verdict["checked"]) == ("passed", True)
    run = folder / str(answer["run"])
    assert run.parent == folder / "musaagent-runs"
    assert run.name.startswith("relu2-")
    assert "class ModelNew" in (folder / str(answer["candidate"])).read_text()
    report = (run / "report.md").read_text()
    assert report.startswith("# relu2: solved")
    assert "no speed-up is claimed" in report


def test_verify_says_what_is_wrong(folder: Path) -> None:
    done = musaagent("verify", "relu2.py", "wrong.py", "--seed", "1", "--json", cwd=folder)
    assert done.returncode == 1, done.stderr
    answer = only_object(done)
    assert (answer["status"], answer["candidate"], answer["run"]) == ("mismatch", "wrong.py", None)


def test_killed_solve_is_resumed(folder: Path) -> None:
    """SIGKILL while the first candidate is tested; its answer and its build are not asked again."""
    words = ("--policy", "scripted", "--answers", "answers", "--out", "run")
    with subprocess.Popen(
        [sys.executable, "-m", "musaagent", "solve", "relu2.py", *words], cwd=folder
    ) as process:
        path = folder / "run/trajectory.jsonl"
        deadline = time.monotonic() + 300
        while not (path.exists() and b'"kind":"build"' in path.read_bytes()):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    kept = path.read_bytes()
    done = musaagent("resume", "run", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    answer = only_object(done)
    assert (answer["status"], answer["turns"]) == ("solved", 2)
    assert path.read_bytes().startswith(kept)
    trajectory = read_trajectory(path)
    assert [event.turn for event in trajectory.all(AnswerReceived)][:2] == [1, 2]
    assert [event.turn for event in trajectory.all(BuildDone)][:2] == [1, 2]
    assert (folder / "run/candidate.py").read_text().strip() == RIGHT.strip()


def test_eval_prints_its_table(folder: Path) -> None:
    (folder / "ops").mkdir()
    (folder / "ops/1_relu.py").write_text(OP)
    (folder / "ops/2_broken.py").write_text("def get_inputs(): return []\n")
    words = ("ops", "--out", "run", "--jobs", "2", "--max-turns", "1")
    done = musaagent("eval", *words, cwd=folder)
    assert done.returncode == 3, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[1][:3] == ["1_relu.py", "solved", "1"]
    assert rows[2][:2] == ["2_broken.py", "failed"]
    assert "2 ops: 1 solved, 0 not solved, 1 failed" in done.stdout
    lines = [json.loads(line) for line in (folder / "run/results.jsonl").read_text().splitlines()]
    assert all(line.keys() >= KEYS for line in lines)
    shown = musaagent("eval", "--out", "run", "--table", cwd=folder)
    assert shown.stdout == done.stdout
    assert musaagent("show", "run", cwd=folder).stdout == done.stdout


def test_interrupted_batch_goes_on_with_the_same_command(folder: Path) -> None:
    """SIGINT to the whole group, as a terminal sends it, after the first row."""
    rows = [{"id": f"{i}", "task": "relu2.py", "candidate": "wrong.py"} for i in range(12)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("verify", "--batch", "rows.jsonl", "--out", "out.jsonl", "--jobs", "1")
    out = folder / "out.jsonl"
    with subprocess.Popen(
        [sys.executable, "-m", "musaagent", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + 300
        while not (out.exists() and out.read_bytes().count(b"\n")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "interrupted; the same command goes on" in said
    assert "Traceback" not in said
    kept = out.read_bytes()
    assert kept.count(b"\n") < 12
    done = musaagent(*words, cwd=folder)
    assert done.returncode == 1, done.stderr
    assert out.read_bytes().startswith(kept)
    results = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(r["id"] for r in results) == sorted(row["id"] for row in rows)
    assert {r["status"] for r in results} == {"mismatch"}
