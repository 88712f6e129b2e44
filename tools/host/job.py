"""One build for the host target: which way to compile, how it went, what the candidate is told."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from musaagent.tools.host import commands
from musaagent.tools.host.commands import BuildScript, Folders, Mode
from musaagent.tools.host.constructs import Hit, find_constructs
from musaagent.tools.host.diagnostics import parse
from musaagent.tools.host.imports import refused_imports, remarkable_imports
from musaagent.tools.host.levels import beyond_thin, clashes
from musaagent.tools.host.parts import SharedParts
from musaagent.tools.host.sources import (
    DOUBLE_MODULE,
    Level,
    SourceSet,
    can_merge,
    is_double_module,
    pieces,
    texts,
    units,
)
from musaagent.tools.host.stock import stock_refusals
from musaagent.tools.host.toolchain import TorchHeaders, find_torch, python_include
from musaagent.tools.results import Build, Diagnostic

_MEMORY_MB: dict[Level, int] = {"thin": 4096, "full": 8192}
# Torch's own headers take most of a minute, several on a busy machine.
_LEAST_S: dict[Level, float] = {"thin": 0.5, "full": 400.0}
_LOG_TAIL_LINES = 30


class Finished(Protocol):
    """What a command runner answers."""

    @property
    def returncode(self) -> int: ...
    @property
    def stdout(self) -> str: ...
    @property
    def stderr(self) -> str: ...
    @property
    def timed_out(self) -> bool: ...
    @property
    def memory_exceeded(self) -> bool: ...


class Runner(Protocol):
    """Runs one program that may write to one folder only; `sandbox.run_jailed` is one."""

    def __call__(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        memory_mb: int,
        writable: Path,
        read_only: Sequence[Path],
        env: dict[str, str],
    ) -> Finished: ...


def default_runner() -> Runner:
    """The sandbox's; imported late, since probing for a jail takes a moment."""
    from musaagent.tools.sandbox import run_jailed

    return run_jailed


@dataclass(frozen=True)
class Attempt:
    """One way to build, and how it went."""

    ok: bool
    level: Level
    diagnostics: tuple[Diagnostic, ...] = ()
    log: str = ""
    stopped: bool = False
    """Time or memory ran out: no other way is tried, and the cache does not keep it."""


