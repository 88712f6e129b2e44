"""One build for the musa target: first against thin headers, then, to run, against torch_musa's."""

import re
import time
from dataclasses import dataclass
from pathlib import Path

from musaagent.tools.host.diagnostics import Texts, parse
from musaagent.tools.host.job import Runner, log_tail
from musaagent.tools.host.sources import (
    DOUBLE_MODULE,
    SourceSet,
    as_written,
    is_double_module,
    pieces,
)
from musaagent.tools.host.toolchain import Compiler, python_include
from musaagent.tools.musa.commands import Places, build_script
from musaagent.tools.musa.toolchain import MusaToolkit
from musaagent.tools.musa.units import MusaLevel, make_units
from musaagent.tools.results import Build, Diagnostic

_MEMORY_MB: dict[MusaLevel, int] = {"thin": 6144, "full": 12288}
_LEAST_S: dict[MusaLevel, float] = {"thin": 90.0, "full": 600.0}
# Names that the thin headers may lack and torch's own have.
_TORCH_WORD = re.compile(
    r"\b(?:at|torch|c10|caffe2|pybind11|py)::|'(?:at|torch|c10|caffe2|pybind11|py)'"
    r"|\b(?:TORCH|AT|C10|PYBIND11|MUSAHOST)_\w+|musahost|file not found"
)


@dataclass(frozen=True)
class Tools:
    """What compiles, and against what."""

    toolkit: MusaToolkit
    compiler: Compiler
    places: Places
    arch: str
    read_only: tuple[Path, ...]

    @property
    def can_run(self) -> bool:
        """Whether what is built could be loaded: torch_musa is there."""
        return self.places.torch_musa is not None

    @property
    def engine(self) -> str:
        stand_in = ", a stand-in: no Moore Threads compiler" if self.toolkit.is_stand_in else ""
        return f"mcc {self.toolkit.version}, {self.arch}{stand_in}"


@dataclass(frozen=True)
class Attempt:
    """One level, and how it went."""

    ok: bool
    level: MusaLevel
    diagnostics: tuple[Diagnostic, ...] = ()
    log: str = ""
    stopped: bool = False
    """Time or memory ran out; the cache does not keep it."""


class MusaJob:
    """Builds one source set in `folder`, which then holds module.so if it can run."""

    def __init__(self, tools: Tools, sources: SourceSet, runner: Runner, folder: Path) -> None:
        self.tools = tools
        self.sources = sources
        self.runner = runner
        self.folder = folder
        self.seconds = 0.0
        self.pieces = pieces(sources)
        self.texts = Texts(as_written(sources, self.pieces))

    def run(self, timeout_s: float) -> tuple[Build, bool]:
        """The build, and whether it is worth keeping in the cache."""
        deadline = time.monotonic() + timeout_s
        attempt = self.attempt("thin", deadline)
        if self.tools.can_run and not attempt.stopped and not self.is_final(attempt):
            attempt = self.attempt("full", deadline)
        double = is_double_module(self.sources, self.pieces)
        build = Build(
            ok=attempt.ok,
            diagnostics=attempt.diagnostics,
            level=attempt.level,
            compiler_seconds=self.seconds,
            real_compile=self.tools.engine,
            log_tail="" if attempt.ok else log_tail(attempt.diagnostics, attempt.log),
            flags=(DOUBLE_MODULE,) if double else (),
        )
        return build, not attempt.stopped

    def is_final(self, attempt: Attempt) -> bool:
        """Whether torch_musa's headers could not change it: an error of the candidate's own."""
        return not attempt.ok and any(
            d.line and not _TORCH_WORD.search(d.message) for d in attempt.diagnostics
        )

    def attempt(self, level: MusaLevel, deadline: float) -> Attempt:
        tools = self.tools
        units = make_units(self.sources, self.pieces, level)
        for unit in units:
            (self.folder / unit.file_name).write_text(unit.text, encoding="utf-8")
        script = build_script(
            self.sources, units, level, tools.arch, tools.toolkit, tools.compiler, tools.places
        )
        start = time.monotonic()
        left = max(deadline - start, _LEAST_S[level])
        finished = self.runner(
            ["sh", "-c", script.text],
            timeout_s=left,
            memory_mb=_MEMORY_MB[level],
            writable=self.folder,
            read_only=self._read_only(level),
            env={"LC_ALL": "C", "TMPDIR": str(self.folder), "MUSA_HOME": str(tools.toolkit.home)},
        )
        self.seconds += time.monotonic() - start
        if finished.timed_out or finished.memory_exceeded:
            what = f"ran for {left:.0f} s" if finished.timed_out else f"took {_MEMORY_MB[level]} MB"
            return Attempt(
                False, level, (_error(f"the compiler {what} without an end"),), stopped=True
            )
        log = "\n".join(self._log(name) for name in script.outputs) + finished.stderr
        if finished.returncode == 0:
            return Attempt(True, level)
        found = tuple(d for d in parse(log, "mcc", self.texts) if d.severity == "error")
        if not found:
            last = log.strip().rpartition("\n")[2] or f"exit code {finished.returncode}"
            found = (_error(f"the compiler failed: {last}"),)
        return Attempt(False, level, found, log)

    def _log(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def _read_only(self, level: MusaLevel) -> list[Path]:
        tools = self.tools
        folders = [*tools.read_only, tools.toolkit.home, tools.toolkit.mcc.resolve().parent]
        if level == "full":
            found = [p.root for p in (tools.places.torch, tools.places.torch_musa) if p is not None]
            folders += [*found, python_include()]
        return folders


def _error(message: str) -> Diagnostic:
    return Diagnostic(tool="mcc", severity="error", message=message)
