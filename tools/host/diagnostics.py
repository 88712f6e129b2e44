"""Compiler and linker output as diagnostics in the candidate's own coordinates.

Lines of generated code carry the candidate's source names and numbers (#line), so most of the work
is to find the candidate's place where a message lies in one of our headers, and to take our names
out of the text.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from musaagent.tools.host.constructs import header_construct, refusal
from musaagent.tools.results import Diagnostic

MAX_DIAGNOSTICS = 12
_MAX_NOTES = 4
_MAX_MESSAGE = 600

_GNU = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? "
    r"(?P<kind>fatal error|error|warning|note|sorry, unimplemented): (?P<text>.*)$"
)
_EDG = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): "
    r"(?P<kind>catastrophic error|error|warning|note|remark)(?: #[\w-]+)?: (?P<text>.*)$"
)
_END_OF_SOURCE = re.compile(
    r"^At end of source: (?P<kind>catastrophic error|error|warning)(?: #[\w-]+)?: (?P<text>.*)$"
)
_REQUIRED = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)?\s+(?:required|recursively)"
)
_INLINED = re.compile(r"inlined from .* at (?P<file>[^\s:]+):(?P<line>\d+):\d+")
_INCLUDED = re.compile(r"^(?:In file included from| +from) (?P<file>[^:\n]+):(?P<line>\d+)")
_INSTANTIATED = re.compile(r"detected during.*|instantiation of .* at line (?P<line>\d+)")
_NO_LIBRARY = re.compile(r"(?:cannot find|unable to find library) (?P<name>-l\S+?)(?::|$)")
_UNDEFINED = re.compile(r"undefined (?:reference to|symbol:?) [`'\"]?(?P<name>[^'\"\n]+)")
_MULTIPLE = re.compile(r"multiple definition of [`'\"]?(?P<name>[^'\"\n]+)")
_LINK_PLACE = re.compile(r"(?P<file>[\w.]+\[\d+\]|[\w./-]+\.\w+):(?P<line>\d+): ")
_PTXAS = re.compile(r"^ptxas (?:error|fatal)\s*: (?P<text>.*)$")
_UNSUPPORTED = re.compile(r"musahost: unsupported construct: (?P<name>[^\"'\n\](]+)")
_NO_HEADER = re.compile(r"^['\"]?(?P<name>[^'\":\s]+)['\"]?(?:: No such file| file not found)")
_KILLED = re.compile(
    r"(?:Killed signal terminated program|out of memory|cannot allocate memory)", re.I
)

# Our own names in messages, and what a candidate's author calls the same thing.
_OWN_NAMES = (
    (re.compile(r"(?:musahost::Config )?musahost::config(?:\([^)]*\))?"), "<<<...>>>"),
    (re.compile(r"void musahost::launch\(.*?\)(?= \[with|'|$)|musahost::launch"), "kernel launch"),
    (re.compile(r"musahost_dynamic_|musahost_type_|musahost_key_"), ""),
    (re.compile(r"musahost_p\d*(?:\.\.\.)?(?:#\d+)?"), "argument"),
    (re.compile(r"musahost::DynamicShared<"), "extern __shared__ <"),
    (
        re.compile(r"(?:ISO C\+\+ forbids )?variable length array (?:('\w+') )?is used"),
        r"expression must have a constant value: the size of array \1",
    ),
    (re.compile(r" \[-f?permissive\]| \[-W[\w=-]+\]"), ""),
)


@dataclass(frozen=True)
class Texts:
    """The candidate's sources by name, and what they were rewritten to."""

    original: Mapping[str, str]
    rewritten: Mapping[str, str] = field(default_factory=dict)

    def line(self, source: str, line: int) -> str:
        return _line(self.original.get(source, ""), line).strip()

    def column(self, source: str, line: int, column: int) -> int:
        """The column in the candidate's own line, 0 where rewriting changed the text around it."""
        new = _line(self.rewritten.get(source, ""), line)
        old = _line(self.original.get(source, ""), line)
        if not new or new == old:
            return column
        same = 0
        while same < min(len(new), len(old)) and new[same] == old[same]:
            same += 1
        if column <= same:
            return column
        tail = 0
        while tail < min(len(new), len(old)) - same and new[-1 - tail] == old[-1 - tail]:
            tail += 1
        return column - len(new) + len(old) if column > len(new) - tail else 0


def _line(text: str, line: int) -> str:
    lines = text.splitlines()
    return lines[line - 1] if 0 < line <= len(lines) else ""


@dataclass
class _Message:
    """One error or warning while its context and notes are gathered."""

    kind: Literal["error", "warning"]
    file: str
    line: int
    column: int
    text: str
    notes: list[str] = field(default_factory=list)


def parse(output: str, tool: str, texts: Texts) -> tuple[Diagnostic, ...]:
    """All errors of a compiler run (warnings only if there is no error), first one first."""
    reader = _Reader(texts)
    for line in output.splitlines():
        reader.read(line.rstrip())
    found = [_finish(message, tool, texts) for message in reader.messages]
    errors = [d for d in found if d.severity == "error"]
    return _unique(errors or found)[:MAX_DIAGNOSTICS]


