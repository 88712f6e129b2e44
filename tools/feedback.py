"""What the policy is told after a turn: the one thing to mend first, then its evidence.

Pure functions from results to text; the same text goes to a model and into the trajectory.
"""

import math
import re
from collections.abc import Iterable

from musaagent.tools.cuda_errors import cuda_error_meaning
from musaagent.tools.extract import ExtractionFault
from musaagent.tools.hints import mismatch_hint
from musaagent.tools.opgraph import Trap
from musaagent.tools.port.checked_build import warnings_of
from musaagent.tools.results import (
    Build,
    Diagnostic,
    Finding,
    FindingKind,
    Launch,
    MismatchKind,
    OutputError,
    Profile,
    Status,
    Verdict,
)

_MORE_ERRORS = 4
# Of a crash dump: frames of torch and of the worker, and the list of loaded libraries.
_OWN_FRAME = re.compile(
    r'\s*(File "(<string>|[^"]*/(site-packages|tools)/[^"]*)", line|Extension modules:)'
)
_DETAIL_LINES = 30
_SAMPLES = 6
_LAUNCHES = 4
_HEAD_LINES = 12
# Which measured values tell most, by what the kernel is bound by.
_COUNTERS: dict[str, tuple[str, ...]] = {
    "memory": ("traffic_ratio", "global_bytes", "launches"),
    "compute": ("occupancy", "registers", "traffic_ratio"),
    "latency": ("occupancy", "threads_per_block", "registers"),
    "launch": ("launches", "global_bytes", "threads_per_block"),
    "tail": ("occupancy", "threads_per_block", "launches"),
    "unknown": ("traffic_ratio", "occupancy", "launches"),
}

_FINDING_RULES = {
    FindingKind.OUT_OF_BOUNDS: "Guard the index, or size the buffer for it.",
    FindingKind.MISALIGNED: "A vector access needs an address that is a multiple of its size: "
    "use narrower accesses where that cannot be had.",
    FindingKind.RACE: "Put a barrier between the two accesses, or give each thread its own place.",
    FindingKind.UNINITIALISED_READ: "Write the shared element, on every path, before it is read.",
    FindingKind.DIVERGENT_BARRIER: "Every thread of the block must reach the same barrier: "
    "take it out of the branch, and do not return before it.",
    FindingKind.DEADLOCK: "Every thread that is waited for must get there.",
    FindingKind.INVALID_LAUNCH: "Choose grid, block and shared memory within the device's limits.",
    FindingKind.UNDEFINED_SHUFFLE: "Shuffle only from lanes that are active and named in the mask.",
    FindingKind.TRAP: "The kernel stopped itself; find the condition that fails.",
}
_MISMATCH_RULES = {
    MismatchKind.SHAPE: "Return exactly the reference's shape.",
    MismatchKind.DTYPE: "Return exactly the reference's dtype.",
    MismatchKind.NONFINITE: "Look for a division by zero, an overflow, a wrong reduction identity "
    "or memory that was never written.",
    MismatchKind.NUMERIC: "Look at the index mapping and the boundary first, then at the "
    "reduction's identity and the accumulator's type.",
}
_STATUS_RULES = {
    Status.RUNTIME_ERROR: "Mend this before anything else.",
    Status.ILLEGAL: "Do the work in your own kernels, and change nothing that is not yours.",
    Status.TIMEOUT: "Look for a loop that never ends or a barrier that not every thread reaches.",
    Status.OOM: "Allocate no more than the outputs and small scratch buffers.",
}
_FAULT_RULES = {
    ExtractionFault.EMPTY: "The answer held nothing after the thinking. End the thinking, then "
    "send the program.",
    ExtractionFault.UNFINISHED_THINKING: "Think more briefly, close the thinking, then send the "
    "program.",
    ExtractionFault.NO_CODE: "Prose is not read. Put the whole program into one ```python block.",
    ExtractionFault.NO_MODEL_NEW: "The class must be called ModelNew and stand at module level, in "
    "the same block as its sources.",
    ExtractionFault.SYNTAX: "The block is no valid Python: look at the line, and at quotes and "
    "triple quotes around the kernel's source.",
    ExtractionFault.CUT_OFF: "The answer was longer than it may be and was cut; nothing of it was "
    "used. Think more briefly and write less code: no comments, no alternatives, one program.",
    ExtractionFault.TOOL_CALL: "There are no tools here. Write the program as text.",
    ExtractionFault.TOO_LONG: "Write one general kernel instead of many copies of it.",
}
_TRAPS_FOR_VALUES = {"train_mode_batchnorm", "int32_overflow", "tf32_reference", "random_forward"}


