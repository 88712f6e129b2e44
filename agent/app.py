"""The one place where things are put together: solve, resume, verify and lint."""

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from pydantic import ValidationError

from musaagent.errors import AwaitingAnswer, InfraError, TaskError, ToolchainMissing, UsageError
from musaagent.machine import environment
from musaagent.opening import lent_policy
from musaagent.policies.policy import Live, Policy, PolicyAnswer
from musaagent.policies.settings import ServedSettings
from musaagent.ranking import best_turn
from musaagent.result import RunResult, awaiting_result, started_event, stored_result
from musaagent.rundir import RunDir, default_run_dir, read_text, write_whole
from musaagent.state import Context, State
from musaagent.tools.candidate import Candidate
from musaagent.tools.extract import ExtractionError, extract, extraction_verdict
from musaagent.tools.opgraph import Plan
from musaagent.tools.results import Status, Verdict
from musaagent.tools.target import Target, VerifyOptions, checks_by_default
from musaagent.tools.task import Task, check_task, load_task
from musaagent.traces.report import render_report
from musaagent.traces.schema import (
    CandidateRead,
    ReferenceWritten,
    RunFinished,
    RunResumed,
    RunSettings,
    RunStarted,
    RunStatus,
    StopReason,
    VerdictReached,
    trajectory_id,
)
from musaagent.traces.store import TraceStore, Trajectory, read_trajectory

if TYPE_CHECKING:
    from musaagent.policies.offline import BatchAnswers
    from musaagent.tools.cuda.target import CudaTarget
    from musaagent.tools.host.target import HostTarget

log = logging.getLogger(__name__)


class SolveOptions(TypedDict, total=False):
    """Settings of a run; the defaults are those of `RunSettings`, but `check` is by target."""

    max_turns: int
    seed: int | None
    episode: int
    warp_size: Literal[32, 128]
    arch: Literal["", "mp_21", "mp_22", "mp_31"]
    baselines: tuple[str, ...]
    trials: int
    check: bool | None
    timeout_s: float
    atol: float | None
    rtol: float | None
    answers: str
    served: ServedSettings | None
    description: str


@dataclass(frozen=True)
class Step:
    """A node that begins (`update` is None) or ended."""

    node: str
    turn: int
    update: dict[str, Any] | None = None


Observer = Callable[[Step], None]


def solve(
    op: str | Path,
    *,
    target: str | Target = "host",
    policy: str | Policy = "builtin",
    out: str | Path | None = None,
    force: bool = False,
    observer: Observer | None = None,
    live: Live | None = None,
    written: Sequence[PolicyAnswer] = (),
    **options: Unpack[SolveOptions],
) -> RunResult:
    """Port one op; the run's folder has the kernel, the report and the trajectory.

    `live` is told of a model's answer while it comes. `written` is how the op came by its text,
    where a policy wrote it from `description`.

    Raises UsageError for bad input and InfraError for our own failures; after an InfraError the
    run can be resumed.
    """
    start = time.monotonic()
    settings = settings_of(target, policy, options)
    task = load_task(op)
    run = RunDir(Path(out) if out is not None else default_run_dir(task))
    with lent_policy(policy, settings, live) as writer, ExitStack() as stack:
        run.refuse(force)
        place = stack.enter_context(lent_target(target))
        run.create(force)
        write_whole(run.task, task.source)
        identity = trajectory_id(task.hash, settings)
        with TraceStore.create(run.trajectory, identity) as trace:
            _begin(trace, task, settings, written)
            context = Context(task, place, writer, trace, settings)
            try:
                return _go(context, run, observer, op, start)
            except TaskError:
                # The op broke while it was measured: there is nothing to keep or to resume.
                run.remove()
                raise


def _begin(
    trace: TraceStore, task: Task, settings: RunSettings, written: Sequence[PolicyAnswer]
) -> None:
    trace.record(
        RunStarted,
        0,
        task_name=task.name,
        task_hash=task.hash,
        task_source=task.source,
        settings=settings,
        environment=environment(),
    )
    if written:
        told = settings.description
        trace.record(ReferenceWritten, 0, description=told, answers=tuple(written))


