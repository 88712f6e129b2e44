"""Reads what compute-sanitizer writes, in its forms from 2021 to 2026, as a run's findings.

The places are those of NVIDIA's guide (docs.nvidia.com/compute-sanitizer): `at FUNCTION+0x70 in
FILE:LINE`, `at FUNCTION:0x160 in FILE:LINE`, and until 2022 `at 0x170 in FILE:LINE:FUNCTION`.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from musaagent.tools.ptxas import base_name
from musaagent.tools.results import Finding, FindingKind

_TRIPLE = r"\((\d+),\s*(\d+),\s*(\d+)\)"
_PLACE = re.compile(
    r"(?P<function>.+?)(?:\+|:)0x[0-9a-fA-F]+(?: in (?P<file>.+):(?P<line>\d+))?"
    r"(?: \[\d+ hazards?\])?"
)
_OLD_PLACE = re.compile(
    r"0x[0-9a-fA-F]+ in (?:(?P<file>.+?):(?P<line>\d+):)?(?P<function>.+?)(?: \[\d+ hazards?\])?"
)
_THREAD = re.compile(rf"by thread {_TRIPLE} in block {_TRIPLE}")
_ACCESS = re.compile(
    r"Invalid __(?P<space>\w+?)__ (?P<access>read|write|atomic|\w+) of size (?P<size>\d+)"
)
_UNINITIALISED = re.compile(r"Uninitialized __(?P<space>\w+?)__ memory read of size (?P<size>\d+)")
_NEAREST = re.compile(
    r"and is (?P<where>(?:[\d,.]+ bytes? (?:before|after))|inside) the nearest allocation"
    r"(?: at 0x[0-9a-fA-F]+)? of size (?P<size>[\d,.]+) bytes?"
)
_RACE = re.compile(r"(?P<level>\w+): Race reported between (?P<access>Write|Read) access at (.+)")
_OTHER_ACCESS = re.compile(r"and (?P<access>Write|Read) access at (?P<place>.+)")
_HAZARD = re.compile(
    rf"(?P<level>\w+): .*Potential (?P<type>RAW|WAR|WAW) hazard detected at .* in block {_TRIPLE}"
)
_HAZARD_THREAD = re.compile(rf"(?P<access>Write|Read) Thread {_TRIPLE} at (?P<place>.+)")
_SUMMARY = re.compile(r"ERROR SUMMARY: (?P<errors>\d+) errors?$")
_RACE_SUMMARY = re.compile(r"RACECHECK SUMMARY: .*\((?P<errors>\d+) errors?, (?P<warnings>\d+)")
_ORDER = {"RAW": "reads what", "WAR": "overwrites what", "WAW": "overwrites what"}


@dataclass(frozen=True)
class Place:
    function: str
    file: str = ""
    line: int = 0


@dataclass
class Parsed:
    """One log. `errors` is None where the tool did not get to its summary."""

    findings: list[Finding] = field(default_factory=list)
    """Of the candidate's own kernels, the first first."""
    remarks: list[str] = field(default_factory=list)
    """Warnings, and what lies in kernels of others."""
    errors: int | None = None
    complaint: str = ""
    """The first line that says why the tool could not do its work."""


def parse_log(text: str, *, prefix: str, own: Collection[str], labels: Collection[str]) -> Parsed:
    """`own`: plain names of the candidate's kernels; `labels`: names of its source texts."""
    parsed = Parsed()
    lines = [line[len(prefix) :].strip() for line in text.splitlines() if line.startswith(prefix)]
    for index, line in enumerate(lines):
        _read_summary(parsed, line)
        if line.startswith("Error: ") and not _RACE.match(line) and not _HAZARD.match(line):
            parsed.complaint = parsed.complaint or line.removeprefix("Error: ")
        found = _record(lines, index, own, labels)
        if found is None:
            continue
        finding, is_own, is_error = found
        if is_own and is_error:
            if not any(_same(finding, other) for other in parsed.findings):
                parsed.findings.append(finding)
        else:
            what = "warning" if is_own else "in a kernel of another"
            parsed.remarks.append(f"{what}: {finding.kernel}: {finding.message}")
    return parsed


def _read_summary(parsed: Parsed, line: str) -> None:
    match = _RACE_SUMMARY.match(line) or _SUMMARY.match(line)
    if match is not None:
        parsed.errors = max(parsed.errors or 0, int(match["errors"]))


def _same(first: Finding, second: Finding) -> bool:
    return (first.kind, first.kernel, first.line, first.source) == (
        second.kind,
        second.kernel,
        second.line,
        second.source,
    )


def _record(
    lines: Sequence[str], index: int, own: Collection[str], labels: Collection[str]
) -> tuple[Finding, bool, bool] | None:
    """The finding that begins at this line, whether it is the candidate's, and no mere warning."""
    line = lines[index]
    rest = _block(lines, index + 1)
    if match := _RACE.match(line):
        first = _place(match[3])
        others = [o for text in rest if (o := _OTHER_ACCESS.match(text))]
        places = [first, *(_place(o["place"]) for o in others)]
        message = f"{match['access'].lower()} access" + _line_of(first, labels)
        for other in others[:2]:
            message += f" races with a {other['access'].lower()} access"
            message += _line_of(_place(other["place"]), labels)
        finding = _finding(FindingKind.RACE, message, places, own, labels)
        return finding, _is_own(places, own, labels), match["level"].lower() == "error"
    if match := _HAZARD.match(line):
        return _hazard(match, rest, own, labels)
    if line.startswith("at ") or not rest or not rest[0].startswith("at "):
        return None
    if not _is_place(rest[0].removeprefix("at ")):
        return None
    return _fault(line, rest, own, labels)


