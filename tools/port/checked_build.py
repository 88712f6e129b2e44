"""A build for a Moore Threads card, with what portability finds before any compiler runs."""

from collections.abc import Callable

from musaagent.tools.host.sources import SourceSet, is_musa, pieces
from musaagent.tools.musa.cards import card_of
from musaagent.tools.port.portability import remarks_of
from musaagent.tools.port.remarks import TOOL, Remark
from musaagent.tools.results import Build, Diagnostic

_MOST = 20


def with_portability(sources: SourceSet, arch: str, build: Callable[[SourceSet], Build]) -> Build:
    """`build(sources)` with its remarks as warnings; an `error` among them is a failed build.

    Without an architecture nothing is looked for.
    """
    if not arch:
        return build(sources)
    remarks = portability_of(sources, arch)
    refused = [r for r in remarks if r.severity == "error"]
    if refused:
        # The one to mend comes first, the rest is company.
        told = [r.diagnostic() for r in (*refused, *(r for r in remarks if r not in refused))]
        lines = [f"{d.source}:{d.line}: {d.severity}: {d.message}" for d in told]
        return Build(ok=False, diagnostics=tuple(told[:_MOST]), log_tail="\n".join(lines[:_MOST]))
    made = build(sources)
    warnings = tuple(r.diagnostic() for r in remarks[:_MOST])
    if not warnings:
        return made
    return made.model_copy(
        update={
            "diagnostics": (*made.diagnostics, *warnings),
            "flags": (*made.flags, _flag(remarks, arch)),
        }
    )


def portability_of(sources: SourceSet, arch: str) -> list[Remark]:
    """What every text of one load_inline call assumes and the card does not give."""
    card = card_of(arch)
    return [
        remark
        for part in pieces(sources)
        for remark in remarks_of(part.source, part.text, card, source=part.label)
    ]


def warnings_of(build: Build | None) -> tuple[Diagnostic, ...]:
    """The portability warnings of a build, whatever became of it."""
    if build is None:
        return ()
    return tuple(d for d in build.diagnostics if d.tool == TOOL and d.severity == "warning")


def for_card(sources: SourceSet, arch: str) -> SourceSet:
    """MUSA sources as mcc would see them on the card: `__MUSA_ARCH__` has its number."""
    if not arch or not is_musa(pieces(sources)):
        return sources
    defined = (f"-D__MUSA_ARCH__={card_of(arch).macro}", "-D__MUSACC__=1")
    return sources.model_copy(
        update={
            "extra_cflags": (*sources.extra_cflags, *defined),
            "extra_cuda_cflags": (*sources.extra_cuda_cflags, *defined),
        }
    )


def _flag(remarks: list[Remark], arch: str) -> str:
    first = remarks[0]
    more = f" (and {len(remarks) - 1} more)" if len(remarks) > 1 else ""
    return f"portability to {arch}: {first.source} line {first.line}: {first.message}{more}"