def resume(
    run: str | Path,
    *,
    target: Target | None = None,
    policy: Policy | None = None,
    observer: Observer | None = None,
    live: Live | None = None,
    base_url: str | None = None,
) -> RunResult:
    """Go on with a run where it was stopped; a finished one only has its files written again.

    A target or policy that was given to `solve` as an object has to be given again. `base_url` is
    where the model is served now, if no longer where it was.
    """
    start = time.monotonic()
    folder = RunDir.existing(Path(run))
    with TraceStore.open(folder.trajectory) as trace:
        started = started_event(folder.trajectory, trace.trajectory)
        task = check_task(folder.task, started.task_source)
        if trace.trajectory.all(RunFinished):
            return _finish(folder, trace, None, started.task_name, start)
        settings = moved(started.settings, base_url)
        with (
            lent_policy(policy or settings.policy, settings, live) as writer,
            lent_target(target or settings.target) as place,
        ):
            trace.record(RunResumed, 0, environment=environment(), remarks=trace.remarks)
            context = Context(task, place, writer, trace, settings)
            return _go(context, folder, observer, started.task_name, start)


def moved(settings: RunSettings, base_url: str | None) -> RunSettings:
    """The same run, its model at another address. Raises UsageError."""
    if base_url is None:
        return settings
    if settings.served is None or not settings.served.base_url:
        raise UsageError(
            f"--base-url goes with runs of policy served or cascade, not {settings.policy}"
        )
    known = settings.served.model_dump()
    try:
        served = ServedSettings(**{**known, "base_url": base_url})
    except ValidationError as error:
        said = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UsageError(f"--base-url: {said}") from None
    return settings.model_copy(update={"served": served})


def offline_policy(run: Path, answers: "BatchAnswers") -> Policy:
    """The policy that goes on with a run from a results file. Raises UsageError for other runs."""
    from musaagent.policies.offline import OfflinePolicy

    folder, trajectory = read_run(run)
    settings = started_event(folder.trajectory, trajectory).settings
    if settings.policy != "offline" or settings.served is None:
        raise UsageError(f"{run}: --answers is for runs of policy offline, not {settings.policy}")
    return OfflinePolicy(settings.served, answers)


def verify(
    op: str | Path,
    candidate: str | Path,
    *,
    target: str | Target = "host",
    options: VerifyOptions | None = None,
) -> Verdict:
    """Judge one candidate file. Raises UsageError for bad input, InfraError for our failures."""
    task = load_task(op)
    found = read_candidate(Path(candidate))
    with lent_target(target, compiles_only=True) as place:
        if isinstance(found, ExtractionError):
            return extraction_verdict(found, place.name)
        return place.verify(task, found, options or VerifyOptions())


def measure(op: str | Path, *, target: str | Target = "host") -> tuple[Task, Plan]:
    """What plan knows of an op: shapes, cost and traps. Raises TaskError."""
    task = load_task(op)
    with lent_target(target, compiles_only=True) as place:
        return task, place.plan(task)


def read_run(path: Path) -> tuple[RunDir, Trajectory]:
    """A run's folder and its events. Raises UsageError where it is none."""
    run = RunDir.existing(path)
    return run, read_trajectory(run.trajectory)


def read_candidate(path: Path) -> Candidate | ExtractionError:
    """A candidate file; a raw model answer is taken too. Raises UsageError."""
    return extract(read_text(path, "candidate"))


def open_target(name: str, *, compiles_only: bool = False) -> Target:
    """Raises ToolchainMissing, which names what to install.

    `compiles_only`: a target that can compile here, but has no device to run on, will do.
    """
    target = make_target(name)
    device = () if compiles_only else _DEVICES
    lacking = [c for c in target.capabilities() if (c.required or c.name in device) and not c.ok]
    if lacking:
        target.close()
        needs = "; ".join(f"{c.name}: {c.detail}; {c.remedy}" for c in lacking)
        instead = _INSTEAD.get(name, "")
        raise ToolchainMissing(f"target {name} cannot run here: {needs}{instead}")
    target.start_warm_up()  # torch is imported and headers are precompiled while the task is read
    return target


_DEVICES = ("NVIDIA GPU", "Moore Threads GPU", "torch_musa")
"""Capabilities that a target needs to run anything, and not to compile."""


_INSTEAD = {"musa": "; `--target host --arch mp_22` runs MUSA candidates on the CPU instead"}


def make_target(name: str) -> "HostTarget | CudaTarget":
    """Imported by name, since each brings its own compilers and torch."""
    if name == "cuda":
        from musaagent.tools.cuda.target import CudaTarget

        return CudaTarget()
    if name == "musa":
        from musaagent.tools.musa.target import MusaTarget

        return MusaTarget()
    from musaagent.tools.host.target import HostTarget

    return HostTarget()


@contextmanager
def lent_target(target: str | Target, *, compiles_only: bool = False) -> Iterator[Target]:
    """A target by name is opened and closed here; one that was given is left open."""
    if not isinstance(target, str):
        yield target
        return
    opened = open_target(target, compiles_only=compiles_only)
    try:
        yield opened
    finally:
        opened.close()


