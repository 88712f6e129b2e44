"""What a kernel assumes of its card and a Moore Threads card does not give, before compiling.

Works on CUDA and on MUSA spelling alike. A finding is a remark with a line; `error` where the code
cannot compile or run on the architecture, `warning` where a person, or the model, has to look.
"""

import re
from collections.abc import Iterator, Sequence

from musaagent.tools.host.launches import find_launches
from musaagent.tools.host.lexer import Kind, directives, previous
from musaagent.tools.host.reading import Source, asm_is_empty, find_asm, read
from musaagent.tools.musa.cards import Card, card_of
from musaagent.tools.port.memory_sizes import memory_remarks
from musaagent.tools.port.remarks import Remark
from musaagent.tools.port.warp import warp_remarks

_COOPERATIVE = "cooperative launch: mp_31 reports it, older MUSA drivers refuse it"
_OLD_DRIVERS = "unsupported in the public compatibility table of older MUSA drivers"
_NO_COUNTERPART = "no counterpart in the public MUSA headers and tables was found"
_HOPPER = "a construct of NVIDIA's Hopper generation, without counterpart"
# Words without their prefix (cuda, musa, cu, mu), and what is wrong with them.
_CALLS = {
    "LaunchCooperativeKernel": ("cooperative_launch", _COOPERATIVE),
    "LaunchCooperativeKernelMultiDevice": ("cooperative_launch", _OLD_DRIVERS),
    "MemAdvise": ("unsupported", _OLD_DRIVERS),
    "MemPrefetchAsync": ("unsupported", _OLD_DRIVERS),
    "MemRangeGetAttribute": ("unsupported", _OLD_DRIVERS),
    "IpcGetMemHandle": ("unsupported", _OLD_DRIVERS),
    "IpcOpenMemHandle": ("unsupported", _OLD_DRIVERS),
    "HostRegister": ("unsupported", _OLD_DRIVERS),
    "DeviceSetLimit": ("unsupported", _OLD_DRIVERS),
    "DeviceEnablePeerAccess": ("unsupported", _OLD_DRIVERS),
    "ProfilerStart": ("unsupported", _OLD_DRIVERS),
    "ProfilerStop": ("unsupported", _OLD_DRIVERS),
    "ModuleLoadDataEx": ("unsupported", "PTX cannot be loaded: mcc makes code of its own"),
    "LinkAddData": ("unsupported", "PTX cannot be linked: mcc makes code of its own"),
    "GridDependencySynchronize": ("unsupported", _HOPPER),
    "TriggerProgrammaticLaunchCompletion": ("unsupported", _HOPPER),
}
_PREFIXES = ("cuda", "musa", "cu", "mu")
_WORDS = {
    "this_grid": ("cooperative_launch", _COOPERATIVE),
    "grid_group": ("cooperative_launch", _COOPERATIVE),
    "this_multi_grid": ("cooperative_launch", _OLD_DRIVERS),
    "this_cluster": ("unsupported", _HOPPER),
    "cluster_group": ("unsupported", _HOPPER),
    "__cluster_dims__": ("unsupported", _HOPPER),
    "__grid_constant__": ("unsupported", _HOPPER),
    "CUtensorMap": ("unsupported", _HOPPER),
    "MUtensorMap": ("unsupported", _HOPPER),
    "cp_async_bulk": ("unsupported", _HOPPER),
    "memcpy_async": ("unsupported", _NO_COUNTERPART),
    "__nanosleep": ("unsupported", _NO_COUNTERPART),
    "__isGridConstant": ("unsupported", "mcc 5.2 does not declare it"),
    "__cvta_generic_to_shared": ("unsupported", "an address for PTX, which is not assembled"),
    "__cvta_grid_constant_to_generic": ("unsupported", "mcc 5.2 does not declare it"),
    "wmma": ("matrix_units", "wmma is in mtmusa::wmma, with fragment shapes of its own"),
}
_PATTERNS = (
    (re.compile(r"__reduce_(add|min|max|and|or|xor)_sync$"), "unsupported", _NO_COUNTERPART),
    (re.compile(r"__match_(any|all)_sync$"), "unsupported", _NO_COUNTERPART),
    (re.compile(r"__pipeline_\w+$"), "unsupported", _NO_COUNTERPART),
    (re.compile(r"__n?v?shfl_(up|down|xor)?$|__(any|all|ballot)$"), "unsupported",
     "the forms without _sync are deprecated in MUSA"),
)  # fmt: skip
_BF16 = re.compile(r"__(nv|mt)_bfloat16|(nv|mt)_bfloat16|kBFloat16$|BFloat16$|__\w+2?bfloat16")
_FP8 = re.compile(r"__(nv|mt)_fp8|Float8_e|kFloat8")
_GUARD = frozenset({"__MUSA_ARCH__", "__CUDA_ARCH__"})


