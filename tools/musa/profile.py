"""The profile of a passed candidate on a Moore Threads card.

In order of what is there: mcu's counters, msys' kernel sums, torch's profiler (Kineto). The bound
comes of the same rules as on NVIDIA cards. Not run on a card yet.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from musaagent.errors import MusaagentError
from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda.bound import classify, suggest
from musaagent.tools.cuda.profile import kernels_of
from musaagent.tools.cuda.programs import Work, run_tool, write_job
from musaagent.tools.cuda.session import base_name
from musaagent.tools.musa import profilers
from musaagent.tools.musa.cards import CARDS
from musaagent.tools.results import Launch, Profile, Verdict
from musaagent.tools.session import CandidateFailure
from musaagent.tools.steps import construct_again
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import Task

if TYPE_CHECKING:
    from musaagent.tools.cuda.bench import GpuBench

_TOOL_TIMEOUT_S = 300.0
_CALLS = 3
_SEED = 20240229


def musa_profile(
    bench: "GpuBench", task: Task, candidate: Candidate, options: VerifyOptions, verdict: Verdict
) -> Profile:
    """Degrades where a tool does not work here; `engine` says what was used and what was not."""
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
        launches, counters, engine = kernels_of(session, answer)
        made = reference.construct(_SEED)
        work = Work(candidate, list(session.builds), Path(), made, inputs, _SEED)
    except CandidateFailure as failure:
        raise MusaagentError(f"the profile run failed: {failure.message}") from None
    finally:
        session.close()
    measured, told = _counters(bench, work, launches)
    counters |= measured
    _add_roofline(counters, bench, task, verdict)
    bound = classify(counters)
    return Profile(
        target="musa",
        engine=engine + told,
        launches=launches,
        resources=verdict.build.resources if verdict.build else (),
        bound=bound,
        counters=counters,
        suggestion=suggest(bound, counters),
    )


def _counters(
    bench: "GpuBench", work: Work, launches: Sequence[Launch]
) -> tuple[dict[str, float], str]:
    """Counters of the candidate's own kernels, and which tool gave them or why none did."""
    names = {base_name(launch.kernel) for launch in launches}
    whys = []
    for tool, measure in (("mcu", _by_mcu), ("msys", _by_msys)):
        path = shutil.which(tool)
        if path is None:
            whys.append(f"{tool} is not installed")
            continue
        found, why = measure(bench, work, names, path)
        if found:
            return found, tool
        whys.append(f"no {tool}: {why}")
    return {}, "; ".join(whys)


def _by_mcu(
    bench: "GpuBench", work: Work, names: set[str], tool: str
) -> tuple[dict[str, float], str]:
    with tempfile.TemporaryDirectory(prefix="musaagent-mcu-") as folder:
        line = profilers.mcu_command(tool, str(Path(folder) / "report"))
        output, why = _run(bench, work, line, Path(folder))
    kernels = profilers.parse_mcu(output)
    own = [k for k in kernels if base_name(k.kernel) in names]
    if not own:
        return {}, why or profilers.mcu_refusal(output)
    return profilers.weighted(own), ""


def _by_msys(
    bench: "GpuBench", work: Work, names: set[str], tool: str
) -> tuple[dict[str, float], str]:
    """Times only."""
    with tempfile.TemporaryDirectory(prefix="musaagent-msys-") as folder:
        report = str(Path(folder) / "report")
        profile, stats = profilers.msys_commands(tool, report)
        output, why = _run(bench, work, profile, Path(folder))
        subprocess.run(stats, cwd=folder, capture_output=True, timeout=_TOOL_TIMEOUT_S, check=False)
        texts = [p.read_text(errors="replace") for p in Path(folder).glob("*kern_sum*.csv")]
    rows = [row for text in texts for row in profilers.parse_msys_kernels(text)]
    total = sum(ns for name, _, ns in rows if base_name(name) in names)
    if not total:
        return {}, why or output.strip().rpartition("\n")[2][:200] or "it named no kernel"
    return {"time_ns": total / _CALLS}, ""


def _run(bench: "GpuBench", work: Work, line: list[str], folder: Path) -> tuple[str, str]:
    """What the tool printed, and why there is nothing."""
    write_job(folder, work, bench.gpu, calls=_CALLS, poison=False, device="musa")
    try:
        spec = bench.target.gpu_spec(1024)
        assert spec.kind is not None
        read_only = [bench.target.builder.cache_dir, Path(line[0]).resolve().parent]
        done = run_tool(
            line,
            folder,
            bench.gpu,
            spec.kind,
            read_only,
            _TOOL_TIMEOUT_S,
            devices=spec.devices,
        )
    except MusaagentError as error:
        return "", str(error)
    text = done.stdout + done.stderr
    return text, "time ran out" if done.timed_out else ""


def _add_roofline(
    counters: dict[str, float], bench: "GpuBench", task: Task, verdict: Verdict
) -> None:
    if verdict.timing is None:
        return
    seconds = verdict.timing.candidate.median_ms / 1e3
    if "kernel_ns" in counters and seconds:
        counters["kernel_share"] = min(counters["kernel_ns"] / 1e9 / seconds, 1.0)
    plan, card = bench.target.plan_or_none(task), CARDS.get(bench.gpu.info.arch)
    if plan is None or card is None or not plan.least_bytes or not card.bytes_per_s:
        return
    counters["least_bytes"] = float(plan.least_bytes)
    counters["bandwidth_share"] = plan.least_bytes / card.bytes_per_s / seconds