def settings_of(target: str | Target, policy: str | Policy, options: SolveOptions) -> RunSettings:
    """What a run will record of its settings. Raises UsageError."""
    values: dict[str, Any] = dict(options)
    values["target"] = target if isinstance(target, str) else target.name
    values["policy"] = policy if isinstance(policy, str) else policy.name
    if values.get("check") is None:
        # On a GPU it takes minutes (compute-sanitizer), so there it is for who asks.
        values["check"] = checks_by_default(values["target"])
    if values.get("answers") and values["policy"] != "offline":
        # A resume may be called from another folder.
        values["answers"] = str(Path(values["answers"]).resolve())
    try:
        return RunSettings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise UsageError(f"{name}: {first['msg']}, not {first['input']!r}") from error


def _drive(context: Context, run: RunDir, observer: Observer | None) -> State:
    """Run the graph to its end, from its checkpoint where there is one."""
    # Importing LangGraph takes seconds, and verify and lint do without it.
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langsmith import tracing_context

    from musaagent.graph import build_graph, step_limit

    settings, trace = context.settings, context.trace
    config: Any = {
        "configurable": {"thread_id": trace.trajectory_id},
        "recursion_limit": step_limit(settings.max_turns),
    }
    _drop_broken_checkpoint(run)
    try:
        # What a user's environment says of LangSmith must not send candidates over the network.
        with (
            tracing_context(enabled=False),
            SqliteSaver.from_conn_string(str(run.checkpoint)) as saver,
        ):
            graph = build_graph().compile(checkpointer=saver)
            known = graph.get_state(config)
            begin = None if known.values else State(max_turns=settings.max_turns)
            # Not `next`: that leaves out a node whose writes are stored while the step after it is
            # not, which is where a kill may fall.
            if begin is not None or known.tasks:
                for event in graph.stream(
                    begin, config, context=context, stream_mode="tasks", durability="sync"
                ):
                    _observe(event, observer)
            return State(**graph.get_state(config).values)
    except sqlite3.Error as error:
        raise InfraError(f"{run.checkpoint}: {error}") from error


def _observe(event: Any, observer: Observer | None) -> None:
    if observer is None or event.get("error"):
        return
    if "input" in event:
        state = event["input"]
        turn = state.turn + (event["name"] in ("write", "revise"))
        observer(Step(event["name"], turn))
    else:
        observer(Step(event["name"], event["result"].get("turn", 0), event["result"]))


def _drop_broken_checkpoint(run: RunDir) -> None:
    """The trajectory alone is enough to go on: every node finds its first result there."""
    if not run.checkpoint.exists():
        return
    try:
        connection = sqlite3.connect(run.checkpoint)
        try:
            connection.execute("PRAGMA quick_check").fetchall()
        finally:
            connection.close()
    except sqlite3.DatabaseError:
        log.warning("%s is damaged; the run goes on from its trajectory", run.checkpoint)
        for file in run.checkpoint_files:
            file.unlink(missing_ok=True)


def _go(
    context: Context, run: RunDir, observer: Observer | None, op: str | Path, start: float
) -> RunResult:
    """Drive the graph to its end, or to where it waits for an answer from outside."""
    try:
        state = _drive(context, run, observer)
    except AwaitingAnswer as waiting:
        return awaiting_result(run, context.trace.trajectory, waiting, str(op))
    return _finish(run, context.trace, state, op, start)


def _finish(
    run: RunDir, trace: TraceStore, state: State | None, op: str | Path, start: float
) -> RunResult:
    """State the outcome once, and write the run's files; without a state they are written again."""
    if state is not None and not trace.trajectory.all(RunFinished):
        _record_end(trace, state, time.monotonic() - start)
    trajectory = trace.trajectory
    result = stored_result(run, trajectory, str(op))
    if result.best_turn is not None:
        read = trajectory.find(CandidateRead, result.best_turn)
        if read is None:
            raise UsageError(f"{run.trajectory} has no candidate of turn {result.best_turn}")
        write_whole(run.candidate if result.candidate else run.attempt, read.source)
    write_whole(run.report, render_report(trajectory))
    run.requests.unlink(missing_ok=True)
    return result


def _record_end(trace: TraceStore, state: State, seconds: float) -> None:
    best = best_turn(trace.trajectory)
    reached = trace.trajectory.find(VerdictReached, best) if best is not None else None
    solved = reached is not None and reached.verdict.status is Status.PASSED
    trace.record(
        RunFinished,
        0,
        status=RunStatus.SOLVED if solved else RunStatus.NOT_SOLVED,
        stop=StopReason(state.stop or StopReason.BUDGET),
        best_turn=best,
        candidate=reached.candidate if reached else None,
        turns=state.turn,
        seconds=seconds,
    )