class Job:
    """Builds one source set in `folder`, which then holds module.so if it went well."""

    def __init__(
        self, parts: SharedParts, sources: SourceSet, mode: Mode, runner: Runner, folder: Path
    ) -> None:
        self.parts = parts
        self.sources = sources
        self.mode = mode
        self.runner = runner
        self.folder = folder
        self.seconds = 0.0
        self.pieces = pieces(sources)
        self.texts = texts(sources, self.pieces)
        self.torch: TorchHeaders | None = find_torch()

    def run(self, timeout_s: float) -> tuple[Build, bool]:
        """The build, and whether it is worth keeping in the cache."""
        deadline = time.monotonic() + timeout_s
        hits = [h for p in self.pieces for h in find_constructs(p.source, p.label, p.text)]
        refusals = [h.diagnostic for h in hits if h.certain]
        refusals += stock_refusals(self.sources, self.pieces)
        refused = Attempt(False, "thin", tuple(refusals))
        attempt = refused if refusals else self.attempts(deadline)
        diagnostics = attempt.diagnostics if attempt.ok else explain(attempt.diagnostics, hits)
        double = is_double_module(self.sources, self.pieces)
        flags: tuple[str, ...] = (DOUBLE_MODULE,) if double else ()
        if attempt.ok:
            flags += remarkable_imports(self.folder / commands.MODULE_NAME)
        build = Build(
            ok=attempt.ok,
            diagnostics=diagnostics,
            level=attempt.level,
            compiler_seconds=self.seconds,
            log_tail="" if attempt.ok else log_tail(diagnostics, attempt.log),
            flags=flags,
        )
        return build, not attempt.stopped

    def attempts(self, deadline: float) -> Attempt:
        """Thin in one unit, thin in two, full: each only where the one before asks for it."""
        merged = can_merge(self.sources, self.pieces)
        attempt = self.attempt("thin", merged, deadline)
        if merged and self.failed(attempt) and clashes(attempt.diagnostics):
            attempt = self.attempt("thin", False, deadline)
        if (
            self.failed(attempt)
            and self.torch is not None
            and beyond_thin(attempt.diagnostics, self.torch, self.parts.headers)
        ):
            attempt = self.attempt("full", merged, deadline)
        return attempt

    def failed(self, attempt: Attempt) -> bool:
        return not attempt.ok and not attempt.stopped

    def attempt(self, level: Level, merged: bool, deadline: float) -> Attempt:
        made = units(self.sources, self.pieces, level, merged=merged)
        for unit in made:
            (self.folder / unit.file_name).write_text(unit.text, encoding="utf-8")
        folders = Folders(
            headers=self.parts.headers,
            runtime=self.parts.runtime,
            precompiled=self.parts.precompiled(self.mode) if level == "thin" else None,
        )
        script = commands.build_script(
            self.parts.compiler, self.sources, made, level, self.mode, folders, self.torch
        )
        start = time.monotonic()
        left = max(deadline - start, _LEAST_S[level])
        finished = self.run_script(script, level, left)
        self.seconds += time.monotonic() - start
        if finished.timed_out or finished.memory_exceeded:
            what = f"ran for {left:.0f} s" if finished.timed_out else f"took {_MEMORY_MB[level]} MB"
            return Attempt(
                False, level, (self.error(f"the compiler {what} without an end"),), stopped=True
            )
        output = self.output(script) + finished.stderr
        if finished.returncode == 0:
            refused = refused_imports(self.folder / commands.MODULE_NAME)
            return Attempt(not refused, level, refused)
        found = parse(output, self.parts.compiler.kind, self.texts)
        if not found:
            last = output.strip().rpartition("\n")[2] or f"exit code {finished.returncode}"
            found = (self.error(f"the compiler failed: {last}"),)
        return Attempt(False, level, found, output)

    def error(self, message: str) -> Diagnostic:
        return Diagnostic(tool=self.parts.compiler.kind, severity="error", message=message)

    def output(self, script: BuildScript) -> str:
        logs = [self.folder / name for name in script.outputs]
        return "".join(p.read_text(encoding="utf-8", errors="replace") for p in logs if p.exists())

    def run_script(self, script: BuildScript, level: Level, timeout_s: float) -> Finished:
        read_only = [self.parts.cache.root, Path(self.parts.compiler.path).resolve().parent.parent]
        if level == "full" and self.torch is not None:
            read_only += [self.torch.root, python_include()]
        return self.runner(
            ["sh", "-c", script.text],
            timeout_s=timeout_s,
            memory_mb=_MEMORY_MB[level],
            writable=self.folder,
            read_only=read_only,
            env={"LC_ALL": "C", "TMPDIR": str(self.folder)},
        )


def explain(found: Sequence[Diagnostic], hits: Sequence[Hit]) -> tuple[Diagnostic, ...]:
    """Put the construct first where an error lies on the line that uses one."""
    places = {(d.source, d.line) for d in found}
    used = [h.diagnostic for h in hits if (h.diagnostic.source, h.diagnostic.line) in places]
    known = {(d.source, d.line, d.construct) for d in found}
    added = [d for d in used if (d.source, d.line, d.construct) not in known]
    return (*added, *found)


def log_tail(diagnostics: Sequence[Diagnostic], output: str) -> str:
    """The diagnostics as lines; the raw output's end where nothing in it was understood."""
    if not any(d.line for d in diagnostics) and output:
        return "\n".join(output.strip().splitlines()[-_LOG_TAIL_LINES:])
    lines = []
    for d in diagnostics:
        place = f"{d.source}:{d.line}: " if d.line else ""
        lines.append(f"{place}{d.severity}: {d.message}")
        lines += [f"    {d.text}"] if d.text else []
        lines += [f"    note: {note}" for note in d.notes]
    return "\n".join(lines[:_LOG_TAIL_LINES])
