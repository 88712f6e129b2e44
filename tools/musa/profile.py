"""The profile of a passed candidate on a Moore Threads card.

In order of what is there: mcu's counters, msys' kernel sums, torch's profiler (Kineto). The bound
comes of the same rules as on NVIDIA cards. Not run on a card yet.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from musaagent.errors import MusaagentError
from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda.bound import classify, suggest
from musaagent.tools.cuda.profile import add_shares, under_profiler
from musaagent.tools.cuda.programs import Work, run_tool, write_job
from musaagent.tools.musa import profilers
from musaagent.tools.musa.cards import CARDS
from musaagent.tools.ptxas import base_name
from musaagent.tools.results import Launch, Profile, Verdict
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import Task

if TYPE_CHECKING:
    from musaagent.tools.cuda.bench import GpuBench

_TOOL_TIMEOUT_S = 300.0
_CALLS = 3


def musa_profile(
    bench: "GpuBench", task: Task, candidate: Candidate, options: VerifyOptions, verdict: Verdict
) -> Profile:
    """Degrades where a tool does not work here; `engine` says what was used and what was not."""
    seen = under_profiler(bench, task, candidate, options)
    launches, counters, engine = seen.launches, dict(seen.counters), seen.engine
    measured, told = _counters(bench, seen.work, launches)
    counters |= measured
    card = CARDS.get(bench.gpu.info.arch)
    plan = bench.target.plan_or_none(task)
    add_shares(counters, verdict, plan, bytes_per_s=card.bytes_per_s if card else None)
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
    write_job(folder, work, bench.gpu, calls=_CALLS, poison=False, device="musa", turn=True)
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
