"""A model server of the tests' own, in a child process, and what it was asked."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from musaagent.policies.policy import PolicyRequest, TurnRecord
from musaagent.policies.served import ServedPolicy
from musaagent.policies.settings import ServedSettings
from musaagent.tools.opgraph import GraphValue, OpGraph, Plan, TensorMeta, Trap
from musaagent.tools.results import Status, Verdict

HERE = Path(__file__).parent
KEY = "sk-secret-of-the-tests-0123456789"


class FakeServer:
    """The process, its script and its log."""

    def __init__(self, folder: Path) -> None:
        self.script = folder / "script.json"
        self.log = folder / "server.log"
        self.play({"kind": "answer", "text": "hello"})
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "fake_server.py"), str(self.script), str(self.log)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.base_url = f"http://127.0.0.1:{self.port}/v1"

    def play(self, *replies: dict[str, Any], **more: Any) -> None:
        """What the next requests get; the last one for all after it."""
        self.script.write_text(json.dumps({"replies": replies, "context": 40960, **more}))

    def lines(self) -> list[dict[str, Any]]:
        text = self.log.read_text() if self.log.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def requests(self) -> list[dict[str, Any]]:
        return [line for line in self.lines() if "request" in line]

    def settings(self, **more: Any) -> ServedSettings:
        known: dict[str, Any] = {"base_url": self.base_url, "model": "toy-model"}
        return ServedSettings(**(known | {"backoff_s": 0.02} | more))

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeServer]:
    started = FakeServer(tmp_path)
    yield started
    started.stop()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user would set it."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def ask(server: FakeServer) -> Iterator[Any]:
    """Asks the server once, with a policy of the given settings."""
    opened: list[ServedPolicy] = []

    def propose(request: PolicyRequest | None = None, live: Any = None, **settings: Any) -> Any:
        policy = ServedPolicy(server.settings(**settings), live)
        opened.append(policy)
        return policy.propose(request or make_request())

    yield propose
    for policy in opened:
        policy.close()


def make_request(*turns: TurnRecord, **more: Any) -> PolicyRequest:
    meta = TensorMeta(shape=(16, 100), stride=(100, 1), dtype="float32")
    graph = OpGraph(
        inputs=(GraphValue(name="x", meta=meta),),
        parameters=(GraphValue(name="w", meta=meta, path="norm.weight"),),
    )
    plan = Plan(
        task="0123456789abcdef",
        graph=graph,
        output_shapes=("float32[16, 100]",),
        init_inputs="[100]",
        flops=3200,
        least_bytes=12800,
        traps=(
            Trap(name="train_mode_batchnorm", message="BatchNorm runs in train mode"),
            Trap(name="zeros_pass", message="an output of zeros would pass"),
        ),
    )
    known: dict[str, Any] = {
        "task_source": "class Model: ...\n",
        "plan": plan,
        "target": "host",
        "warp_size": 32,
        "turn": len(turns) + 1,
        "phase": "repair" if turns else "write",
        "feedback": "the newest feedback" if turns else "",
        "history": turns,
    }
    return PolicyRequest(**(known | more))


def make_turn(turn: int, answer: str, feedback: str = "", **more: Any) -> TurnRecord:
    verdict = Verdict(status=Status.RUNTIME_ERROR, target="host", message=f"fault {turn}")
    known: dict[str, Any] = {
        "turn": turn,
        "phase": "repair" if turn > 1 else "write",
        "candidate": "",
        "verdict": verdict,
        "answer": answer,
        "feedback": feedback,
    }
    return TurnRecord(**(known | more))


@pytest.fixture(scope="session")
def toy() -> ModuleType:
    path = HERE.parent / "agent" / "toy.py"
    spec = importlib.util.spec_from_file_location("musaagent_tests_toy_served", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def request_of() -> Any:
    return make_request


@pytest.fixture
def turn_of() -> Any:
    return make_turn
