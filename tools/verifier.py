"""The verdict: run a candidate beside the reference and judge what comes back.

Order, cheap to dear: parse, import and build, construct, trials (legality and values), the real
compile, the checked run. The first thing that fails decides. The candidate always answers before
the reference computes, its process never sees an expected value, and every number in the verdict is
recomputed here.
"""

import random
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from musaagent.tools.candidate import Candidate, parse_problem
from musaagent.tools.gathered import Run, join_real_compile, merge_builds
from musaagent.tools.host.sources import SourceSet
from musaagent.tools.judge import Judgement, decisive, explain, judge_run
from musaagent.tools.nvcc import RealCompile
from musaagent.tools.own_sizes import refused_launch
from musaagent.tools.reference_session import ReferenceSession
from musaagent.tools.results import Build, MismatchKind, Status, Trial, Verdict
from musaagent.tools.session import CandidateFailure, CandidateSession
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import Task
from musaagent.tools.tolerance import ToleranceRule

CHECK_TIMEOUT_FACTOR = 3.0
"""A watched run is slower than a plain one by this much or more, on smaller shapes."""


class Workbench(Protocol):
    """What a target lends the verifier."""

    @property
    def name(self) -> str: ...

    @property
    def runs_dry(self) -> bool:
        """Whether its sessions can check launches without running kernels."""
        ...

    def open_candidate(self, options: VerifyOptions, *, checked: bool) -> CandidateSession: ...

    def reference(self, task: Task, scale: str) -> ReferenceSession:
        """A session for this verification alone, until `release`."""
        ...

    def release(self, reference: ReferenceSession) -> None: ...

    def real_compile(self, sources: SourceSet) -> RealCompile: ...

    def prebuild(self, sources: SourceSet, *, checked: bool) -> Build: ...

    def submit(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> "Future[Any]": ...


@dataclass(frozen=True)
class _Case:
    """What is judged, where and how."""

    bench: Workbench
    task: Task
    candidate: Candidate
    options: VerifyOptions


def verify(bench: Workbench, task: Task, candidate: Candidate, options: VerifyOptions) -> Verdict:
    """Judge one candidate. Raises TaskError or InfraError only where the fault is not its own.

    Sizes are reduced for a CPU. A candidate may be written for the task's own sizes, so what fails
    at others is judged again with only the batch reduced, where that can be run.
    """
    seed = secrets.randbits(48) if options.seed is None else options.seed
    run = Run(target=bench.name, seed=seed)
    problem = parse_problem(candidate.source)
    if problem is not None:
        return run.verdict(Status.EXTRACTION_ERROR, problem)
    case = _Case(bench, task, candidate, options)
    verdict = _judge(case, run, "run")
    doubtful = verdict.status in (Status.MISMATCH, Status.RUNTIME_ERROR)
    if not (doubtful and run.resized) or run.passed_plain:
        return verdict
    again = Run(target=bench.name, seed=seed)
    few = replace(options, trials=min(options.trials, 2))
    larger = _judge(replace(case, options=few), again, "large")
    if again.resized or larger.status is not Status.PASSED:
        return verdict
    flag = f"specialised: at the smaller sizes {', '.join(run.shapes)} it fails: {verdict.message}"
    return larger.model_copy(update={"flags": (*larger.flags, flag)})


def _judge(case: _Case, run: Run, scale: str) -> Verdict:
    """The whole verdict at one scale."""
    opening = case.bench.submit(case.bench.reference, case.task, scale)
    try:
        session = case.bench.open_candidate(case.options, checked=False)
        try:
            return _judge_session(case, run, session, opening)
        finally:
            session.close()
    except CandidateFailure as failure:
        opened: ReferenceSession = opening.result()
        run.shapes, run.resized = opened.shapes, opened.resized
        status, message = failure.status, failure.message
        died = status is Status.RUNTIME_ERROR and run.build is not None and run.build.ok
        if died and case.options.check and not run.findings:
            with run.phase("check"):
                _watch(case, run, random.Random(run.seed))
        if run.findings and died:
            message = f"{explain(run.findings[0])}; then {message}"
        return run.verdict(status, message, failure.details)
    finally:
        if opening.exception() is None:
            case.bench.release(opening.result())


def build_only(bench: Workbench, candidate: Candidate, options: VerifyOptions) -> Build:
    """Import the candidate with its compiles served; run nothing.

    What is no compile error (a Python error on import, say) is left to `verify`.
    """
    run = Run(target=bench.name, seed=0)
    problem = parse_problem(candidate.source)
    if problem is not None:
        return Build(ok=True, log_tail=problem)
    session = bench.open_candidate(options, checked=False)
    try:
        import_candidate(run, session, candidate)
    except CandidateFailure as failure:
        return run.build or Build(ok=True, log_tail=failure.message)
    finally:
        session.close()
    return run.build or Build(ok=True, log_tail="no load_inline call on import")


def _judge_session(
    case: _Case,
    run: Run,
    session: CandidateSession,
    opening: "Future[ReferenceSession]",
) -> Verdict:
    compiles: list[Future[RealCompile]] = []
    session.on_sources = lambda s: compiles.append(case.bench.submit(case.bench.real_compile, s))
    with run.phase("build"):
        import_candidate(run, session, case.candidate)
    if case.options.check:
        for sources, _ in session.builds:
            case.bench.submit(case.bench.prebuild, sources, checked=True)
    reference: ReferenceSession = opening.result()
    run.scale, run.shapes, run.resized = reference.scale, reference.shapes, reference.resized
    if run.scale == "large" and run.resized:
        return run.verdict(Status.INFRA_ERROR, "the task's own sizes are too large to be run here")
    draw = random.Random(run.seed)  # seeds exist only after the candidate was imported
    _run_trials(run, session, reference, case.options, draw)
    with run.phase("real_compile"):
        refused = join_real_compile(run, [c.result() for c in compiles])
    if refused is not None:
        return run.verdict(Status.COMPILE_ERROR, refused)
    verdict = _decide(run)
    if verdict is None and reference.overrides and case.bench.runs_dry:
        with run.phase("own_sizes"):
            over = refused_launch(session, reference)
        if over is not None:
            run.findings, run.passed_plain = [over], True
            message = f"at the task's own sizes: {explain(over)}"
            return run.verdict(Status.RUNTIME_ERROR, message)
    if case.options.check:
        with run.phase("check"):
            if verdict is None:
                run.passed_plain = True
                verdict = _checked_run(case, run, draw)
            elif verdict.kind in (MismatchKind.NUMERIC, MismatchKind.NONFINITE):
                return _name_the_cause(case, run, verdict, draw)
    return verdict or run.verdict(Status.PASSED)


def import_candidate(run: Run, session: CandidateSession, candidate: Candidate) -> None:
    """Import with every compile served; a failed build decides even if the candidate hid it."""
    session.setup()
    with _builds_first(run, session):
        session.request({"op": "import", "source": candidate.source}, doing="import")


@contextmanager
def _builds_first(run: Run, session: CandidateSession) -> Iterator[None]:
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
    if session.builds:
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


def _run_trials(
    run: Run,
    session: CandidateSession,
    reference: ReferenceSession,
    options: VerifyOptions,
    draw: random.Random,
) -> None:
    """Trials share one instance, with inputs overwritten in place; the last two get new weights."""
    rule = ToleranceRule(options.atol, options.rtol)
    for index in range(options.trials):
        fresh = index == 0 or index >= max(options.trials - 2, 1)
        if fresh:
            construct(run, session, reference, draw.getrandbits(48))
        order = (0, 1, 2)[index % 3]
        judgement = run_once(run, session, reference, rule, draw, order)
        trial = Trial(
            name=f"seed {index + 1} of {options.trials}" + (", new weights" if fresh else ""),
            passed=judgement.ok,
            worst=min(judgement.worst, 1e308),
        )
        run.trials.append(trial)
        run.judgement = judgement if not judgement.ok else run.judgement.joined(judgement)
        run.flags.extend(judgement.flags)
        if not judgement.ok:
            return


def construct(run: Run, session: CandidateSession, reference: ReferenceSession, seed: int) -> None:
    """Build both modules from one seed, and make their weights one."""
    with run.phase("reference"):
        made = reference.construct(seed)
    header = {
        "op": "construct",
        "seed": seed,
        "init": made.tree,
        "tensors": made.metas,
        "state_names": made.state_names,
    }
    with run.phase("construct"), _builds_first(run, session):
        answer, _ = session.request(header, made.blobs, doing="construct ModelNew")
    state = str(answer.get("state", ""))
    if state.startswith("differs"):
        run.flags.append(f"weights: {state}")
    elif state == "loaded":
        run.flags.append("weights: equal seeds give other values; the state_dict was loaded")


def run_once(
    run: Run,
    session: CandidateSession,
    reference: ReferenceSession,
    rule: ToleranceRule,
    draw: random.Random,
    order: int,
) -> Judgement:
    """One forward of both, the candidate first."""
    with run.phase("reference"):
        inputs = reference.inputs(draw.getrandbits(48))
    seed = draw.getrandbits(48)
    header = {
        "op": "run",
        "seed": seed,
        "inputs": inputs.tree,
        "tensors": inputs.metas,
        **session.order_fields(order, draw.getrandbits(31)),
    }
    launched = session.evidence.launch_count
    with run.phase("run"), _builds_first(run, session):
        try:
            answer, blobs = session.request(header, inputs.blobs, doing="run forward")
        finally:
            run.findings = list(session.evidence.findings)
            run.launches = tuple(session.evidence.launches.values())
    for finding in run.findings:
        if decisive(finding):
            raise CandidateFailure(Status.RUNTIME_ERROR, explain(finding))
    with run.phase("reference"):
        expected = reference.expected(seed)
    with run.phase("compare"):
        ran = session.evidence.launch_count - launched
        return judge_run(answer, blobs, expected, rule, kernels_ran=ran)


def _decide(run: Run) -> Verdict | None:
    judged = run.judgement
    if judged.illegal:
        return run.verdict(Status.ILLEGAL, judged.illegal, judged.details)
    if judged.kind is not None:
        strange = [flag for flag in run.flags if flag.startswith("weights: differs")]
        return run.verdict(
            Status.MISMATCH, "; ".join([judged.message, *strange[:1]]), judged.details
        )
    return None


def _checked_run(case: _Case, run: Run, draw: random.Random) -> Verdict | None:
    """Every load and store watched, on small shapes. None when nothing was found."""
    result = _watch(case, run, draw)
    if isinstance(result, CandidateFailure):
        if result.status is Status.TIMEOUT:
            run.flags.append(f"the checked run did not end: {result.message}")
            return None
        message = explain(run.findings[0]) if run.findings else result.message
        return run.verdict(result.status, f"checked run: {message}", result.details)
    run.checked = True
    run.trials.append(Trial(name="checked run", passed=result.ok, worst=min(result.worst, 1e308)))
    if result.ok:
        return None
    run.judgement = result
    return _decide(run)


def _name_the_cause(case: _Case, run: Run, verdict: Verdict, draw: random.Random) -> Verdict:
    """Wrong values come from somewhere: a race or a stray access is worth more than numbers."""
    _watch(case, run, draw)
    causes = [finding for finding in run.findings if decisive(finding)]
    if not causes:
        return verdict
    message = f"{verdict.message}; a checked run finds {explain(causes[0])}"
    return run.verdict(verdict.status, message, verdict.details)


def _watch(case: _Case, run: Run, draw: random.Random) -> Judgement | CandidateFailure:
    """One watched run in a process of its own; what it finds goes to `run.findings`."""
    reference = case.bench.reference(case.task, "large" if run.scale == "large" else "check")
    try:
        run.shapes = run.shapes + tuple(f"checked {s}" for s in reference.shapes)
        return _watch_beside(case, run, draw, reference)
    finally:
        case.bench.release(reference)


def _watch_beside(
    case: _Case, run: Run, draw: random.Random, reference: ReferenceSession
) -> Judgement | CandidateFailure:
    slow = replace(case.options, timeout_s=case.options.timeout_s * CHECK_TIMEOUT_FACTOR)
    session = case.bench.open_candidate(slow, checked=True)
    watched = Run(target=run.target, seed=run.seed)
    try:
        import_candidate(watched, session, case.candidate)
        construct(watched, session, reference, draw.getrandbits(48))
        rule = ToleranceRule(case.options.atol, case.options.rtol)
        return run_once(watched, session, reference, rule, draw, order=2)
    except CandidateFailure as failure:
        return failure
    finally:
        run.findings = watched.findings
        run.launches = tuple(session.evidence.launches.values()) or run.launches
        session.close()
