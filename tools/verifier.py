"""The verdict: run a candidate beside the reference and judge what comes back.

Order, cheap to dear: parse, import and build, construct, trials (legality and values), the real
compile, the checked run. The first thing that fails decides. The candidate always answers before
the reference computes, its process never sees an expected value, and every number in the verdict is
recomputed here.
"""

import contextlib
import logging
import random
import secrets
from concurrent.futures import Future
from dataclasses import replace

from musaagent.errors import SandboxLost
from musaagent.tools.ahead import Ahead
from musaagent.tools.among_trials import AmongTrials
from musaagent.tools.audit import audit
from musaagent.tools.candidate import Candidate, parse_problem
from musaagent.tools.checked import checked_run, name_the_cause, watch
from musaagent.tools.gathered import Run, join_real_compile
from musaagent.tools.judge import explain
from musaagent.tools.macros import asked_macros
from musaagent.tools.nvcc import RealCompile
from musaagent.tools.own_sizes import OwnLaunches, own_launches, plain_names
from musaagent.tools.precision import pointer_flags, precision_flags
from musaagent.tools.probes import reach_probes, work_probes
from musaagent.tools.reference_session import ReferenceSession
from musaagent.tools.registers import register_flags
from musaagent.tools.results import Build, MismatchKind, Status, Trial, Verdict
from musaagent.tools.session import CandidateFailure, CandidateSession
from musaagent.tools.steps import (
    Ask,
    Case,
    Workbench,
    construct,
    decide,
    import_candidate,
    run_once,
)
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import Task

log = logging.getLogger(__name__)


def verify(bench: Workbench, task: Task, candidate: Candidate, options: VerifyOptions) -> Verdict:
    """Judge one candidate. Raises TaskError or InfraError only where the fault is not its own.

    A worker that we lose is started again, once.
    """
    try:
        return _verify(bench, task, candidate, options)
    except SandboxLost as lost:
        log.warning("%s; once more", lost)
        return _verify(bench, task, candidate, options)


def _verify(bench: Workbench, task: Task, candidate: Candidate, options: VerifyOptions) -> Verdict:
    """Sizes are reduced for a CPU. A candidate may be written for the task's own sizes, so what
    fails at others is judged again with only the batch reduced, where that can be run.
    """
    seed = secrets.randbits(48) if options.seed is None else options.seed
    run = Run(target=bench.name, seed=seed)
    problem = parse_problem(candidate.source)
    if problem is not None:
        return run.verdict(Status.EXTRACTION_ERROR, problem)
    run.flags.extend(_tripwires(bench, candidate))
    case = Case(bench, task, candidate, options)
    verdict = _judge(case, run, "run")
    doubtful = verdict.status in (Status.MISMATCH, Status.RUNTIME_ERROR)
    if not (doubtful and run.resized) or run.passed_plain:
        return verdict
    again = Run(target=bench.name, seed=seed)
    again.flags.extend(_tripwires(bench, candidate))
    few = replace(options, trials=min(options.trials, 2))
    larger = _judge(replace(case, options=few), again, "large")
    if again.resized or larger.status is not Status.PASSED:
        return verdict
    flag = f"specialised: at the smaller sizes {', '.join(run.shapes)} it fails: {verdict.message}"
    return larger.model_copy(update={"flags": (*larger.flags, flag)})


def _tripwires(bench: Workbench, candidate: Candidate) -> tuple[str, ...]:
    """What runs dry is no GPU, so that a text can tell it from one."""
    found = audit(candidate.source)
    return (*found, *asked_macros(candidate.source)) if bench.runs_dry else found


