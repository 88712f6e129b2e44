"""Everything gathered on the way to one verdict."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from musaagent.tools.judge import Judgement
from musaagent.tools.nvcc import RealCompile
from musaagent.tools.results import Build, Finding, Status, Trial, Verdict

_LEVELS = ("", "split", "thin", "light", "full")
"""How headers are chosen, fastest first; each target knows some of them."""


@contextmanager
def seconds_of(phases: dict[str, float], name: str) -> Iterator[None]:
    """Adds the seconds that go by within to those of that name."""
    start = time.monotonic()
    try:
        yield
    finally:
        phases[name] = phases.get(name, 0.0) + time.monotonic() - start


@dataclass
class Run:
    """Grows from step to step; `verdict` closes it."""

    target: str
    seed: int
    started: float = field(default_factory=time.monotonic)
    build: Build | None = None
    noted_builds: int = 0
    """How many of the session's builds are in `build`."""
    trials: list[Trial] = field(default_factory=list)
    probes: list[Trial] = field(default_factory=list)
    """Runs beyond the task's own inputs and sizes."""
    judgement: Judgement = field(default_factory=Judgement)
    flags: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)
    checked: bool = False
    shapes: tuple[str, ...] = ()
    scale: str = ""
    resized: bool = False
    """Whether other sizes than the batch were reduced for this run."""
    passed_plain: bool = False
    """All trials passed; what follows is the checked run."""
    launches: tuple[Any, ...] = ()
    dtypes: set[str] = field(default_factory=set)
    """Of all inputs, weights and outputs of the reference."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        return seconds_of(self.phases, name)

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
            probes=tuple(self.probes),
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


def join_real_compile(run: Run, results: list[RealCompile]) -> str | None:
    """Add ptxas figures to the build; the message when nvcc refused the candidate's own lines."""
    if run.build is None or not results:
        return None
    refused = [r for r in results if r.ok is False]
    run.build = run.build.model_copy(
        update={
            "ok": not refused,
            "resources": tuple(res for r in results for res in r.resources),
            "real_compile": results[0].engine if not refused else refused[0].engine,
            "diagnostics": tuple(d for r in refused for d in r.diagnostics)
            or run.build.diagnostics,
        }
    )
    if not refused:
        return None
    first = refused[0].diagnostics[0]
    place = f"{first.source} line {first.line}: " if first.line else ""
    return f"{place}{first.message} ({first.tool})"
