"""The checked run: every load and store watched, on small shapes, in a process of its own."""

import random
from dataclasses import replace

from musaagent.tools.gathered import Run
from musaagent.tools.judge import Judgement, decisive, explain
from musaagent.tools.reference_session import ReferenceSession
from musaagent.tools.results import Status, Trial, Verdict
from musaagent.tools.session import CandidateFailure
from musaagent.tools.steps import Ask, Case, construct, decide, import_candidate, run_once

CHECK_TIMEOUT_FACTOR = 3.0
"""A watched run is slower than a plain one by this much or more, on smaller shapes."""


def checked_run(case: Case, run: Run, draw: random.Random) -> Verdict | None:
    """Every load and store watched, on small shapes. None when nothing was found."""
    result = watch(case, run, draw)
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
    return decide(run)


def name_the_cause(case: Case, run: Run, verdict: Verdict, draw: random.Random) -> Verdict:
    """Wrong values come from somewhere: a race or a stray access is worth more than numbers."""
    watch(case, run, draw)
    causes = [finding for finding in run.findings if decisive(finding)]
    if not causes:
        return verdict
    message = f"{verdict.message}; a checked run finds {explain(causes[0])}"
    return run.verdict(verdict.status, message, verdict.details)


def watch(case: Case, run: Run, draw: random.Random) -> Judgement | CandidateFailure:
    """One watched run in a process of its own; what it finds goes to `run.findings`."""
    reference = case.bench.reference(case.task, "large" if run.scale == "large" else "check")
    try:
        run.shapes = run.shapes + tuple(f"checked {s}" for s in reference.shapes)
        return _watch_beside(case, run, draw, reference)
    finally:
        case.bench.release(reference)


def _watch_beside(
    case: Case, run: Run, draw: random.Random, reference: ReferenceSession
) -> Judgement | CandidateFailure:
    slow = replace(case.options, timeout_s=case.options.timeout_s * CHECK_TIMEOUT_FACTOR)
    session = case.bench.open_candidate(slow, checked=True)
    watched = Run(target=run.target, seed=run.seed)
    try:
        import_candidate(watched, session, case.candidate)
        construct(watched, session, reference, draw.getrandbits(48))
        return run_once(watched, session, reference, case.options, draw, Ask(order=2))
    except CandidateFailure as failure:
        return failure
    finally:
        run.findings = watched.findings
        run.launches = tuple(session.evidence.launches.values()) or run.launches
        session.close()