def _judge(case: Case, run: Run, scale: str) -> Verdict:
    """The whole verdict at one scale."""
    opening = case.bench.submit(case.bench.reference, case.task, scale)
    try:
        session = case.bench.open_candidate(case.options, checked=False)
        try:
            with contextlib.closing(Ahead(case)) as ahead:
                return _judge_session(case, run, session, opening, ahead)
        finally:
            session.close()
    except CandidateFailure as failure:
        opened: ReferenceSession = opening.result()
        run.shapes, run.resized = opened.shapes, opened.resized
        status, message = failure.status, failure.message
        died = status is Status.RUNTIME_ERROR and run.build is not None and run.build.ok
        if died and case.options.check and not run.findings:
            with run.phase("check"):
                watch(case, run, random.Random(run.seed))
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
    case: Case,
    run: Run,
    session: CandidateSession,
    opening: "Future[ReferenceSession]",
    ahead: Ahead,
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
    session = _run_trials(run, session, reference, case, draw, ahead)
    with run.phase("real_compile"):
        refused = join_real_compile(run, [c.result() for c in compiles])
    if refused is not None:
        return run.verdict(Status.COMPILE_ERROR, refused)
    if run.build is not None:
        run.flags.extend(precision_flags(run.build.resources, run.launches, run.dtypes))
        run.flags.extend(register_flags(run.build.resources, run.launches))
        if case.bench.runs_dry:  # on a card an address of the host's is a fault
            run.flags.extend(pointer_flags(run.build.resources, run.launches))
    verdict = decide(run)
    if verdict is None:
        run.passed_plain = True
        verdict = _probe(case, run, session, reference, draw, ahead)
        if verdict is not None:
            return verdict
    if case.options.check:
        with run.phase("check"):
            if verdict is None:
                verdict = checked_run(case, run, draw)
            elif verdict.kind in (MismatchKind.NUMERIC, MismatchKind.NONFINITE):
                return name_the_cause(case, run, verdict, draw)
    return verdict or run.verdict(Status.PASSED)


def _probe(
    case: Case,
    run: Run,
    session: CandidateSession,
    reference: ReferenceSession,
    draw: random.Random,
    ahead: Ahead,
) -> Verdict | None:
    """Beyond the trials; None where nothing decides against it."""
    if case.options.probes:
        verdict = work_probes(case, run, session, reference, draw)
        if verdict is not None:
            return verdict
    own = OwnLaunches()
    ran = [launch.kernel for launch in session.evidence.launches.values()]
    if reference.overrides and case.bench.runs_dry and session.child.exit is None:
        with run.phase("own_sizes"):
            own = own_launches(session, reference)
        if run.build is not None:
            launched = [*run.launches, *session.evidence.launches.values()]
            told = register_flags(run.build.resources, launched)
            run.flags.extend(flag for flag in told if flag not in run.flags)
        if own.over is not None:
            run.findings = [own.over]
            message = f"at the task's own sizes: {explain(own.over)}"
            return run.verdict(Status.RUNTIME_ERROR, message)
        if own.ended and not own.kernels:
            message = "no kernel of its own is launched at the task's own sizes"
            return run.verdict(Status.ILLEGAL, message)
    if case.options.probes and run.scale != "large":
        # Its process is of no more use; where it has a card, it takes a while to go.
        case.bench.submit(session.close)
        return reach_probes(case, run, reference, draw, ahead, own.kernels - plain_names(ran))
    return None


def _run_trials(
    run: Run,
    session: CandidateSession,
    reference: ReferenceSession,
    case: Case,
    draw: random.Random,
    ahead: Ahead,
) -> CandidateSession:
    """Trials share one instance, with inputs overwritten in place; the last two get new weights.

    Where the target can, operators are recorded in all threads, in each of them: a candidate can
    tell whether they are. Exploits 1, 2, 12, 13, 16 to 18, 21 to 25, 40 and 47 to 49 end here. The
    session that is given back is another where inputs among the trials ended the first.
    """
    options = case.options
    deep = "every_thread" in case.bench.modes
    among = AmongTrials(case, run, reference, draw, ahead)
    ready: CandidateSession | None = None
    for index in range(options.trials):
        fresh = session is not ready or index >= max(options.trials - 2, 1)
        if fresh:
            construct(run, session, reference, draw.getrandbits(48))
            ready = session
        ask = Ask(
            order=(0, 1, 2)[index % 3], every_thread=deep and (index > 0 or case.bench.runs_dry)
        )
        judgement = run_once(run, session, reference, options, draw, ask)
        trial = Trial(
            name=f"seed {index + 1} of {options.trials}" + (", new weights" if fresh else ""),
            passed=judgement.ok,
            worst=min(judgement.worst, 1e308),
        )
        run.trials.append(trial)
        run.judgement = judgement if not judgement.ok else run.judgement.joined(judgement)
        run.flags.extend(judgement.flags)
        if not judgement.ok:
            return session
        if options.probes and run.scale != "large":
            ahead.start()  # most that fail do so at once
        session = among.follow(index, session)
    return session
