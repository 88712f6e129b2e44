"""The real compile: the candidate's own CUDA sources to a cubin, for sm_90 figures.

NVRTC compiles the device part alone where that can be, in a tenth of nvcc's time. What it does not
compile goes through nvcc, with the thin torch headers. Nothing is linked and nothing runs.
"""

import re
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from musaagent.tools.cuda.rtc import (
    RTC_LOG,
    RTC_UNIT,
    SYMBOLS,
    device_unit,
    engine_of,
    rtc_command,
    rtc_flags,
    template_kernels,
    wheel_headers,
)
from musaagent.tools.cuda.rtc_program import rtc_program
from musaagent.tools.host.cache import BuildCache, default_cache_dir, keep_only, key_of
from musaagent.tools.host.diagnostics import parse
from musaagent.tools.host.job import Runner, default_runner
from musaagent.tools.host.parts import SharedParts
from musaagent.tools.host.sources import (
    CUDA_PRELUDE,
    Piece,
    SourceSet,
    is_musa,
    pieces,
    split_flags,
    texts,
)
from musaagent.tools.host.toolchain import NVCC_REMEDY, find_nvcc, nvcc_version
from musaagent.tools.ptxas import demangle, parse_ptxas
from musaagent.tools.results import Diagnostic, KernelResources, Record
from musaagent.tools.sass import (
    SASS_TEXT,
    find_disassembler,
    own_code,
    parse_sass,
    with_arithmetic,
)

_TIMEOUT_S = 120.0
_MEMORY_MB = 8192
_KIND = "nvcc"
_RECORD = "result.json"
_UNIT, _CUBIN = "cuda.cu", "cuda.cubin"
# torch passes these to nvcc in every extension build.
_HALF_FLAGS = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
)
_STOCK_FLAGS = (*_HALF_FLAGS, "--expt-relaxed-constexpr")
# Options of the candidate that change what kernels compile to; each with its value in one word.
_KEPT_FLAGS = (
    *("-D", "-U", "-O", "--use_fast_math", "-use_fast_math", "-maxrregcount", "--maxrregcount"),
    *("--extended-lambda", "-extended-lambda", "--expt-extended-lambda", "-expt-extended-lambda"),
    *("-fmad", "--fmad", "-ftz", "--ftz", "-prec-div", "--prec-div", "-prec-sqrt", "--prec-sqrt"),
    *("-restrict", "--restrict"),
)
_TORCH_WORD = re.compile(r"\b(?:at|torch|c10|caffe2|pybind11|py)::|\b(?:TORCH|AT|C10|PYBIND11)_\w+")
_TOO_MUCH = re.compile(r"Entry function '(?P<name>\w+)' (?P<what>uses too much .*)")


class RealCompile(Record):
    """What nvcc made of the sources. `ok` None: no statement, and `engine` says why."""

    ok: bool | None
    diagnostics: tuple[Diagnostic, ...] = ()
    resources: tuple[KernelResources, ...] = ()
    engine: str = ""
    """`nvcc 13.0, sm_90`, or the reason why there is no result."""
    seconds: float = 0.0


def real_compile(
    sources: SourceSet,
    arch: str = "sm_90",
    *,
    cache: BuildCache | None = None,
    run_command: Runner | None = None,
) -> RealCompile:
    """Compile for a real GPU where nvcc is at hand; a result is cached by content.

    An error counts only where it lies in the candidate's device code: in host code the thin torch
    headers may be at fault, and then there is no statement. Raises SandboxLost without a jail.
    """
    start = time.monotonic()
    parts = [part for part in pieces(sources) if part.language == "cuda"]
    if not parts:
        return _none("no cuda_sources")
    if is_musa(parts):
        return _none("MUSA sources: nvcc cannot compile them")
    cache = cache or BuildCache(default_cache_dir() / "host")
    quick = by_nvrtc(sources, parts, arch, cache, run_command or default_runner())
    if quick is not None:
        return quick.model_copy(update={"seconds": time.monotonic() - start})
    nvcc = find_nvcc()
    if nvcc is None:
        return _none(f"no nvcc here: {NVCC_REMEDY}")
    engine = f"nvcc {nvcc_version(nvcc)}, {arch}"
    headers = SharedParts(cache).headers
    command = _command(nvcc, arch, sources, headers)
    text = CUDA_PRELUDE if sources.implicit_headers else ""
    text += "".join(f'#line 1 "{part.label}"\n{part.text}\n' for part in parts)
    key = key_of(_KIND, command, text, nvcc_version(nvcc), Path(__file__).read_text(), own_code())
    entry = cache.find(_KIND, key)
    if entry is None:
        with cache.lock(key), cache.fresh() as folder:
            (folder / _UNIT).write_text(text, encoding="utf-8")
            runner = run_command or default_runner()
            result = _compile(command, engine, sources, parts, runner, folder, headers, nvcc)
            if result is None:
                return _none(f"{engine}: still compiling after {_TIMEOUT_S:g} s")
            keep_only(folder, ())
            (folder / _RECORD).write_text(result.model_dump_json(), encoding="utf-8")
            entry = cache.publish(folder, _KIND, key)
    result = RealCompile.model_validate_json((entry / _RECORD).read_text(encoding="utf-8"))
    return result.model_copy(update={"seconds": time.monotonic() - start})


