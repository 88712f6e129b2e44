"""The verdict with compute-sanitizer's findings: on demand, and for wrong values that vary."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from musaagent.errors import MusaagentError
from musaagent.tools.candidate import Candidate
from musaagent.tools.checked import CHECK_TIMEOUT_FACTOR
from musaagent.tools.cuda.programs import Work
from musaagent.tools.cuda.sanitizer import (
    REMEDY,
    CheckReport,
    find_sanitizer,
    run_check,
    run_checks,
)
from musaagent.tools.judge import explain
from musaagent.tools.reference_session import ReferenceSession
from musaagent.tools.results import Finding, FindingKind, MismatchKind, Status, Trial, Verdict
from musaagent.tools.session import CandidateFailure
from musaagent.tools.steps import construct_again
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import Task
from musaagent.tools.verifier import verify

if TYPE_CHECKING:
    from musaagent.tools.cuda.bench import GpuBench

_LEAST_TIMEOUT_S = 120.0
"""Torch alone takes a while to start under the tool."""
_OWN_BYTES = 16 << 20
_OWN_FLOPS = 600_000_000
_REPEATS = 3
_VALUES = (MismatchKind.NUMERIC, MismatchKind.NONFINITE)


@dataclass(frozen=True)
class _Case:
    bench: "GpuBench"
    task: Task
    candidate: Candidate
    options: VerifyOptions


def with_checked_run(
    bench: "GpuBench", task: Task, candidate: Candidate, options: VerifyOptions, verdict: Verdict
) -> Verdict:
    """The verdict itself where no checked run is asked for or would say anything."""
    start = time.monotonic()
    case = _Case(bench, task, candidate, options)
    built = verdict.build is not None and verdict.build.ok and bool(bench.builds)
    if not built:
        return verdict
    flags: list[str] = []
    if verdict.status is Status.MISMATCH and verdict.kind in _VALUES:
        if not options.check and find_sanitizer() is None:
            return verdict  # to know that they vary would help nobody
        changing = _changes_by_itself(case)
        if changing:
            flags.append("the same inputs give other outputs from call to call")
        if not (changing or options.check):
            return verdict
    elif not (options.check and verdict.status in (Status.PASSED, Status.RUNTIME_ERROR)):
        return verdict
    judged = _judged(case, verdict)
    took = verdict.phase_seconds | {"check": time.monotonic() - start}
    return judged.model_copy(update={"flags": (*judged.flags, *flags), "phase_seconds": took})


def _judged(case: _Case, verdict: Verdict) -> Verdict:
    tool = find_sanitizer()
    if tool is None:
        return _flagged(verdict, f"no checked run: compute-sanitizer is not here; {REMEDY}")
    try:
        reference = _reference(case)
        work = _work(case, reference)
        kind = case.bench.target.gpu_spec(1024).kind
    except MusaagentError as error:
        return _flagged(verdict, f"no checked run: {error}")
    assert kind is not None
    slow = max(case.options.timeout_s * CHECK_TIMEOUT_FACTOR, _LEAST_TIMEOUT_S)
    own = case.bench.own_kernels
    cache = [case.bench.target.builder.cache_dir]

    def run(check: str) -> CheckReport:
        return run_check(check, tool, work, case.bench.gpu, kind, cache, slow, own)

    reports = run_checks(run)
    shapes = tuple(f"checked {shape}" for shape in reference.shapes)
    verdict = verdict.model_copy(update={"shapes": (*verdict.shapes, *shapes)})
    return apply_reports(verdict, reports, believed=lambda: _right_there(case, reference))


def apply_reports(
    verdict: Verdict, reports: Sequence[CheckReport], *, believed: Callable[[], bool]
) -> Verdict:
    """What the reports make of a verdict.

    `believed()` is asked before a candidate that passed fails by a finding: at other sizes than its
    own it may be wrong without being wrong.
    """
    for report in reports:
        if not report.findings and not report.clean:
            verdict = _flagged(verdict, f"compute-sanitizer {report.check}: {report.why}")
        verdict = _flagged(verdict, *(f"{report.check}: {r}" for r in report.remarks[:2]))
    findings = tuple(f for report in reports for f in report.findings)
    if not findings:
        if not reports or not all(r.clean for r in reports):
            return verdict
        update: dict[str, object] = {"checked": True}
        if verdict.status is Status.PASSED:
            name = f"checked run ({', '.join(r.check for r in reports)})"
            update["trials"] = (*verdict.trials, Trial(name=name, passed=True))
        return verdict.model_copy(update=update)
    said = explain(findings[0])
    found: dict[str, object] = {"findings": findings, "checked": True}
    match verdict.status:
        case Status.MISMATCH:
            found["message"] = f"{verdict.message}; a checked run finds {said}"
        case Status.PASSED:
            if _harmless(findings[0]):
                return _flagged(verdict.model_copy(update=found), said)
            if not believed():
                flag = f"a checked run at smaller sizes, where it fails anyway, finds {said}"
                return _flagged(verdict, flag)
            found |= {"status": Status.RUNTIME_ERROR, "message": f"checked run: {said}"}
            found["timing"] = None
        case _:
            found["message"] = f"{said}; then {verdict.message}"
    return verdict.model_copy(update=found)


def _harmless(finding: Finding) -> bool:
    """Its value had no influence: outputs were right while fresh memory was poisoned."""
    unwritten = finding.kind is FindingKind.UNINITIALISED_READ
    return unwritten and "global memory" in finding.message


def _flagged(verdict: Verdict, *flags: str) -> Verdict:
    new = [flag for flag in flags if flag not in verdict.flags]
    return verdict.model_copy(update={"flags": (*verdict.flags, *new)}) if new else verdict


def _reference(case: _Case) -> ReferenceSession:
    """On the CPU: the task's own sizes where they are small, else fewer rows, else less of all."""
    target, task = case.bench.target, case.task
    plan = target.plan_or_none(task)
    if plan is not None and plan.least_bytes <= _OWN_BYTES and plan.flops <= _OWN_FLOPS:
        return target.plain_reference(task, "own")
    fewer = target.plain_reference(task, "large")
    return target.plain_reference(task, "run") if fewer.resized else fewer