def repair_feedback(verdict: Verdict, traps: Iterable[Trap] = ()) -> str:
    """The first thing to mend in a candidate that did not pass."""
    match verdict.status:
        case Status.PASSED:
            raise ValueError("a passed candidate needs no repair")
        case Status.COMPILE_ERROR:
            lines = _compile_lines(verdict)
        case Status.EXTRACTION_ERROR:
            lines = _extraction_lines(verdict)
        case Status.MISMATCH:
            known = tuple(traps)
            lines = _mismatch_lines(verdict, known)
            lines += [f"Mind: {t.message}" for t in known if t.name in _TRAPS_FOR_VALUES]
        case _:
            lines = _failure_lines(verdict)
    return "\n".join([*lines, *_portability_lines(verdict)])


def _portability_lines(verdict: Verdict) -> list[str]:
    """What the card does not give, found by reading: a likely cause, or the next thing to mend."""
    ran = [launch.kernel for launch in verdict.launches]
    found = sorted(
        warnings_of(verdict.build),
        # What is in a kernel that ran is the likelier cause.
        key=lambda d: not any(n.removeprefix("in ") in kernel for n in d.notes for kernel in ran),
    )
    if not found:
        return []
    lines = ["Not portable to this card, found by reading the source:"]
    lines += [f"    {d.source}:{d.line}: {d.message}" for d in found[:_MORE_ERRORS]]
    if len(found) > _MORE_ERRORS:
        lines.append(f"    and {len(found) - _MORE_ERRORS} more of the kind")
    return lines


def optimise_feedback(profile: Profile) -> str:
    """The bottleneck of a candidate that passed: its class, three counters, one suggestion."""
    lines = ["The candidate is correct. Keep its outputs; change only how fast they come."]
    lines.append(profile.suggestion or "No bottleneck was found.")
    if profile.bound != "unknown":
        lines.append(f"Bound by: {profile.bound} ({profile.engine}).")
    told = [name for name in _COUNTERS[profile.bound] if name in profile.counters]
    told += [name for name in profile.counters if name not in told]
    for name in told[:3]:
        lines.append(f"{name.replace('_', ' ')}: {profile.counters[name]:.6g}")
    for launch in profile.launches[:_LAUNCHES]:
        lines.append(
            f"{launch.kernel}<<<{launch.grid}, {launch.block}, {launch.shared_bytes} B>>> "
            f"x{launch.count}: reads {launch.global_read_bytes} B, "
            f"writes {launch.global_write_bytes} B of global memory"
        )
    for resource in profile.resources[:_LAUNCHES]:
        spills = resource.spill_store_bytes + resource.spill_load_bytes
        lines.append(
            f"{resource.kernel} ({resource.arch}): {resource.registers} registers, "
            f"{spills} B of spills, {resource.static_shared_bytes} B of static shared memory"
        )
    return "\n".join(lines)


def diagnostic_lines(diagnostic: Diagnostic) -> list[str]:
    """One compiler message with its place, source line and notes."""
    place = diagnostic.source or diagnostic.tool
    if diagnostic.line:
        place += f":{diagnostic.line}"
        if diagnostic.column:
            place += f":{diagnostic.column}"
    lines = [f"{place}: {diagnostic.severity}: {diagnostic.message}"]
    if diagnostic.text:
        lines.append(f"    {diagnostic.text.strip()}")
    return lines + [f"    note: {note}" for note in diagnostic.notes]


def first_errors(build: Build) -> list[Diagnostic]:
    """The errors, an unsupported construct first: nothing else can be mended before it."""
    errors = [d for d in build.diagnostics if d.severity == "error"]
    return sorted(errors, key=lambda d: d.construct is None)


def finding_line(finding: Finding) -> str:
    """A fault of a checked run with kernel, block, thread and source line."""
    place = f" in {finding.kernel}" if finding.kernel else ""
    if finding.block is not None:
        place += f", block {finding.block}"
    if finding.thread is not None:
        place += f", thread {finding.thread}"
    if finding.line:
        place += f", {finding.source or 'source'}:{finding.line}"
    return f"{finding.kind}{place}: {finding.message}"


def sample_lines(error: OutputError) -> list[str]:
    """How one output differs, with elements to look at."""
    lines = [f"{error.output}: {error.bad_fraction:.2%} of the elements are wrong"]
    if math.isfinite(error.max_abs):
        lines[0] += (
            f", largest error {error.max_abs:.6g} (allowed {error.tolerance_abs:.3g}), "
            f"typical {error.mean_abs:.3g}"
        )
    if error.pattern:
        lines.append(f"    where: {error.pattern}")
    for sample in error.samples[:_SAMPLES]:
        index = ", ".join(map(str, sample.index))
        lines.append(f"    [{index}]: expected {sample.expected:.9g}, got {sample.got:.9g}")
    return lines


