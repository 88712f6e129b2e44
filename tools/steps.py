"""The steps of a verification that every part of it takes: import, construct, one run of both."""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from musaagent.tools.candidate import Candidate
from musaagent.tools.gathered import Run, merge_builds
from musaagent.tools.host.sources import SourceSet
from musaagent.tools.judge import Judgement, decisive, explain, judge_run
from musaagent.tools.nvcc import RealCompile
from musaagent.tools.reference_session import Expected, ReferenceSession
from musaagent.tools.results import Build, Status, Verdict
from musaagent.tools.session import CandidateFailure, CandidateSession
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import Task
from musaagent.tools.tolerance import ToleranceRule


class Workbench(Protocol):
    """What a target lends the verifier."""

    @property
    def name(self) -> str: ...

    @property
    def runs_dry(self) -> bool:
        """Whether its sessions can check launches without running kernels."""
        ...

    @property
    def modes(self) -> frozenset[str]:
        """What its workers do beyond a plain run: the names of `Ask`'s modes and switches."""
        ...

    def open_candidate(self, options: VerifyOptions, *, checked: bool) -> CandidateSession: ...

    def reference(self, task: Task, scale: str) -> ReferenceSession:
        """A session for this verification alone, until `release`."""
        ...

    def release(self, reference: ReferenceSession) -> None: ...

    def other_sizes(self, task: Task, lane: str) -> ReferenceSession | None:
        """A session of the task at sizes for `lane` (`plan.LANES`), until `release`; or none."""
        ...

    def real_compile(self, sources: SourceSet) -> RealCompile: ...

    def prebuild(self, sources: SourceSet, *, checked: bool) -> Build: ...

    def submit(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> "Future[Any]": ...


@dataclass(frozen=True)
class Case:
    """What is judged, where and how."""

    bench: Workbench
    task: Task
    candidate: Candidate
    options: VerifyOptions


def import_candidate(run: Run, session: CandidateSession, candidate: Candidate) -> None:
    """Import with every compile served; a failed build decides even if the candidate hid it."""
    session.setup()
    with builds_first(run, session):
        session.request({"op": "import", "source": candidate.source}, doing="import")


@contextmanager
def builds_first(run: Run, session: CandidateSession) -> Iterator[None]:
    """A failed build is the cause, whatever error (or none) the candidate made of it."""
    try:
        yield
    except CandidateFailure:
        _note_builds(run, session)
        _raise_failed_build(run)
        raise
    _note_builds(run, session)
    _raise_failed_build(run)


def construct_again(
    session: CandidateSession, reference: ReferenceSession, candidate: Candidate, seed: int
) -> None:
    """Bring a fresh session to where forward can be called. Raises CandidateFailure."""
    run = Run(target="", seed=seed)
    import_candidate(run, session, candidate)
    construct(run, session, reference, seed)


def _note_builds(run: Run, session: CandidateSession) -> None:
    """Once for every build: the figures of a GPU's compiler are added to what is noted."""
    if len(session.builds) > run.noted_builds:
        run.noted_builds = len(session.builds)
        run.build = merge_builds([build for _, build in session.builds])
        run.flags.extend(run.build.flags)
        run.phases["compiler"] = run.build.compiler_seconds


def _raise_failed_build(run: Run) -> None:
    if run.build is not None and not run.build.ok:
        first = run.build.diagnostics[0] if run.build.diagnostics else None
        if first is None:
            message = "the build failed"
        else:
            place = f"{first.source} line {first.line}: " if first.line else ""
            message = f"{place}{first.message}"
        raise CandidateFailure(Status.COMPILE_ERROR, message, run.build.log_tail)


def construct(run: Run, session: CandidateSession, reference: ReferenceSession, seed: int) -> None:
    """Build both modules from one seed, and make their weights one."""
    with run.phase("reference"):
        made = reference.construct(seed)
    run.dtypes |= {meta["dtype"] for meta in made.metas}
    header = {
        "op": "construct",
        "seed": seed,
        "init": made.tree,
        "tensors": made.metas,
        "state_names": made.state_names,
    }
    with run.phase("construct"), builds_first(run, session):
        answer, _ = session.request(header, made.blobs, doing="construct ModelNew")
    state = str(answer.get("state", ""))
    if state.startswith("differs"):
        run.flags.append(f"weights: {state}")
    elif state == "loaded":
        run.flags.append("weights: equal seeds give other values; the state_dict was loaded")


@dataclass(frozen=True)
class Ask:
    """What one run is to be, beyond fresh values in the task's own distribution."""

    order: int = 0
    """Thread order: 0 forward, 1 reverse, 2 random."""
    stress: str = ""
    """Which change of the drawn inputs (`musaagent.tools.stress`)."""
    offset: bool = False
    """Inputs that start one element into their storage."""
    mode: Literal["", "no_kernels", "failing"] = ""
    """`no_kernels`: launches do nothing; `failing`: every compiled function raises."""
    fresh: int | None = None
    """The byte that fresh memory is filled with; None: the usual one, which makes NaN."""
    every_thread: bool = False
    """Operators are also recorded below Python, in all threads."""
    timeout_s: float | None = None


@dataclass(frozen=True)
class Pair:
    """One forward of both."""

    judgement: Judgement
    expected: Expected


def run_once(
    run: Run,
    session: CandidateSession,
    reference: ReferenceSession,
    options: VerifyOptions,
    draw: random.Random,
    ask: Ask,
) -> Judgement:
    """One forward of both, the candidate first."""
    pair = run_pair(run, session, reference, options, draw, ask)
    assert pair is not None, "the task's own inputs can always be drawn"
    return pair.judgement


def run_pair(
    run: Run,
    session: CandidateSession,
    reference: ReferenceSession,
    options: VerifyOptions,
    draw: random.Random,
    ask: Ask,
) -> Pair | None:
    """One forward of both, the candidate first; None where the inputs cannot be changed so."""
    with run.phase("reference"):
        drawn = draw.getrandbits(48)
        inputs = reference.stressed(drawn, ask.stress) if ask.stress else reference.inputs(drawn)
    if inputs is None:
        return None
    seed = draw.getrandbits(48)
    header = {
        "op": "run",
        "seed": seed,
        "inputs": inputs.tree,
        "tensors": inputs.metas,
        "offset": ask.offset,
        "mode": ask.mode,
        "every_thread": ask.every_thread,
        "fresh": ask.fresh,
        **session.order_fields(ask.order, draw.getrandbits(31)),
    }
    launched = session.evidence.launch_count
    with run.phase("run"), builds_first(run, session):
        try:
            answer, blobs = session.request(
                header, inputs.blobs, doing="run forward", timeout_s=ask.timeout_s
            )
        finally:
            run.findings = list(session.evidence.findings)
            run.launches = tuple(session.evidence.launches.values())
    for finding in run.findings:
        if decisive(finding):
            raise CandidateFailure(Status.RUNTIME_ERROR, explain(finding))
    with run.phase("reference"):
        expected = reference.expected(seed)
    run.dtypes |= {meta["dtype"] for meta in inputs.metas} | {v.dtype for v in expected.native}
    with run.phase("compare"):
        ran = session.evidence.launch_count - launched
        rule = ToleranceRule(options.atol, options.rtol)
        judgement = judge_run(answer, blobs, expected, rule, kernels_ran=ran, allow=options.allow)
    return Pair(judgement, expected)


def decide(run: Run) -> Verdict | None:
    """The verdict where the trials so far decide it."""
    judged = run.judgement
    if judged.illegal:
        return run.verdict(Status.ILLEGAL, judged.illegal, judged.details)
    if judged.kind is not None:
        strange = [flag for flag in run.flags if flag.startswith("weights: differs")]
        return run.verdict(
            Status.MISMATCH, "; ".join([judged.message, *strange[:1]]), judged.details
        )
    return None
