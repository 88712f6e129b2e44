"""One build for the cuda target: which level to try, how it went, when to go on to the next."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from musaagent.tools.cuda.commands import Places, Script, build_script
from musaagent.tools.cuda.rtc import RTC_LOG, engine_of
from musaagent.tools.cuda.split import DEVICE_LOG, HOST_LOG, missing_kernels, split_script
from musaagent.tools.cuda.toolchain import CudaToolkit
from musaagent.tools.cuda.units import CudaLevel, make_units
from musaagent.tools.host.diagnostics import Texts, parse
from musaagent.tools.host.job import Finished, Runner, log_tail
from musaagent.tools.host.sources import (
    DOUBLE_MODULE,
    Piece,
    SourceSet,
    as_written,
    is_double_module,
    pieces,
)
from musaagent.tools.host.toolchain import Compiler, python_include
from musaagent.tools.ptxas import parse_ptxas
from musaagent.tools.results import Build, Diagnostic

_LEVELS: tuple[CudaLevel, ...] = ("split", "thin", "light", "full")
_MEMORY_MB: dict[CudaLevel, int] = {"split": 6144, "thin": 6144, "light": 10240, "full": 12288}
# Torch's own headers take a minute on a good machine, several on a busy one.
_LEAST_S: dict[CudaLevel, float] = {"split": 60.0, "thin": 90.0, "light": 300.0, "full": 600.0}
_TORCH_WORD = re.compile(
    r"\b(?:at|torch|c10|caffe2|pybind11|py)::"
    r"|['\"](?:at|torch|c10|caffe2|pybind11|py)['\"]"
    r"|\b(?:TORCH|AT|C10|PYBIND11|MUSAHOST)_\w+|musahost|No such file|cannot open source file"
)


@dataclass(frozen=True)
class Attempt:
    """One level, and how it went."""

    ok: bool
    level: CudaLevel
    diagnostics: tuple[Diagnostic, ...] = ()
    log: str = ""
    stopped: bool = False
    """Time or memory ran out: no other level is tried, and the cache does not keep it."""


@dataclass(frozen=True)
class Tools:
    """What compiles, and against what."""

    toolkit: CudaToolkit
    compiler: Compiler
    places: Places
    arch: str
    read_only: tuple[Path, ...]


class CudaJob:
    """Builds one source set in `folder`, which then holds module.so if it went well."""

    def __init__(self, tools: Tools, sources: SourceSet, runner: Runner, folder: Path) -> None:
        self.tools = tools
        self.sources = sources
        self.runner = runner
        self.folder = folder
        self.seconds = 0.0
        self.timeout_s = float("inf")
        self.pieces = pieces(sources)
        self.texts = Texts(as_written(sources, self.pieces))

    def run(self, timeout_s: float, levels: Sequence[CudaLevel] = _LEVELS) -> tuple[Build, bool]:
        """The build, and whether it is worth keeping in the cache."""
        self.timeout_s, deadline = timeout_s, time.monotonic() + timeout_s
        tried: list[str] = []
        attempt = Attempt(False, levels[0])
        for level in levels:
            made = self.attempt(level, deadline)
            if made is None:
                continue
            attempt = made
            tried.append(level)
            if attempt.ok or attempt.stopped or self.is_final(attempt):
                break
        double = is_double_module(self.sources, self.pieces)
        compiler = engine_of(attempt.log) or f"nvcc {self.tools.toolkit.version}"
        build = Build(
            ok=attempt.ok,
            diagnostics=attempt.diagnostics,
            level=attempt.level,
            compiler_seconds=self.seconds,
            resources=parse_ptxas(attempt.log) if attempt.ok else (),
            real_compile=f"{compiler}, {self.tools.arch}",
            log_tail="" if attempt.ok else log_tail(attempt.diagnostics, attempt.log),
            flags=(DOUBLE_MODULE,) if double else (),
        )
        return build, not attempt.stopped

    def is_final(self, attempt: Attempt) -> bool:
        """Whether no other headers could change the outcome: the fault is in the device code."""
        if attempt.level == "full":
            return True
        return any(self.is_own_fault(d) for d in attempt.diagnostics)

    def is_own_fault(self, diagnostic: Diagnostic) -> bool:
        if diagnostic.tool == "ptxas":
            return True
        if diagnostic.tool == "g++":
            return False  # split's host compiler sees kernels only as stubs
        if not diagnostic.line or _TORCH_WORD.search(diagnostic.message):
            return False
        for part in self.pieces:
            if part.label != diagnostic.source:
                continue
            for function in part.source.outline.functions:
                if function.device and function.body is not None:
                    first = part.source.tokens[function.start].line
                    last = part.source.tokens[function.body[1]].line
                    if first <= diagnostic.line <= last:
                        return True
        return False

    def attempt(self, level: CudaLevel, deadline: float) -> Attempt | None:
        """None where the level cannot express the sources at all."""
        script = self.script(level)
        if script is None:
            return None
        start = time.monotonic()
        left = max(deadline - start, min(_LEAST_S[level], self.timeout_s))
        finished = self.run_script(script, level, left)
        self.seconds += time.monotonic() - start
        if finished.timed_out or finished.memory_exceeded:
            what = f"ran for {left:.0f} s" if finished.timed_out else f"took {_MEMORY_MB[level]} MB"
            return Attempt(
                False, level, (_error("nvcc", f"the compiler {what} without an end"),), stopped=True
            )
        logs = {name: self._log(name) for name in script.outputs}
        if finished.returncode == 0:
            lost = missing_kernels(self.folder, self.pieces) if level == "split" else []
            errors = tuple(_error("ld", f"the device part has no kernel {name}") for name in lost)
            by_rtc = level == "split" and not (self.folder / DEVICE_LOG).exists()
            log = self._log(RTC_LOG) if by_rtc else ""
            return Attempt(not lost, level, errors, log + "\n".join(logs.values()))
        found = [
            on_a_gpu(diagnostic)
            for name, log in logs.items()
            for diagnostic in parse(log, "g++" if name == HOST_LOG else "nvcc", self.texts)
            if diagnostic.severity == "error"
        ]
        output = "\n".join(logs.values()) + finished.stderr
        if not found:
            last = output.strip().rpartition("\n")[2] or f"exit code {finished.returncode}"
            found = [_error("nvcc", f"the compiler failed: {last}")]
        return Attempt(False, level, tuple(found), output)

    def script(self, level: CudaLevel) -> Script | None:
        tools = self.tools
        common = (tools.arch, tools.toolkit, tools.compiler, tools.places)
        if level == "split":
            made = split_script(self.sources, self.pieces, *common)
            if made is None:
                return None
            units, script = made
        else:
            units = make_units(self.sources, self.pieces, level)
            script = build_script(self.sources, units, level, *common)
        for unit in units:
            (self.folder / unit.file_name).write_text(unit.text, encoding="utf-8")
        return script

    def _log(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def run_script(self, script: Script, level: CudaLevel, timeout_s: float) -> Finished:
        read_only = [*self.tools.read_only, self.tools.toolkit.nvcc.resolve().parent.parent]
        if self.tools.places.rtc is not None:
            read_only.append(self.tools.places.rtc.library.resolve().parent)
        if level in ("light", "full"):
            read_only += [self.tools.places.torch.root, python_include()]
            read_only += self.tools.toolkit.libraries_include
        return self.runner(
            ["sh", "-c", script.text],
            timeout_s=timeout_s,
            memory_mb=_MEMORY_MB[level],
            writable=self.folder,
            read_only=read_only,
            env={"LC_ALL": "C", "TMPDIR": str(self.folder)},
        )


def _error(tool: str, message: str) -> Diagnostic:
    return Diagnostic(tool=tool, severity="error", message=message)


def on_a_gpu(diagnostic: Diagnostic) -> Diagnostic:
    """Here a library that the host target cannot run is one whose headers are not installed."""
    if not diagnostic.construct:
        return diagnostic
    message = f"no {diagnostic.construct} on this machine: its headers were not found"
    return diagnostic.model_copy(update={"message": message})


def uses_musa(parts: Sequence[Piece]) -> bool:
    """MUSA spelling, which nvcc cannot compile."""
    headers = {header for part in parts for header in part.headers}
    return any(h.startswith(("musa", "torch_musa/")) for h in headers)
