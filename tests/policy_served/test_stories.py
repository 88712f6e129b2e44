"""Worked repairs on the host target: a wrong answer, what the model is told, the right answer.

One story for each way to fail. What is asserted of the feedback is what a model needs to mend it.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from musaagent.app import solve
from musaagent.tools.host.target import HostTarget
from musaagent.traces.schema import FeedbackGiven, VerdictReached
from musaagent.traces.store import read_trajectory

OP = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0


def get_inputs():
    return [torch.randn(64, 100)]
"""

RIGHT = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>

__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] > 0 ? x[i] * 2.0f : 0.0f;
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
ANSWER = f"<think>one thread for each element</think>\n```python\n{RIGHT}```"

STORIES = {
    "extraction_error": (
        {"kind": "answer", "text": ANSWER[:700], "finish": "length"},
        [
            "hit its length limit inside its code block",
            "Think more briefly and write less code",
            "one complete Python code block that defines ModelNew",
        ],
    ),
    "compile_error": (
        {"kind": "answer", "text": ANSWER.replace("y[i] = x[i] > 0", "y[idx] = x[i] > 0")},
        [
            "It does not compile. Mend this error first:",
            "cuda_sources[0]:6:",
            "'idx' was not declared",
            "if (i < n) y[idx] = x[i] > 0 ? x[i] * 2.0f : 0.0f;",
        ],
    ),
    "runtime_error": (
        {
            "kind": "answer",
            "text": ANSWER.replace("i < n", "i <= n").replace("(n + 255) / 256", "n / 256 + 1"),
        },
        [
            "out_of_bounds in twice, block (25, 0, 0), thread (0, 0, 0), cuda_sources[0]:6: read",
            "Launched: twice<<<(26, 1, 1), (256, 1, 1)",
            "Guard each index by the number of elements",
        ],
    ),
    "mismatch": (
        {"kind": "answer", "text": ANSWER.replace("(n + 255) / 256", "n / 512")},
        [
            "The nonfinite is wrong",
            "Likely cause: the tail is not handled: the grid is too small",
            "all elements from number 3072 of 6400 in memory order on",
            "expected",
            "Trials passed: 0 of",
        ],
    ),
    "illegal": (
        {
            "kind": "answer",
            "text": ANSWER.replace("return ext.run(x)", "return torch.relu(ext.run(x))"),
        },
        ["It failed with illegal", "relu", "Do the work in your own kernels"],
    ),
}


@pytest.fixture(scope="module")
def host() -> Iterator[HostTarget]:
    with HostTarget() as target:
        yield target


@pytest.mark.parametrize("status", STORIES)
def test_story(status: str, server: Any, host: HostTarget, tmp_path: Path) -> None:
    wrong, needed = STORIES[status]
    op = tmp_path / "relu2.py"
    op.write_text(OP)
    server.play(wrong, {"kind": "answer", "text": ANSWER})
    result = solve(
        op,
        target=host,
        policy="served",
        served=server.settings(),
        out=tmp_path / "run",
        max_turns=2,
    )
    trajectory = read_trajectory(tmp_path / "run/trajectory.jsonl")
    assert trajectory.all(VerdictReached)[0].verdict.status == status
    told = trajectory.all(FeedbackGiven)[0].text
    for part in needed:
        assert part in told, told
    sent = server.requests()[1]["body"]["messages"][-1]["content"]
    assert told in sent
    assert sent.startswith("=== System Feedback for Round 1 ===")
    assert (result.status, result.best_turn) == ("solved", 2), result.reason


def test_the_command_itself(server: Any, tmp_path: Path) -> None:
    """`musaagent solve op.py --policy served --base-url ... --model ...`, wrong then right."""
    (tmp_path / "relu2.py").write_text(OP)
    server.play(STORIES["mismatch"][0], {"kind": "answer", "text": ANSWER})
    words = ["--policy", "served", "--base-url", server.base_url, "--model", "toy-model"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "musaagent",
            "solve",
            "relu2.py",
            *words,
            "--max-turns",
            "3",
            "--json",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["status"], result["best_turn"]) == ("solved", 2)
    shown = server.requests()[0]["body"]
    assert shown["model"] == "toy-model"
    assert "torch.relu(x) * 2.0" in shown["messages"][0]["content"]
    report = next(tmp_path.glob("musaagent-runs/*/report.md")).read_text()
    assert "`toy-model`" in report