def find_remarks(text: str, arch: str, *, source: str = "") -> tuple[Remark, ...]:
    """All remarks on one C++ or CUDA text for one architecture, in order of lines."""
    return remarks_of(read(text), text, card_of(arch), source=source)


def remarks_of(found: Source, text: str, card: Card, *, source: str = "") -> tuple[Remark, ...]:
    every = [
        *_inline_ptx(found),
        *_words(found),
        *_types(found, card),
        *_device_launches(found),
        *warp_remarks(found, card),
        *memory_remarks(found, card),
    ]
    lines = text.splitlines()
    functions = [
        (f.name, found.tokens[f.start].line, found.tokens[f.body[1]].line)
        for f in found.outline.functions
        if f.body is not None
    ]
    placed: dict[tuple[str, int, str], Remark] = {}
    for remark in every:
        line = lines[remark.line - 1].strip() if 0 < remark.line <= len(lines) else ""
        around = next((n for n, low, high in functions if low <= remark.line <= high), "")
        told = remark.model_copy(update={"source": source, "text": line, "function": around})
        placed.setdefault((told.kind, told.line, told.message), told)
    return tuple(sorted(placed.values(), key=lambda r: (r.line, r.kind)))


def _inline_ptx(source: Source) -> Iterator[Remark]:
    for index in range(len(source.tokens)):
        if find_asm(source, index) is not None and not asm_is_empty(source.tokens, index):
            yield Remark(
                kind="inline_ptx",
                severity="error",
                line=source.tokens[index].line,
                message="inline PTX is NVIDIA's assembly: write it in C++",
            )


def _words(source: Source) -> Iterator[Remark]:
    for index, token in enumerate(source.tokens):
        if token.kind is not Kind.WORD or source.skipped(index):
            continue
        found = _WORDS.get(token.text) or _call(token.text) or _pattern(token.text)
        if found is None or _is_declared(source, index):
            continue
        kind, message = found
        yield Remark(kind=kind, line=token.line, message=f"{token.text}: {message}")


def _call(word: str) -> tuple[str, str] | None:
    for prefix in _PREFIXES:
        if word.startswith(prefix) and (found := _CALLS.get(word[len(prefix) :])):
            return found
    return None


def _pattern(word: str) -> tuple[str, str] | None:
    return next(((kind, text) for p, kind, text in _PATTERNS if p.match(word)), None)


def _is_declared(source: Source, index: int) -> bool:
    """A function of the program's own with that name, or `namespace x = ...wmma`."""
    word = source.tokens[index].text
    before = previous(source.tokens, index)
    if before >= 0 and source.tokens[before].text in (".", "->"):
        return True
    return any(f.name == word for f in source.outline.functions)


def _types(source: Source, card: Card) -> Iterator[Remark]:
    guarded = _guarded(source)
    for index, token in enumerate(source.tokens):
        if token.kind is not Kind.WORD or index in guarded or source.skipped(index):
            continue
        if not card.bf16 and _BF16.match(token.text) and _in_code(source, index):
            yield Remark(
                kind="bf16",
                severity="error",
                line=token.line,
                message=f"{card.arch} has no bfloat16: compute in float or half",
            )
        elif not card.fp8 and _FP8.match(token.text):
            yield Remark(
                kind="fp8",
                severity="error",
                line=token.line,
                message=f"{card.arch} has no fp8 (mp_31 has)",
            )


def _in_code(source: Source, index: int) -> bool:
    """A dtype that is only asked for (`== at::kBFloat16`) is no use of it on the card."""
    text = source.tokens[index].text
    if not text.startswith("k") and text != "BFloat16":
        return True
    function = source.outline.function_at(index)
    return function is not None and function.device


def _guarded(source: Source) -> set[int]:
    """Tokens inside `#if ... __MUSA_ARCH__ ...`: written for more than one generation."""
    found: set[int] = set()
    stack: list[tuple[int, bool]] = []
    for directive in directives(source.tokens):
        if directive.name in ("if", "ifdef", "ifndef"):
            words = {t.text for t in source.tokens[directive.start : directive.end]}
            stack.append((directive.end, bool(words & _GUARD)))
        elif directive.name == "endif" and stack:
            start, guard = stack.pop()
            if guard:
                found.update(range(start, directive.start))
    return found


def _device_launches(source: Source) -> Iterator[Remark]:
    for launch in find_launches(source.tokens):
        function = source.outline.function_at(launch.open)
        if function is not None and function.kernel and not source.skipped(launch.open):
            yield Remark(
                kind="unsupported",
                line=source.tokens[launch.open].line,
                message=f"dynamic parallelism: {_NO_COUNTERPART}",
            )


def summary(remarks: Sequence[Remark]) -> dict[str, int]:
    """How many of each kind."""
    counts: dict[str, int] = {}
    for remark in remarks:
        counts[remark.kind] = counts.get(remark.kind, 0) + 1
    return counts