def by_nvrtc(
    sources: SourceSet, parts: Sequence[Piece], arch: str, cache: BuildCache, runner: Runner
) -> RealCompile | None:
    """None where NVRTC cannot say: it is not there, the source is not for it, or it refused it."""
    unit, flags = device_unit(parts), rtc_flags(sources)
    if sources.files or unit is None or flags is None or template_kernels(parts):
        return None
    headers = SharedParts(cache).headers
    nvcc = find_nvcc()
    root = nvcc.resolve().parent.parent if nvcc else None
    rtc = rtc_program(cache, root, headers / "include_torch")
    if rtc is None:
        return None
    include = [root / "include"] if root else wheel_headers()
    line = rtc_command(rtc, arch, include, [*_HALF_FLAGS, *flags], (), _CUBIN)
    line += _then_disassemble()
    key = key_of(_KIND, line, unit, rtc.identity, own_code())
    entry = cache.find(_KIND, key)
    if entry is None:
        with cache.lock(key), cache.fresh() as folder:
            (folder / RTC_UNIT).write_text(unit, encoding="utf-8")
            (folder / SYMBOLS).touch()
            finished = runner(
                ["sh", "-c", line],
                timeout_s=_TIMEOUT_S,
                memory_mb=_MEMORY_MB,
                writable=folder,
                read_only=[cache.root, rtc.library.resolve().parent, *include, *_disassembler()],
                env={"LC_ALL": "C", "TMPDIR": str(folder)},
            )
            if finished.timed_out or finished.memory_exceeded:
                return None
            log = (folder / RTC_LOG).read_text(encoding="utf-8", errors="replace")
            ok = finished.returncode == 0
            result = RealCompile(
                ok=True if ok else None,
                resources=_resources(log, folder) if ok else (),
                engine=f"{engine_of(log)}, {arch}",
            )
            keep_only(folder, ())
            (folder / _RECORD).write_text(result.model_dump_json(), encoding="utf-8")
            entry = cache.publish(folder, _KIND, key)
    result = RealCompile.model_validate_json((entry / _RECORD).read_text(encoding="utf-8"))
    return result if result.ok else None


def _then_disassemble() -> str:
    """What is added to a command line: the cubin's instructions in SASS_TEXT."""
    tool = find_disassembler()
    return f" && {tool.command(_CUBIN)}" if tool is not None else ""


def _disassembler() -> list[Path]:
    """What the jail must show for it."""
    tool = find_disassembler()
    return [tool.program.parent, tool.folder] if tool is not None else []


def _resources(log: str, folder: Path) -> tuple[KernelResources, ...]:
    path = folder / SASS_TEXT
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    return with_arithmetic(parse_ptxas(log), parse_sass(text))


def _none(reason: str) -> RealCompile:
    return RealCompile(ok=None, engine=reason)


def _command(nvcc: Path, arch: str, sources: SourceSet, headers: Path) -> list[str]:
    flags = [f for f in split_flags(sources.extra_cuda_cflags) if f.startswith(_KEPT_FLAGS)]
    return [
        *(str(nvcc), "-cubin", f"-arch={arch}", "-Xptxas", "-v", "-std=c++20"),
        *(f"-I{headers / 'include_torch'}", *_STOCK_FLAGS, *flags, _UNIT, "-o", _CUBIN),
    ]


def _compile(
    command: Sequence[str],
    engine: str,
    sources: SourceSet,
    parts: Sequence[Piece],
    runner: Runner,
    folder: Path,
    headers: Path,
    nvcc: Path,
) -> RealCompile | None:
    finished = runner(
        ["sh", "-c", shlex.join(command) + " 2>&1" + _then_disassemble()],
        timeout_s=_TIMEOUT_S,
        memory_mb=_MEMORY_MB,
        writable=folder,
        read_only=[headers, nvcc.resolve().parent.parent, *_disassembler()],
        env={"LC_ALL": "C", "TMPDIR": str(folder)},
    )
    if finished.timed_out or finished.memory_exceeded:
        return None
    output = finished.stdout
    if finished.returncode == 0:
        return RealCompile(ok=True, resources=_resources(output, folder), engine=engine)
    found = parse(output, "nvcc", texts(sources, parts))
    placed = [_placed(d, parts) for d in found]
    believed = tuple(d for d in placed if _is_device_error(d, parts))
    if believed:
        return RealCompile(ok=False, diagnostics=believed, engine=engine)
    first = found[0] if found else None
    place = f" at {first.source} line {first.line}" if first and first.line else ""
    reason = first.message if first else output.strip().rpartition("\n")[2]
    return _none(f"{engine}: no statement, it stopped in host code{place}: {reason}")


def _placed(diagnostic: Diagnostic, parts: Sequence[Piece]) -> Diagnostic:
    """ptxas names a kernel, not a line: give its definition's."""
    match = _TOO_MUCH.search(diagnostic.message)
    if match is None:
        return diagnostic
    full = demangle([match["name"]])[0]
    name = full.split("<", 1)[0].rpartition("::")[2]
    for part in parts:
        for function in part.source.outline.functions:
            if function.kernel and function.name == name:
                line = part.source.tokens[function.parameters[0]].line
                update = {
                    "message": f"kernel {full} {match['what']}",
                    "source": part.label,
                    "line": line,
                    "text": part.text.splitlines()[line - 1].strip(),
                }
                return diagnostic.model_copy(update=update)
    return diagnostic.model_copy(update={"message": f"kernel {full} {match['what']}"})


def _is_device_error(diagnostic: Diagnostic, parts: Sequence[Piece]) -> bool:
    """Whether the error is about device code, which the thin headers cannot have caused."""
    if diagnostic.tool == "ptxas":
        return True
    if not diagnostic.line or _TORCH_WORD.search(diagnostic.message):
        return False
    for part in parts:
        if part.label != diagnostic.source:
            continue
        for function in part.source.outline.functions:
            if not function.device or function.body is None:
                continue
            first = part.source.tokens[function.start].line
            last = part.source.tokens[function.body[1]].line
            if first <= diagnostic.line <= last:
                return True
    return False
