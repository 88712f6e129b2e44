"""A Python string literal as its value, with the way back to every character of its text."""

import re
from bisect import bisect_right
from functools import cached_property

_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPE = re.compile(r"\\(\n|\r\n|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|N\{[^}]*\}|.)", re.S)


class Literal:
    """`text` is what stands between the quotes; escapes count unless the literal is raw."""

    def __init__(self, text: str, *, quote: str, raw: bool) -> None:
        self.text = text
        self.quote = quote
        self.raw = raw
        self._starts: list[int] = []
        """Of each character of the value, its place in the text."""
        self._ends: list[int] = []
        self.value = text if raw else self._decoded()

    def _decoded(self) -> str:
        out: list[str] = []
        position = 0
        while position < len(self.text):
            match = _ESCAPE.match(self.text, position)
            end = match.end() if match else position + 1
            value = _meaning(match[1]) if match else self.text[position]
            for character in value:
                out.append(character)
                self._starts.append(position)
                self._ends.append(end)
            position = end
        return "".join(out)

    def start(self, offset: int) -> int:
        """Where the character of the value at `offset` stands in the text."""
        if self.raw:
            return offset
        return self._starts[offset] if offset < len(self._starts) else len(self.text)

    def end(self, offset: int) -> int:
        """Where the character before `offset` ends."""
        return offset if self.raw or not offset else self._ends[offset - 1]

    def written(self, value: str) -> str:
        """New words of the value as they must stand in the text."""
        if self.raw or len(self.quote) == 3:
            return value
        return value.replace(self.quote, "\\" + self.quote)

    @cached_property
    def _lines(self) -> list[int]:
        return [0, *(m.end() for m in re.finditer("\n", self.value))]

    def line_start(self, line: int) -> int:
        """Where line `line` (from 1) of the value starts in the text."""
        return self.start(self._lines[min(line, len(self._lines)) - 1])

    def line_of(self, offset: int) -> int:
        """The line of the value that holds `offset`."""
        return bisect_right(self._lines, offset)


def _meaning(escape: str) -> str:
    if escape in ("\n", "\r\n"):
        return ""
    if escape[0] in "01234567":
        return chr(int(escape, 8))
    if escape[0] in "xu" and len(escape) > 1:
        return chr(int(escape[1:], 16))
    if escape.startswith("N{"):
        return "?"
    return _SIMPLE.get(escape, escape if escape in ("\\", "'", '"') else "\\" + escape)
