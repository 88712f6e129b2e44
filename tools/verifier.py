"""The verdict: run a candidate beside the reference and judge what comes back.

Order, cheap to dear: parse, import and build, construct, trials (legality and values), the real
compile, the checked run. The first thing that fails decides. The candidate always answers before
the reference computes, its process never sees an expected value, and every number in the verdict is
recomputed here.
"""

import ast
import random
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from musaagent.tools.candidate import Candidate
from musaagent.tools.host.sources import SourceSet
from musaagent.tools.judge import Judgement, decisive, explain, judge_run
from musaagent.tools.nvcc import RealCompile
from musaagent.tools.reference_session import ReferenceSession
from musaagent.tools.results import Build, Finding, Status, Trial, Verdict
from musaagent.tools.session import CandidateFailure, CandidateSession
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import Task
from musaagent.tools.tolerance import ToleranceRule

_LEVELS = ("", "split", "thin", "light", "full")
CHECK_TIMEOUT_FACTOR = 3.0
"""A watched run is slower than a plain one by this much or more, on smaller shapes."""


class Workbench(Protocol):
    """What a target lends the verifier."""

    @property
    def name(self) -> str: ...

    def open_candidate(self, options: VerifyOptions, *, checked: bool) -> CandidateSession: ...

    def reference(self, task: Task, scale: str) -> ReferenceSession: ...

    def real_compile(self, sources: SourceSet) -> RealCompile: ...

    def prebuild(self, sources: SourceSet, *, checked: bool) -> Build: ...

    def submit(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> "Future[Any]": ...


@dataclass
class _Run:
    """Everything gathered on the way to one verdict."""

    target: str
    seed: int
    started: float = field(default_factory=time.monotonic)
    build: Build | None = None
    trials: list[Trial] = field(default_factory=list)
    judgement: Judgement = field(default_factory=Judgement)
    flags: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)
    checked: bool = False
    shapes: tuple[str, ...] = ()
    launches: tuple[Any, ...] = ()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.monotonic() - start

    def verdict(self, status: Status, message: str = "", details: str = "") -> Verdict:
        judged = self.judgement
        return Verdict(
            status=status,
            target=self.target,
            kind=judged.kind if status is Status.MISMATCH else None,
            message=message,
            details=details,
            build=self.build,
            trials=tuple(self.trials),
            errors=judged.errors,
            findings=tuple(self.findings),
            checked=self.checked,
            tolerances=judged.tolerances,
            shapes=self.shapes,
            launches=self.launches,
            reference=judged.reference,
            flags=tuple(dict.fromkeys(self.flags)),
            seconds=time.monotonic() - self.started,
            phase_seconds=self.phases,
        )


def verify(bench: Workbench, task: Task, candidate: Candidate, options: VerifyOptions) -> Verdict:
    """Judge one candidate. Raises TaskError or InfraError only where the fault is not its own."""
    seed = secrets.randbits(48) if options.seed is None else options.seed
    run = _Run(target=bench.name, seed=seed)
    problem = parse_problem(candidate.source)
    if problem is not None:
        return run.verdict(Status.EXTRACTION_ERROR, problem)
    opening = bench.submit(bench.reference, task, "run")
    try:
        session = bench.open_candidate(options, checked=False)
        try:
            return _judge_session(bench, task, candidate, options, run, session, opening)
        finally:
            session.close()
    except CandidateFailure as failure:
        opening.result()
        status, message = failure.status, failure.message
        if run.findings and status is Status.RUNTIME_ERROR:
            message = f"{explain(run.findings[0])}; then {message}"
        return run.verdict(status, message, failure.details)


def build_only(bench: Workbench, candidate: Candidate, options: VerifyOptions) -> Build:
    """Import the candidate with its compiles served; run nothing.

    What is no compile error (a Python error on import, say) is left to `verify`.
    """
    run = _Run(target=bench.name, seed=0)
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


