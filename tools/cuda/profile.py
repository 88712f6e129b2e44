"""The profile of a passed candidate: kernels with their times, counters, the bound, one hint."""

import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from musaagent.errors import MusaagentError
from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda import ncu
from musaagent.tools.cuda.bound import classify, suggest
from musaagent.tools.cuda.peaks import peak_of
from musaagent.tools.cuda.programs import Work, run_tool, write_job
from musaagent.tools.cuda.session import CudaSession, split_kernels
from musaagent.tools.cuda.shares import device_time
from musaagent.tools.opgraph import Plan
from musaagent.tools.ptxas import base_name
from musaagent.tools.results import Launch, Profile, Verdict
from musaagent.tools.session import CandidateFailure
from musaagent.tools.steps import construct_again
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import Task

if TYPE_CHECKING:
    from musaagent.tools.cuda.bench import GpuBench

_NCU_TIMEOUT_S = 180.0
_NCU_WARM_CALLS = 2
_SEED = 20240229


@dataclass(frozen=True)
class Profiled:
    """One call under torch's profiler, and what it takes to run the same outside of a session."""

    work: Work
    launches: tuple[Launch, ...]
    counters: dict[str, float]
    engine: str


def under_profiler(
    bench: "GpuBench", task: Task, candidate: Candidate, options: VerifyOptions
) -> Profiled:
    """Raises MusaagentError where the candidate fails in it."""
    reference = bench.reference(task, "run")
    session = bench.open_candidate(options, checked=False)
    try:
        construct_again(session, reference, candidate, _SEED)
        inputs = reference.inputs(_SEED)
        header: dict[str, Any] = {
            "op": "time_setup",
            "inputs": inputs.tree,
            "tensors": inputs.metas,
            "first": True,
            "last": True,
            "warm_up": 3,
        }
        session.request(header, inputs.blobs, doing="warm up for the profile")
        answer, _ = session.request({"op": "profile"}, doing="run under the profiler")
        work = Work(
            candidate,
            list(session.builds),
            bench.target.builder.runtime_library(),
            reference.construct(_SEED),
            inputs,
            _SEED,
        )
        return Profiled(work, *kernels_of(session, answer))
    except CandidateFailure as failure:
        raise MusaagentError(f"the profile run failed: {failure.message}") from None
    finally:
        session.close()


def cuda_profile(
    bench: "GpuBench", task: Task, candidate: Candidate, options: VerifyOptions, verdict: Verdict
) -> Profile:
    """Degrades where a tool does not work here; `engine` says what was used and what was not."""
    seen = under_profiler(bench, task, candidate, options)
    launches, counters, engine = seen.launches, dict(seen.counters), seen.engine
    measured, why_not = _counters(bench, seen.work, launches)
    counters |= measured
    engine += "ncu" if not why_not else f"no ncu: {why_not}"
    _add_roofline(counters, bench, task, verdict)
    resources = verdict.build.resources if verdict.build else ()
    counters["spill_bytes"] = float(
        sum(r.spill_store_bytes + r.spill_load_bytes for r in resources)
    )
    bound = classify(counters)
    return Profile(
        target="cuda",
        engine=engine,
        launches=launches,
        resources=resources,
        bound=bound,
        counters=counters,
        suggestion=suggest(bound, counters),
    )


def kernels_of(
    session: CudaSession, answer: dict[str, Any]
) -> tuple[tuple[Launch, ...], dict[str, float], str]:
    """Launches of one call, and the time that its kernels take by torch's profiler."""
    unseen, kernels = str(answer.get("kernels_unseen") or ""), answer.get("kernels") or []
    if unseen:
        return (), {}, f"no torch profiler: {unseen}; "
    calls = max(int(answer.get("calls") or 1), 1)
    own, _ = split_kernels(kernels, session.own_kernels())
    took = device_time(kernels, session.own_kernels())
    per_call = tuple(o.model_copy(update={"count": max(o.count // calls, 1)}) for o in own)
    counters = {"kernel_ns": took.all_ns / calls, "own_share": took.own_share or 0.0}
    counters["launches"] = float(sum(launch.count for launch in per_call))
    return per_call, counters, "torch profiler; "


def _counters(
    bench: "GpuBench", work: Work, launches: Sequence[Launch]
) -> tuple[dict[str, float], str]:
    """ncu's counters over one call, or why there are none."""
    tool = shutil.which("ncu")
    names = sorted({base_name(launch.kernel) for launch in launches})
    if tool is None:
        return {}, "not installed"
    if not names:
        return {}, "no kernel names to look for"
    once = sum(launch.count for launch in launches)
    line = ncu.command(tool, names, skip=_NCU_WARM_CALLS * once, count=once)
    with tempfile.TemporaryDirectory(prefix="musaagent-ncu-") as name:
        folder = Path(name)
        write_job(folder, work, bench.gpu, calls=_NCU_WARM_CALLS + 1, poison=False, turn=True)
        try:
            spec = bench.target.gpu_spec(1024)
            assert spec.kind is not None
            read_only = [bench.target.builder.cache_dir, Path(tool).resolve().parent]
            done = run_tool(line, folder, bench.gpu, spec.kind, read_only, _NCU_TIMEOUT_S)
        except MusaagentError as error:
            return {}, str(error)
    entries = ncu.parse(done.stdout)
    if not entries:
        why = "time ran out" if done.timed_out else ncu.refusal(done.stdout + done.stderr)
        return {}, re.sub(r"\s+", " ", why)
    return ncu.weighted(entries), ""


def _add_roofline(
    counters: dict[str, float], bench: "GpuBench", task: Task, verdict: Verdict
) -> None:
    peak = peak_of(bench.gpu.info.name)
    profiled = bench.reference(task, "run").shapes
    add_shares(
        counters,
        verdict,
        bench.target.plan_or_none(task),
        bytes_per_s=peak.bytes_per_s if peak else None,
        flops_per_s=peak.flops_fp32 if peak else None,
    )
    if verdict.timing is not None and verdict.timing.shapes != profiled:
        # A large task is profiled at the reduced sizes of its trials, and timed at its own.
        counters.pop("kernel_share", None)


def add_shares(
    counters: dict[str, float],
    verdict: Verdict,
    plan: Plan | None,
    *,
    bytes_per_s: float | None,
    flops_per_s: float | None = None,
) -> None:
    """How much of its time kernels run, and of the card's peaks the task's least work takes."""
    if verdict.timing is None:
        return
    seconds = verdict.timing.candidate.median_ms / 1e3
    if "kernel_ns" in counters and seconds:
        counters["kernel_share"] = min(counters["kernel_ns"] / 1e9 / seconds, 1.0)
    if plan is None or not plan.least_bytes:
        return
    if bytes_per_s:
        counters["least_bytes"] = float(plan.least_bytes)
        counters["bandwidth_share"] = plan.least_bytes / bytes_per_s / seconds
    if flops_per_s:
        counters["flops_share"] = plan.flops / flops_per_s / seconds