class _Reader:
    """Reads g++, clang, nvcc (EDG), ptxas and ld lines; keeps the candidate's places on the way."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.messages: list[_Message] = []
        self.context: list[tuple[str, int]] = []
        self.includes: list[tuple[str, int]] = []
        self.last_link_place: tuple[str, int] = ("", 0)

    def own(self, file: str) -> bool:
        return file in self.texts.original

    def read(self, line: str) -> None:
        if match := _GNU.match(line) or _EDG.match(line):
            self.message(match)
        elif match := _END_OF_SOURCE.match(line):
            kind: Literal["error", "warning"] = "warning" if match["kind"] == "warning" else "error"
            text = f"at the end of the source: {match['text']}"
            self.messages.append(_Message(kind, "", 0, 0, text))
        elif match := _REQUIRED.match(line) or _INLINED.search(line):
            if self.own(match["file"]):
                self.context.append((match["file"], int(match["line"])))
        elif match := _INCLUDED.match(line):
            if self.own(match["file"]):
                self.includes.append((match["file"], int(match["line"])))
        elif match := _PTXAS.match(line):
            self.messages.append(_Message("error", "", 0, 0, "ptxas: " + match["text"]))
        elif match := _UNDEFINED.search(line):
            self.link(line, f"undefined reference to '{match['name'].strip()}'")
        elif match := _NO_LIBRARY.search(line):
            self.link(line, f"there is no library {match['name']} on this machine")
        elif match := _MULTIPLE.search(line):
            self.link(line, f"multiple definition of '{match['name'].strip()}'")
        elif _KILLED.search(line):
            self.messages.append(_Message("error", "", 0, 0, "the compiler ran out of memory"))
        elif match := _INSTANTIATED.search(line):
            self.note(line.strip())

    def note(self, text: str) -> None:
        if self.messages and len(self.messages[-1].notes) < _MAX_NOTES:
            self.messages[-1].notes.append(clean(text))

    def message(self, match: re.Match[str]) -> None:
        file, line = match["file"], int(match["line"])
        column = int(match.groupdict().get("column") or 0)
        kind, text = match["kind"], match["text"]
        if kind in ("note", "remark"):
            self.attach(file, line, text)
            return
        # What instantiates a template is at fault before the line that includes its header.
        places = self.context or self.includes
        if not self.own(file) and places:
            file, line, column = *places[0], 0
        self.context, self.includes = [], []
        severity: Literal["error", "warning"] = "warning" if kind == "warning" else "error"
        self.messages.append(_Message(severity, file, line, column, text))

    def attach(self, file: str, line: int, text: str) -> None:
        """A note: the candidate's place of an error in one of our headers, or a remark to keep."""
        if not self.messages:
            return
        message = self.messages[-1]
        if self.own(file) and not self.own(message.file):
            message.file, message.line, message.column = file, line, 0
        if self.own(file) and "musahost" not in text and "in expansion of macro" not in text:
            self.note(f"line {line}: {text}")

    def link(self, line: str, text: str) -> None:
        place = _LINK_PLACE.search(line)
        file, number = (place["file"], int(place["line"])) if place else ("", 0)
        file = file if self.own(file) else ""
        self.messages.append(_Message("error", file, number if file else 0, 0, "ld: " + text))


def clean(text: str) -> str:
    """A message without the names that rewriting brought in."""
    for pattern, replacement in _OWN_NAMES:
        text = pattern.sub(replacement, text)
    return text if len(text) <= _MAX_MESSAGE else text[:_MAX_MESSAGE] + "..."


def _finish(message: _Message, tool: str, texts: Texts) -> Diagnostic:
    own = message.file in texts.original
    source = message.file if own else ""
    line = message.line if own else 0
    text = texts.line(source, line)
    if match := _UNSUPPORTED.search(message.text):
        return refusal(match["name"].strip(), source, line, text)
    if match := _NO_HEADER.match(message.text):
        construct = header_construct(match["name"])
        if construct:
            return refusal(construct, source, line, text)
    stage, text_only = _stage(message.text, tool)
    return Diagnostic(
        tool=stage,
        severity=message.kind,
        message=clean(text_only),
        source=source,
        line=line,
        column=texts.column(source, line, message.column) if own else 0,
        text=text,
        notes=tuple(message.notes),
    )


def _stage(text: str, tool: str) -> tuple[str, str]:
    for stage in ("ld", "ptxas"):
        if text.startswith(stage + ": "):
            return stage, text.removeprefix(stage + ": ")
    return tool, text


def _unique(found: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    seen: set[tuple[str, int, str]] = set()
    kept: list[Diagnostic] = []
    for diagnostic in found:
        key = (diagnostic.source, diagnostic.line, diagnostic.message)
        if key not in seen:
            seen.add(key)
            kept.append(diagnostic)
    return tuple(kept)
