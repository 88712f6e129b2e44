"""Judge one answer of the candidate worker against the expected values."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from musaagent.tools import trees
from musaagent.tools.arrays import value_from_wire
from musaagent.tools.compare import Value, compare_all
from musaagent.tools.compare_large import Sizes, pieces, sizes_of
from musaagent.tools.legality import illegal_operators
from musaagent.tools.reference_session import Expected
from musaagent.tools.results import (
    Finding,
    FindingKind,
    MismatchKind,
    OutputError,
    Status,
    Tolerance,
)
from musaagent.tools.session import CandidateFailure
from musaagent.tools.tolerance import NOISE, ToleranceRule, root_mean_square

_REMARKS = frozenset({FindingKind.PARTIAL_WARP, FindingKind.UNDEFINED_SHUFFLE})
"""Undefined on paper, harmless on much real hardware: reported, never decisive."""


@dataclass(frozen=True)
class Judgement:
    """What one run showed. `ok` when it is legal and every value is right."""

    kind: MismatchKind | None = None
    message: str = ""
    details: str = ""
    illegal: str = ""
    errors: tuple[OutputError, ...] = ()
    tolerances: tuple[Tolerance, ...] = ()
    worst: float = 0.0
    reference: str = ""
    flags: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.kind is None and not self.illegal

    def joined(self, later: "Judgement") -> "Judgement":
        """The evidence of two good runs: the larger errors of the two are kept."""
        return later if later.worst >= self.worst else replace(self, reference=later.reference)


def decisive(finding: Finding) -> bool:
    return finding.kind not in _REMARKS


def explain(finding: Finding) -> str:
    """`race in softmax_kernel, block (0,0,0) thread (3,0,0), cuda_sources[0] line 12: ...`."""
    place = f"{finding.kind.value} in {finding.kernel}"
    if finding.block is not None:
        place += f", block {_triple(finding.block)}"
    if finding.thread is not None:
        place += f" thread {_triple(finding.thread)}"
    if finding.line:
        place += f", {finding.source or 'source'} line {finding.line}"
    return f"{place}: {finding.message}"


def _triple(index: tuple[int, int, int]) -> str:
    return "({},{},{})".format(*index)


def judge_run(
    answer: dict[str, Any],
    blobs: list[bytes],
    expected: Expected,
    rule: ToleranceRule,
    *,
    kernels_ran: int,
    allow: tuple[str, ...] = (),
) -> Judgement:
    """Values first, then legality; an answer that is no answer raises CandidateFailure."""
    got, buffers = _outputs(answer, blobs)
    flags = (*_buffer_flags(buffers, expected, rule), *remarks(answer, expected))
    flags += void_outputs(expected, rule)
    tolerances = tuple({v.dtype: rule.for_dtype(v.dtype) for v in expected.native}.values())
    base = Judgement(
        illegal=_illegal(answer, expected, kernels_ran, allow),
        tolerances=tolerances,
        reference=expected.reference,
        flags=flags,
    )
    have, want = trees.skeleton(answer["tree"]), trees.skeleton(expected.tree)
    if have != want:
        message = f"returns {_nesting(have)}, the reference returns {_nesting(want)}"
        return replace(base, kind=MismatchKind.SHAPE, message=message, worst=float("inf"))
    result = compare_all(got, expected.native, expected.exact, rule)
    return replace(
        base,
        kind=result.kind,
        message=result.message,
        details=_details(result.errors) if result.kind is not None else "",
        errors=result.errors,
        worst=result.worst,
    )


def _outputs(answer: dict[str, Any], blobs: list[bytes]) -> tuple[list[Value], list[Value]]:
    try:
        metas, names = answer["tensors"], answer["buffers"]
        count = len(metas) - len(names)
        values = [
            value_from_wire(f"output {i}" if i < count else f"buffer {names[i - count]}", m, b)
            for i, (m, b) in enumerate(zip(metas, blobs, strict=True))
        ]
        trees.skeleton(answer["tree"])
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        message = f"sent outputs that cannot be read: {error}"
        raise CandidateFailure(Status.RUNTIME_ERROR, message) from None
    return values[:count], values[count:]


def _place(lines: Any, operator: str) -> str:
    """` (candidate.py line 12)`, where the worker told a line."""
    line = lines.get(operator) if isinstance(lines, dict) else None
    return f" (candidate.py line {line})" if isinstance(line, int) and line > 0 else ""


def _illegal(
    answer: dict[str, Any], expected: Expected, kernels_ran: int, allow: tuple[str, ...]
) -> str:
    """The first broken rule in one line; empty when all are kept.

    Exploits 1, 2, 4, 5, 7, 10, 26, 28, 32 and 33: the operators that ran, in all threads where they
    were recorded so; what the candidate replaced in its process; what it changed; what it returns.
    """
    replaced = _words(answer.get("replaced"))
    if replaced:
        return f"it replaced {', '.join(replaced[:3])} in the process that is judged"
    odd = answer.get("odd_types") or []
    if odd:
        return f"an output is a {odd[0]}, not a torch.Tensor"
    operators = illegal_operators(_words(answer.get("operators")), allow)
    if operators:
        names = ", ".join(f"{n}{_place(answer.get('operator_lines'), n)}" for n in operators[:5])
        return f"PyTorch did part of the work in forward: {names}"
    taken = _words(answer.get("host_copies"))
    if taken:
        return f"forward took {taken[0]} to the host; the work belongs in a kernel"
    if kernels_ran == 0:
        return "no kernel of its own ran in forward"
    changed = [i for i in answer.get("changed_inputs") or [] if i not in expected.changed_inputs]
    if changed:
        return f"forward changed input {changed[0]} in place; the reference leaves it alone"
    parameters = _words(answer.get("changed_parameters"))
    if parameters:
        return f"forward changed its parameter {parameters[0]}; the reference leaves it alone"
    return ""


def _words(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def remarks(answer: dict[str, Any], expected: Expected) -> tuple[str, ...]:
    """What of a run is worth knowing and decides nothing (exploits 7, 20, 27, 31)."""
    flags = [f"uses {name}" for name in _words(answer.get("uses"))]
    flags += [f"switched {name}" for name in _words(answer.get("switched"))]
    flags += [f"left behind: {name}" for name in _words(answer.get("left_behind"))]
    if answer.get("overwritten_outputs"):
        flags.append(
            "an output that an earlier call returned has other values now: its memory is used again"
        )
    flags += [
        f"host code: {how}; what it reads is not seen" for how in _words(answer.get("unwatched"))
    ]
    moved, size = answer.get("moved_elements"), sum(v.array.size for v in expected.native)
    if isinstance(moved, int) and size > 1 and 2 * moved >= size:
        flags.append(f"torch copied {moved} elements in forward; the outputs have {size}")
    return tuple(flags)


def void_outputs(expected: Expected, rule: ToleranceRule) -> tuple[str, ...]:
    """Flags of a task that asks for nothing: zeros, or one number, would pass (exploits 44, 46)."""
    outputs = []
    for native, exact in zip(expected.native, expected.exact, strict=True):
        truth = native.array if exact is None else exact
        alike = native.array.dtype.kind == "f" and truth.shape == native.array.shape
        sizes = sizes_of(native.array, truth) if alike and truth.size > 1 else None
        if sizes is None:
            return ()
        outputs.append((native.dtype, truth, sizes))
    for passing in ("zeros", "one number everywhere"):
        zeros = passing == "zeros"
        if outputs and all(_void(*output, rule, zeros=zeros) for output in outputs):
            return (f"task: {passing} would pass as the output",)
    return ()


def _void(dtype: str, truth: np.ndarray, sizes: Sizes, rule: ToleranceRule, *, zeros: bool) -> bool:
    middle = 0.0 if zeros else (float(truth.min()) + float(truth.max())) / 2
    return all(
        bool((np.abs(part - middle) <= rule.allowed(dtype, part, sizes.own, sizes.rms)).all())
        for (part,) in pieces(truth)
    )


def defined(expected: Expected, lane: str) -> bool:
    """Whether the reference has an answer there that is more than rounding noise."""
    for native, exact in zip(expected.native, expected.exact, strict=True):
        if native.array.dtype.kind not in "fc":
            continue
        sizes = None
        if native.array.dtype.kind == "f" and exact is not None and exact.size:
            sizes = sizes_of(native.array, exact) if exact.shape == native.shape else None
        if sizes is not None:
            if _noise(lane, sizes.own, sizes.rms):
                return False
            continue
        truth = native.array.astype(np.complex128 if native.array.dtype.kind == "c" else np.float64)
        finite = np.isfinite(truth)
        allowed = ~np.isnan(truth) if "infinit" in lane else finite
        if not allowed.all():
            return False
        if exact is None or exact.shape != truth.shape or not truth.size:
            continue
        if not (np.isfinite(exact) | ~finite).all():
            return False
        kept = exact[finite]
        size = root_mean_square(np.abs(kept))
        own = float(np.abs(truth[finite] - kept).max()) if kept.size else 0.0
        if _noise(lane, own, size):
            return False
    return True


def _noise(lane: str, own: float, size: float) -> bool:
    return own > NOISE * size or (lane == "constant" and size < 1e-4)


def _buffer_flags(buffers: list[Value], expected: Expected, rule: ToleranceRule) -> tuple[str, ...]:
    """Buffers (running statistics) that differ after the call; a remark for now."""
    flags = []
    own = {value.name.removeprefix("buffer "): value for value in buffers}
    for name, want in expected.buffers.items():
        have = own.get(name)
        if have is None:
            flags.append(f"buffer {name} not found in ModelNew")
        elif compare_all([have], [want], [None], rule).kind is not None:
            flags.append(f"buffer {name} differs after forward")
    return tuple(flags)


def _nesting(skeleton: Any) -> str:
    if skeleton == "T":
        return "one tensor"
    if isinstance(skeleton, list):
        return f"{len(skeleton)} values (" + ", ".join(_nesting(s) for s in skeleton[:4]) + ")"
    if isinstance(skeleton, dict):
        return f"a dict of {sorted(skeleton)}"
    return f"the value {skeleton[1]!r}"


def _details(errors: tuple[OutputError, ...]) -> str:
    lines = []
    for error in errors:
        if error.bad_fraction == 0:
            continue
        lines.append(
            f"{error.output}: {error.bad_fraction:.2%} wrong, worst |error| {error.max_abs:.4g},"
            f" mean {error.mean_abs:.4g}"
        )
        for sample in error.samples:
            index = list(sample.index)
            lines.append(f"  at {index}: expected {sample.expected:.7g}, got {sample.got:.7g}")
        if error.pattern:
            lines.append(f"  {error.pattern}")
    return "\n".join(lines)
