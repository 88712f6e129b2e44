"""One host target for all tests here, and what runs a task through the builtin policy."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from musaagent.policies.builtin import BuiltinPolicy
from musaagent.policies.builtin.generate import Generated, generate
from musaagent.policies.builtin.schedule import Schedule
from musaagent.policies.policy import Phase, PolicyAnswer, PolicyRequest, TurnRecord
from musaagent.tools.candidate import Candidate
from musaagent.tools.extract import ExtractionError, extract
from musaagent.tools.host.target import HostTarget
from musaagent.tools.opgraph import Plan
from musaagent.tools.results import Verdict
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import load_task
from musaagent.tools.trace import trace


@pytest.fixture(scope="session")
def target() -> Iterator[HostTarget]:
    with HostTarget() as opened:
        yield opened


@pytest.fixture(scope="session")
def plan_of() -> Callable[..., Plan]:
    return _plan_of


@pytest.fixture(scope="session")
def generated() -> Callable[..., Generated]:
    return _generated


@pytest.fixture(scope="session")
def asked() -> Callable[..., PolicyRequest]:
    return _request


def _plan_of(source: str, overrides: Mapping[str, int] | None = None) -> Plan:
    """The plan of a task of our own, traced here."""
    own = trace(source)
    assert own.graph is not None, own.error
    scaled = trace(source, overrides) if overrides else own
    assert scaled.graph is not None, scaled.error
    return Plan(task="test", graph=own.graph, scaled_graph=scaled.graph)


def _generated(
    source: str,
    overrides: Mapping[str, int] | None = None,
    schedule: Schedule | None = None,
    target: str = "cuda",
) -> Generated:
    return generate(source, _plan_of(source, overrides), target, schedule or Schedule())


def _request(
    source: str,
    plan: Plan,
    history: tuple[TurnRecord, ...] = (),
    phase: Phase = "write",
    target: str = "host",
) -> PolicyRequest:
    return PolicyRequest(
        task_source=source,
        plan=plan,
        target=target,
        warp_size=32,
        turn=len(history) + 1,
        phase=phase,
        history=history,
    )


def candidate_of(answer: PolicyAnswer) -> Candidate:
    assert not answer.refusal, answer.refusal
    found = extract(answer.text)
    assert not isinstance(found, ExtractionError), found
    return found


@pytest.fixture
def first_verdict(target: HostTarget, tmp_path: Path) -> Callable[..., Verdict]:
    """Plans a task, lets the policy write once, and judges that."""

    def run(
        source: str, *, check: bool = True, warp: int = 32, atol: float | None = None
    ) -> Verdict:
        path = tmp_path / "op.py"
        path.write_text(source)
        task = load_task(path)
        answer = BuiltinPolicy().propose(_request(source, target.plan(task)))
        options = VerifyOptions(
            check=check,
            trials=2,
            warp_size=128 if warp == 128 else 32,
            atol=atol,
            probes=False,  # the verifier's own tests have those
        )
        return target.verify(task, candidate_of(answer), options)

    return run
