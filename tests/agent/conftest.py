"""The toy target and policy, as a module and as runs in a temporary folder."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from musaagent.app import solve
from musaagent.result import RunResult
from musaagent.traces.store import Trajectory, read_trajectory

TOY = Path(__file__).with_name("toy.py")


@pytest.fixture(scope="session")
def toy() -> ModuleType:
    spec = importlib.util.spec_from_file_location("musaagent_tests_toy", TOY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def op(tmp_path: Path, toy: ModuleType) -> Path:
    path = tmp_path / "double.py"
    path.write_text(toy.OP)
    return path


@pytest.fixture
def play(tmp_path: Path, toy: ModuleType, op: Path) -> Callable[..., "Played"]:
    """Solve with the toy target and the given kernels, one a turn."""

    def run(*kernels: str, raw: bool = False, lost: tuple[str, ...] = (), **more: Any) -> Played:
        answers = list(kernels) if raw else [toy.candidate(kernel) for kernel in kernels]
        target, policy = toy.ToyTarget(lost=lost), toy.ToyPolicy(answers)
        out = tmp_path / "run"
        result = solve(op, target=target, policy=policy, out=out, **more)
        return Played(result, target, policy, read_trajectory(out / "trajectory.jsonl"), out)

    return run


class Played:
    """One solved run and everything that took part in it."""

    def __init__(
        self, result: RunResult, target: Any, policy: Any, trajectory: Trajectory, out: Path
    ) -> None:
        self.result = result
        self.target = target
        self.policy = policy
        self.trajectory = trajectory
        self.out = out