def parse_problem(source: str) -> str | None:
    """Why the text is no candidate, in one line; None when it is one."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        place = f" at line {line}" if line else ""
        return f"the candidate is not valid Python{place}: {getattr(error, 'msg', error)}"
    names = {n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef)}
    assigned = {
        t.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Assign)
        for t in n.targets
        if isinstance(t, ast.Name)
    }
    if "ModelNew" not in names | assigned:
        return "the candidate defines no class ModelNew"
    return None


def _judge_session(
    bench: Workbench,
    task: Task,
    candidate: Candidate,
    options: VerifyOptions,
    run: _Run,
    session: CandidateSession,
    opening: "Future[ReferenceSession]",
) -> Verdict:
    with run.phase("build"):
        import_candidate(run, session, candidate)
    compiles = [bench.submit(bench.real_compile, s) for s, _ in session.builds]
    if options.check:
        for sources, _ in session.builds:
            bench.submit(bench.prebuild, sources, checked=True)
    reference: ReferenceSession = opening.result()
    run.shapes = reference.shapes
    draw = random.Random(run.seed)  # seeds exist only after the candidate was imported
    _run_trials(run, session, reference, options, draw)
    late = session.builds[len(compiles) :]
    compiles += [bench.submit(bench.real_compile, sources) for sources, _ in late]
    with run.phase("real_compile"):
        refused = _join_real_compile(run, [c.result() for c in compiles])
    if refused is not None:
        return run.verdict(Status.COMPILE_ERROR, refused)
    verdict = _decide(run)
    if verdict is not None or not options.check:
        return verdict or run.verdict(Status.PASSED)
    with run.phase("check"):
        verdict = _checked_run(bench, task, candidate, options, run, draw)
    return verdict or run.verdict(Status.PASSED)


def import_candidate(run: _Run, session: CandidateSession, candidate: Candidate) -> None:
    """Import with every compile served; a failed build decides even if the candidate hid it."""
    session.setup()
    try:
        session.request({"op": "import", "source": candidate.source}, doing="import")
    finally:
        _note_builds(run, session)
    _raise_failed_build(run)


def construct_again(
    session: CandidateSession, reference: ReferenceSession, candidate: Candidate, seed: int
) -> None:
    """Bring a fresh session to where forward can be called. Raises CandidateFailure."""
    run = _Run(target="", seed=seed)
    import_candidate(run, session, candidate)
    construct(run, session, reference, seed)


def _note_builds(run: _Run, session: CandidateSession) -> None:
    if session.builds:
        run.build = merge_builds([build for _, build in session.builds])
        run.flags.extend(run.build.flags)
        run.phases["compiler"] = run.build.compiler_seconds


def _raise_failed_build(run: _Run) -> None:
    if run.build is not None and not run.build.ok:
        first = run.build.diagnostics[0] if run.build.diagnostics else None
        if first is None:
            message = "the build failed"
        else:
            place = f"{first.source} line {first.line}: " if first.line else ""
            message = f"{place}{first.message}"
        raise CandidateFailure(Status.COMPILE_ERROR, message, run.build.log_tail)


def merge_builds(builds: list[Build]) -> Build:
    """One Build for several `load_inline` calls; failed ones give the diagnostics."""
    failed = [b for b in builds if not b.ok]
    level = max((b.level for b in builds), key=_LEVELS.index)
    return Build(
        ok=not failed,
        diagnostics=tuple(d for b in failed or builds for d in b.diagnostics),
        level=level,
        cached=all(b.cached for b in builds),
        seconds=sum(b.seconds for b in builds),
        compiler_seconds=sum(b.compiler_seconds for b in builds),
        libraries=tuple(path for b in builds for path in b.libraries),
        resources=tuple(r for b in builds for r in b.resources),
        real_compile=builds[0].real_compile,
        log_tail="\n".join(b.log_tail for b in failed or builds if b.log_tail),
        flags=tuple(dict.fromkeys(f for b in builds for f in b.flags)),
    )


def _run_trials(
    run: _Run,
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


def construct(run: _Run, session: CandidateSession, reference: ReferenceSession, seed: int) -> None:
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
    with run.phase("construct"):
        try:
            answer, _ = session.request(header, made.blobs, doing="construct ModelNew")
        finally:
            _note_builds(run, session)
        _raise_failed_build(run)
    state = str(answer.get("state", ""))
    if state.startswith("differs"):
        run.flags.append(f"weights: {state}")


def run_once(
    run: _Run,
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
    with run.phase("run"):
        try:
            answer, blobs = session.request(header, inputs.blobs, doing="run forward")
        finally:
            run.findings = list(session.evidence.findings)
            run.launches = tuple(session.evidence.launches.values())
            _note_builds(run, session)
        _raise_failed_build(run)
    for finding in run.findings:
        if decisive(finding):
            raise CandidateFailure(Status.RUNTIME_ERROR, explain(finding))
    with run.phase("reference"):
        expected = reference.expected(seed)
    with run.phase("compare"):
        ran = session.evidence.launch_count - launched
        return judge_run(answer, blobs, expected, rule, kernels_ran=ran)


def _join_real_compile(run: _Run, results: list[RealCompile]) -> str | None:
    """Add ptxas figures to the build; the message when nvcc refused the candidate's own lines."""
    if run.build is None or not results:
        return None
    refused = [r for r in results if r.ok is False]
    run.build = run.build.model_copy(
        update={
            "ok": not refused,
            "resources": tuple(res for r in results for res in r.resources),
            "real_compile": results[0].engine if not refused else refused[0].engine,
            "diagnostics": tuple(d for r in refused for d in r.diagnostics),
        }
    )
    if not refused:
        return None
    first = refused[0].diagnostics[0]
    place = f"{first.source} line {first.line}: " if first.line else ""
    return f"{place}{first.message} ({first.tool})"


def _decide(run: _Run) -> Verdict | None:
    judged = run.judgement
    if judged.illegal:
        return run.verdict(Status.ILLEGAL, judged.illegal, judged.details)
    if judged.kind is not None:
        return run.verdict(Status.MISMATCH, judged.message, judged.details)
    return None


def _checked_run(
    bench: Workbench,
    task: Task,
    candidate: Candidate,
    options: VerifyOptions,
    run: _Run,
    draw: random.Random,
) -> Verdict | None:
    """Every load and store watched, on small shapes. None when nothing was found."""
    slow = VerifyOptions(**{**vars(options), "timeout_s": options.timeout_s * CHECK_TIMEOUT_FACTOR})
    reference = bench.reference(task, "check")
    session = bench.open_candidate(slow, checked=True)
    watched = _Run(target=run.target, seed=run.seed)
    try:
        import_candidate(watched, session, candidate)
        construct(watched, session, reference, draw.getrandbits(48))
        rule = ToleranceRule(options.atol, options.rtol)
        judgement = run_once(watched, session, reference, rule, draw, order=2)
    except CandidateFailure as failure:
        if failure.status is Status.TIMEOUT:
            run.flags.append(f"the checked run did not end: {failure.message}")
            return None
        run.findings = watched.findings
        return run.verdict(failure.status, f"checked run: {failure.message}", failure.details)
    finally:
        run.launches = tuple(session.evidence.launches.values()) or run.launches
        run.shapes = run.shapes + tuple(f"checked {s}" for s in reference.shapes)
        session.close()
    run.findings = watched.findings
    run.checked = True
    run.trials.append(
        Trial(name="checked run", passed=judgement.ok, worst=min(judgement.worst, 1e308))
    )
    if judgement.ok:
        return None
    run.judgement = judgement
    return _decide(run)