def _block(lines: Sequence[str], start: int) -> list[str]:
    """The lines that belong to a record: up to an empty one or the host's backtrace."""
    found = []
    for line in lines[start : start + 24]:
        if not line or line.startswith("Saved host backtrace") or "SUMMARY" in line:
            break
        found.append(line)
    return found


def _fault(
    head: str, rest: Sequence[str], own: Collection[str], labels: Collection[str]
) -> tuple[Finding, bool, bool]:
    """A head line, `at PLACE`, `by thread ..`, the address, frames of the callers."""
    # Frames and addresses of the next record are not this one's.
    second = next((i for i, t in enumerate(rest) if i and t.startswith("at ")), len(rest) + 1)
    mine = rest[: max(second - 1, 1)]
    frames = [t.removeprefix("Device Frame:") for t in mine if t.startswith("Device Frame:")]
    places = [_place(text) for text in (mine[0].removeprefix("at "), *frames)]
    details = " ".join(mine)
    kind, message = _explain(head, details)
    finding = _finding(kind, message, places, own, labels)
    if match := _THREAD.search(details):
        x, y, z, bx, by, bz = map(int, match.groups())
        finding = finding.model_copy(update={"thread": (x, y, z), "block": (bx, by, bz)})
    return finding, _is_own(places, own, labels), True


def _explain(head: str, details: str) -> tuple[FindingKind, str]:
    if match := _ACCESS.match(head):
        access = {"read": "reads", "write": "writes"}.get(match["access"], "updates")
        message = f"{access} {match['size']} bytes of {match['space']} memory"
        if "misaligned" in details:
            return FindingKind.MISALIGNED, f"{message} at an address that is no multiple of that"
        message += " out of bounds"
        if near := _NEAREST.search(details):
            message += f", {near['where']} the nearest allocation, of {near['size']} bytes"
        return FindingKind.OUT_OF_BOUNDS, message
    if match := _UNINITIALISED.match(head):
        message = f"reads {match['size']} bytes of {match['space']} memory that nobody wrote"
        return FindingKind.UNINITIALISED_READ, message
    if head.startswith("Barrier error detected"):
        reason = head.partition(".")[2].strip(" .") or "not all threads meet it"
        return FindingKind.DIVERGENT_BARRIER, f"barrier error: {reason}"
    if head.startswith(("Deadlock", "Possible deadlock")):
        return FindingKind.DEADLOCK, head
    return FindingKind.TRAP, head


def _hazard(
    match: re.Match[str], rest: Sequence[str], own: Collection[str], labels: Collection[str]
) -> tuple[Finding, bool, bool] | None:
    """Two threads of one block, by name."""
    threads = [t for text in rest if (t := _HAZARD_THREAD.match(text))][:2]
    if len(threads) < 2:
        return None
    places = [_place(t["place"]) for t in threads]
    names = ["({},{},{})".format(*t.groups()[1:4]) for t in threads]
    written = "wrote" if threads[0]["access"] == "Write" else "read"
    message = (
        f"thread {names[1]}{_line_of(places[1], labels)} {_ORDER[match['type']]} thread "
        f"{names[0]} {written}{_line_of(places[0], labels)}, with nothing that orders them"
    )
    finding = _finding(FindingKind.RACE, message, places, own, labels)
    block = tuple(map(int, match.groups()[2:5]))
    thread = tuple(map(int, threads[0].groups()[1:4]))
    finding = finding.model_copy(update={"block": block, "thread": thread})
    return finding, _is_own(places, own, labels), match["level"].lower() == "error"


def _finding(
    kind: FindingKind,
    message: str,
    places: Sequence[Place],
    own: Collection[str],
    labels: Collection[str],
) -> Finding:
    """The kernel is the outermost of its functions; the line the innermost in its own text."""
    named = [name for place in places if (name := plain_name(place.function)) in own]
    line = next((p for p in places if p.file in labels), Place(""))
    kernel = named[-1] if named else plain_name(places[-1].function)
    return Finding(kind=kind, kernel=kernel, message=message, source=line.file, line=line.line)


def _is_own(places: Sequence[Place], own: Collection[str], labels: Collection[str]) -> bool:
    return any(p.file in labels or plain_name(p.function) in own for p in places)


def _is_place(text: str) -> bool:
    return bool(_PLACE.fullmatch(text) or _OLD_PLACE.fullmatch(text))


def _place(text: str) -> Place:
    text = text.strip()
    match = _OLD_PLACE.fullmatch(text) or _PLACE.fullmatch(text)
    if match is None:
        return Place(text)
    file = (match["file"] or "").rpartition("/")[2]
    return Place(match["function"], file, int(match["line"] or 0))


def _line_of(place: Place, labels: Collection[str]) -> str:
    return f" (line {place.line})" if place.file in labels and place.line else ""


def plain_name(function: str) -> str:
    """`[clone void ns::k<float>(float *)] outlined()` -> `k`."""
    clone = re.match(r"\[clone (?P<of>.+)\] ", function)
    return base_name(clone["of"] if clone else function)