def _work(case: _Case, reference: ReferenceSession) -> Work:
    seed = random.SystemRandom().getrandbits(48)
    runtime = case.bench.target.builder.runtime_library()
    made, inputs = reference.construct(seed), reference.inputs(seed)
    return Work(case.candidate, case.bench.builds, runtime, made, inputs, seed)


def _changes_by_itself(case: _Case) -> bool:
    """Whether equal inputs, weights and seeds give other bytes from call to call."""
    reference = case.bench.reference(case.task, "run")
    session = case.bench.open_candidate(case.options, checked=False)
    seed = random.SystemRandom().getrandbits(48)
    try:
        construct_again(session, reference, case.candidate, seed)
        inputs = reference.inputs(seed)
        header = {"op": "run", "seed": seed, "inputs": inputs.tree, "tensors": inputs.metas}
        seen = set()
        for _ in range(_REPEATS):
            answer, blobs = session.request(dict(header), inputs.blobs, doing="run forward")
            seen.add((str(answer.get("tensors")), *(bytes(blob) for blob in blobs)))
        return len(seen) > 1
    except CandidateFailure:
        return False
    finally:
        session.close()


def _right_there(case: _Case, reference: ReferenceSession) -> bool:
    """Whether the candidate gives right values at the sizes of the checked run too."""
    if not reference.resized:
        return True
    from musaagent.tools.cuda.bench import ReducedBench

    bench = ReducedBench(case.bench.target, case.bench.gpu, reference.overrides)
    plain = replace(case.options, trials=2, check=False, timing=False)
    return verify(bench, case.task, case.candidate, plain).status is Status.PASSED
