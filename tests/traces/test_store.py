"""The trajectory file: what is appended is there, and what is damaged is said."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from musaagent.errors import UsageError
from musaagent.policies.policy import PolicyAnswer
from musaagent.tools.candidate import content_hash
from musaagent.tools.opgraph import GraphNode, OpGraph, Plan
from musaagent.tools.results import ErrorSample, MismatchKind, OutputError, Status, Verdict
from musaagent.traces.schema import (
    AnswerReceived,
    CandidateRead,
    Environment,
    FeedbackGiven,
    PlanMade,
    RunResumed,
    RunSettings,
    RunStarted,
    VerdictReached,
    event_id,
    trajectory_id,
)
from musaagent.traces.store import TraceStore, read_trajectory

GOLDEN = Path(__file__).with_name("golden_v1.jsonl")
MACHINE = Environment(
    musaagent="0.1.0",
    python="3.11.7",
    torch="2.15.0",
    compiler="g++ 12",
    nvcc="none",
    machine="Linux",
    cpu="x",
    cpu_count=2,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trajectory.jsonl"


def begin(path: Path) -> TraceStore:
    trace = TraceStore.create(path, "0123456789abcdef")
    trace.record(
        RunStarted,
        0,
        task_name="op",
        task_hash="h",
        task_source="s",
        settings=RunSettings(),
        environment=MACHINE,
    )
    return trace


def test_what_is_recorded_is_read_again(path: Path) -> None:
    answer = PolicyAnswer(
        text="``` \u2028 grüße",
        messages=({"role": "user", "content": "grüß"},),
        token_ids=(1, 2),
        logprobs=(-0.5, float("-inf")),
        usage={"completion_tokens": 2},
    )
    with begin(path) as trace:
        trace.record(AnswerReceived, 1, phase="write", policy="served", answer=answer)
    events = read_trajectory(path).events
    assert [event.kind for event in events] == ["run_started", "answer"]
    assert isinstance(events[1], AnswerReceived)
    assert events[1].answer == answer


def test_half_a_surrogate_pair_does_not_stop_the_run(path: Path) -> None:
    answer = PolicyAnswer(text="a \ud83d b", policy_state={"k\udc00": ["\ud800"]})
    with begin(path) as trace:
        event = trace.record(AnswerReceived, 1, phase="write", policy="p", answer=answer)
    assert event.answer.text == "a ? b"
    assert event.answer.policy_state == {"k?": ["?"]}
    assert read_trajectory(path).events[1] == event


def test_infinities_survive(path: Path) -> None:
    node = GraphNode(name="a", op="aten.masked_fill.Scalar", args=({"ref": "x"}, float("-inf")))
    plan = Plan(task="h", graph=OpGraph(inputs=(), nodes=(node,)))
    error = OutputError(
        output="output 0",
        max_abs=float("inf"),
        max_rel=1.0,
        mean_abs=1.0,
        tolerance_abs=0.0,
        bad_fraction=1.0,
        samples=(ErrorSample(index=(0,), expected=1.0, got=float("nan")),),
    )
    verdict = Verdict(
        status=Status.MISMATCH, target="host", kind=MismatchKind.NONFINITE, errors=(error,)
    )
    with begin(path) as trace:
        trace.record(PlanMade, 0, plan=plan)
        trace.record(VerdictReached, 1, candidate="c", verdict=verdict)
    for line in path.read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    read = read_trajectory(path)
    assert read.all(PlanMade)[0].plan == plan
    got = read.all(VerdictReached)[0].verdict.errors[0]
    assert got.max_abs == float("inf")
    assert got.samples[0].got != got.samples[0].got


def test_ids_are_the_same_in_every_process(path: Path) -> None:
    with begin(path) as trace:
        first = trace.record(FeedbackGiven, 2, phase="repair", text="a")
        second = trace.record(FeedbackGiven, 2, phase="repair", text="b")
    assert first.event_id == content_hash("0123456789abcdef/2/feedback/0")
    assert second.event_id == event_id("0123456789abcdef", 2, "feedback", 1)
    with TraceStore.open(path) as trace:
        third = trace.record(FeedbackGiven, 2, phase="repair", text="c")
    assert (third.attempt, third.trajectory_id) == (2, "0123456789abcdef")


def test_trajectory_id_depends_on_the_sample_alone() -> None:
    same = trajectory_id("h", RunSettings(seed=1))
    assert trajectory_id("h", RunSettings(seed=1, max_turns=3)) == same
    assert trajectory_id("h", RunSettings(seed=2)) != same
    assert trajectory_id("g", RunSettings(seed=1)) != same


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_cut_last_line_is_dropped_and_appending_goes_on(path: Path, cut: int) -> None:
    with begin(path) as trace:
        trace.record(CandidateRead, 1, candidate="c", source="x" * 100)
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    read = read_trajectory(path)
    assert [event.kind for event in read.events] == ["run_started"]
    assert len(read.remarks) == 1
    with TraceStore.open(path) as trace:
        trace.record(RunResumed, 0, environment=MACHINE, remarks=trace.remarks)
    again = read_trajectory(path)
    assert [event.kind for event in again.events] == ["run_started", "run_resumed"]
    assert again.remarks == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{broken", "not JSON"),
        ("", "not JSON"),
        ("[]", "no trajectory event"),
        ('{"kind":"dance"}', "no trajectory event"),
        ('{"kind":"feedback"}', "no trajectory event: feedback.event_id: Field required"),
    ],
)
def test_damaged_line_is_named(path: Path, line: str, said: str) -> None:
    begin(path).close()
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(UsageError, match=f"trajectory.jsonl:2: {said}"):
        read_trajectory(path)
    with pytest.raises(UsageError, match=f"trajectory.jsonl:2: {said}"):
        TraceStore.open(path)


@pytest.mark.parametrize("change", [{"mood": "good"}, {"schema_version": 2}])
def test_newer_file_is_named_as_such(path: Path, change: dict[str, object]) -> None:
    begin(path).close()
    event = json.loads(path.read_text())
    path.write_text(json.dumps(event | change) + "\n")
    with pytest.raises(UsageError, match="reads trajectory v1; a newer one wrote the file"):
        read_trajectory(path)


def test_empty_file_is_no_trajectory(path: Path) -> None:
    path.touch()
    with pytest.raises(UsageError, match="holds no event"):
        read_trajectory(path)


def test_existing_file_is_not_overwritten(path: Path) -> None:
    begin(path).close()
    with pytest.raises(UsageError, match="File exists"):
        TraceStore.create(path, "x")


def test_second_writer_is_refused(path: Path) -> None:
    with begin(path), pytest.raises(UsageError, match="in use by another musaagent process"):
        TraceStore.open(path)


def test_full_disk_leaves_whole_lines(path: Path) -> None:
    """A file size limit stands for the disk; the process that hits it must not be this one."""
    begin(path).close()
    size = path.stat().st_size
    program = f"""
import signal
from pathlib import Path
from musaagent.errors import InfraError
from musaagent.traces.schema import CandidateRead
from musaagent.traces.store import TraceStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with TraceStore.open(Path({str(path)!r})) as trace:
    try:
        trace.record(CandidateRead, 1, candidate="c", source="x" * 100_000)
    except InfraError as error:
        print(error)
    trace.record(CandidateRead, 1, candidate="c", source="small")
"""
    limit = size + 10_000

    def confine() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=confine,
    )
    assert done.stdout.strip() == f"cannot write {path}: File too large"
    events = read_trajectory(path).events
    assert [event.kind for event in events] == ["run_started", "candidate"]
    assert events[1].attempt == 0


def test_recorded_event_outlives_a_kill(path: Path) -> None:
    begin(path).close()
    program = f"""
import os, signal
from pathlib import Path
from musaagent.traces.schema import CandidateRead
from musaagent.traces.store import TraceStore
trace = TraceStore.open(Path({str(path)!r}))
trace.record(CandidateRead, 1, candidate="c", source="x")
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    assert [event.kind for event in read_trajectory(path).events] == ["run_started", "candidate"]