def _extraction_lines(verdict: Verdict) -> list[str]:
    lines = [f"Your answer holds no program that can be used: {verdict.message}"]
    if verdict.fault in _FAULT_RULES:
        lines.append(_FAULT_RULES[ExtractionFault(verdict.fault)])
    lines.append("Answer with one complete Python code block that defines ModelNew.")
    return lines + _details(verdict)


def _compile_lines(verdict: Verdict) -> list[str]:
    assert verdict.build is not None, "Verdict ties compile_error to its build"
    errors = first_errors(verdict.build)
    if not errors:
        return [f"It does not compile: {verdict.message}", *_ends(verdict.build.log_tail)]
    first = errors[0]
    head = "It does not compile. Mend this error first:"
    if first.construct:
        head = f"The {verdict.target} target cannot run {first.construct}; write it without:"
    lines = [head, *diagnostic_lines(first)]
    if len(errors) > 1:
        lines.append(f"Errors after it (they may be its consequences): {len(errors) - 1}")
    for other in errors[1 : 1 + _MORE_ERRORS]:
        lines += diagnostic_lines(other)[:2]
    return lines


def _mismatch_lines(verdict: Verdict, traps: tuple[Trap, ...]) -> list[str]:
    assert verdict.kind is not None, "Verdict ties mismatch to its kind"
    lines = [f"The {verdict.kind} is wrong: {verdict.message}", _MISMATCH_RULES[verdict.kind]]
    if hint := mismatch_hint(verdict, traps):
        lines.append(f"Likely cause: {hint}")
    for error in sorted(verdict.errors, key=lambda e: -e.bad_fraction)[:3]:
        lines += sample_lines(error)
    passed = sum(trial.passed for trial in verdict.trials)
    if verdict.trials:
        lines.append(f"Trials passed: {passed} of {len(verdict.trials)}.")
    if verdict.shapes:
        lines.append(f"Inputs: {', '.join(verdict.shapes)}.")
    if verdict.findings:
        lines.append(f"A checked run also saw: {finding_line(verdict.findings[0])}")
    # The details of values tell once more what the samples show.
    return lines if verdict.errors else lines + _details(verdict)


def _failure_lines(verdict: Verdict) -> list[str]:
    lines = [f"It failed with {verdict.status}: {verdict.message}"]
    deciding = [f for f in verdict.findings if f.kind is not FindingKind.PARTIAL_WARP]
    if verdict.status is Status.RUNTIME_ERROR and deciding:
        first, *others = deciding
        lines = [f"A checked run found a fault. {finding_line(first)}", _FINDING_RULES[first.kind]]
        lines += [f"Also: {finding_line(other)}" for other in others[:_MORE_ERRORS]]
    elif rule := _STATUS_RULES.get(verdict.status):
        lines.append(rule)
    if verdict.status is Status.RUNTIME_ERROR:
        if meaning := cuda_error_meaning(f"{verdict.message}\n{verdict.details}"):
            lines.append(meaning)
        lines += [_launch_line(launch) for launch in verdict.launches[-_LAUNCHES:]]
    return lines + _details(verdict)


def _launch_line(launch: Launch) -> str:
    return (
        f"Launched: {launch.kernel}<<<{launch.grid}, {launch.block}, {launch.shared_bytes} B>>> "
        f"x{launch.count}"
    )


def _details(verdict: Verdict) -> list[str]:
    """Without what the message has said already, and without the worker's own frames."""
    said = [
        line
        for line in verdict.details.split("\n")
        if line.strip() != verdict.message.strip() and not _OWN_FRAME.match(line)
    ]
    return _tail("\n".join(said))


def _ends(text: str) -> list[str]:
    """Head and tail of a log: the first error is at its head, the end of the tools at its tail."""
    lines = text.rstrip().split("\n") if text.strip() else []
    if len(lines) <= _HEAD_LINES + _DETAIL_LINES:
        return lines
    gone = len(lines) - _HEAD_LINES - _DETAIL_LINES
    return [*lines[:_HEAD_LINES], f"[{gone} lines left out]", *lines[-_DETAIL_LINES:]]


def _tail(text: str) -> list[str]:
    """The last lines: a traceback says what failed at its end."""
    lines = text.rstrip().split("\n") if text.strip() else []
    return lines[-_DETAIL_LINES:]
