"""C++ and CUDA tokens with an exact round trip: the texts of all tokens, joined, are the source.

Regular expressions over C++ text live here and nowhere else. The lexer knows comments, raw strings,
prefixes, spliced lines and preprocessor lines. `>` is always a token of its own, so that template
closers need no splitting; `<<<` and `>>>` become launch tokens only where they enclose a launch.
"""

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple


class Kind(IntEnum):
    SPACE = 0
    """Blanks within a line, and spliced line ends (backslash, newline)."""
    NEWLINE = 1
    COMMENT = 2
    WORD = 3
    """Identifiers and keywords."""
    NUMBER = 4
    STRING = 5
    CHARACTER = 6
    HEADER = 7
    """The `<name>` or `"name"` of an #include."""
    PUNCTUATION = 8
    LAUNCH_OPEN = 9
    LAUNCH_CLOSE = 10
    OTHER = 11
    """A character that begins no token, as a lone quote in skipped text."""


class Token(NamedTuple):
    kind: Kind
    text: str
    line: int
    """1-based line of its first character."""
    directive: int = 0
    """Line of the `#` whose preprocessor line it belongs to; 0 in ordinary text."""

    @property
    def blank(self) -> bool:
        return self.kind <= Kind.COMMENT


class Directive(NamedTuple):
    """One preprocessor line: tokens[start:end], from the `#` to before its newline."""

    name: str
    start: int
    end: int


_SPLICE = r"\\[ \t]*\r?\n"
_TOKEN = re.compile(
    rf"""
    (?P<NEWLINE>\r?\n)
  | (?P<SPACE>(?:[ \t\f\v]|{_SPLICE}|\r(?!\n))+)
  | (?P<COMMENT>//(?:{_SPLICE}|[^\n])*?(?=\r?\n|\Z)|/\*.*?(?:\*/|\Z))
  | (?P<STRING>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{{0,16}})\(.*?\)(?P=mark)"(?:_\w+)?
              |(?:u8|[uUL])?"(?:\\\r\n|\\.|[^"\\\n])*"(?:_\w+)?)
  | (?P<CHARACTER>(?:u8|[uUL])?'(?:\\\r\n|\\.|[^'\\\n])+'(?:_\w+)?)
  | (?P<WORD>[^\W\d][\w$]*|\$[\w$]*)
  | (?P<NUMBER>\.?\d(?:[eEpP][+-]|'\w|[\w.])*)
  | (?P<PUNCTUATION>::|->\*?|\.\.\.|\.\*|\+\+|--|&&|\|\||<<=|<=>|<=|<<|>=
                   |[-+*/%^&|!=]=|\#\#|[^\w\s"'\\`@$])
  | (?P<OTHER>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_HEADER = re.compile(r'<[^>\n]+>|"[^"\n]+"')
OPENERS = {"(": ")", "[": "]", "{": "}"}
CLOSERS = {close: open_ for open_, close in OPENERS.items()}


def lex(source: str) -> list[Token]:
    """All tokens of `source`; ''.join(t.text for t in lex(s)) == s for every s."""
    return _mark_launches(list(_scan(source)))


def _scan(source: str) -> Iterator[Token]:
    position, line, directive = 0, 1, 0
    line_start, words = True, 0  # words: how many the preprocessor line has had
    include = False
    while position < len(source):
        kind, text = _next(source, position, include)
        include = include and kind <= Kind.COMMENT
        if kind is Kind.NEWLINE:
            line_start, include, directive = True, False, 0
        elif line_start and kind is not Kind.SPACE and kind is not Kind.COMMENT:
            line_start = False
            if text == "#":
                directive, words = line, 0
        if directive and kind is Kind.WORD:
            words += 1
            include = words == 1 and text.startswith("include")
        yield Token(kind, text, line, directive)
        line += text.count("\n")
        position += len(text)


def _next(source: str, position: int, include: bool) -> tuple[Kind, str]:
    if include and (header := _HEADER.match(source, position)):
        return Kind.HEADER, header.group()
    match = _TOKEN.match(source, position)
    assert match is not None
    assert match.lastgroup is not None
    if match.group() == "<<" and "<<<" in source[max(0, position - 1) : position + 3]:
        return Kind.PUNCTUATION, "<"  # may open a launch: three single tokens until that is known
    return Kind[match.lastgroup], match.group()


def _mark_launches(tokens: list[Token]) -> list[Token]:
    """Join `<<<` and `>>>` into launch tokens where both ends of a launch are there."""
    joined: dict[int, Kind] = {}
    for index, token in enumerate(tokens):
        if token.text == "<" and index not in joined and _run(tokens, index, "<") == 3:
            close = _launch_end(tokens, index + 3) if _may_open(tokens, index) else None
            if close is not None:
                joined[index], joined[close] = Kind.LAUNCH_OPEN, Kind.LAUNCH_CLOSE
    out: list[Token] = []
    index = 0
    while index < len(tokens):
        kind = joined.get(index)
        if kind is None:
            out.append(tokens[index])
            index += 1
        else:
            out.append(tokens[index]._replace(kind=kind, text=tokens[index].text * 3))
            index += 3
    return out


def _run(tokens: Sequence[Token], index: int, text: str) -> int:
    count = 0
    while index + count < len(tokens) and tokens[index + count].text == text:
        count += 1
    return count


def _may_open(tokens: Sequence[Token], index: int) -> bool:
    before = previous(tokens, index)
    if before < 0 or tokens[before].directive != tokens[index].directive:
        return False
    token = tokens[before]
    if token.kind is Kind.WORD:
        return token.text != "operator"
    return token.text in (">", ")", "]")


def _launch_end(tokens: Sequence[Token], index: int) -> int | None:
    """Index of the first `>` of the closing three: they stand at depth 0, before a `(`."""
    depth = 0
    directive = tokens[index].directive if index < len(tokens) else 0
    while index < len(tokens) and (tokens[index].directive == directive or tokens[index].blank):
        text = tokens[index].text if tokens[index].kind is Kind.PUNCTUATION else ""
        if text == ">" and depth == 0:
            count = _run(tokens, index, ">")
            after = following(tokens, index + count - 1)
            if count >= 3 and after < len(tokens) and tokens[after].text == "(":
                return index + count - 3  # any more before these three close templates
            index += count
            continue
        depth += (text in OPENERS) - (text in CLOSERS)
        if depth < 0 or (depth == 0 and text == ";"):
            return None
        index += 1
    return None


def previous(tokens: Sequence[Token], index: int) -> int:
    """Index of the last token before `index` that is not blank; -1 if none."""
    index -= 1
    while index >= 0 and tokens[index].blank:
        index -= 1
    return index


def following(tokens: Sequence[Token], index: int) -> int:
    """Index of the next token after `index` that is not blank; len(tokens) if none."""
    index += 1
    while index < len(tokens) and tokens[index].blank:
        index += 1
    return index


def match_forward(tokens: Sequence[Token], index: int) -> int | None:
    """Index of the bracket that closes the one at `index`, None where it is never closed."""
    depth = 0
    for place in range(index, len(tokens)):
        token = tokens[place]
        if token.kind is Kind.PUNCTUATION:
            depth += (token.text in OPENERS) - (token.text in CLOSERS)
            if depth == 0:
                return place
    return None


def match_backward(tokens: Sequence[Token], index: int) -> int | None:
    """Index of the bracket that opens the one that closes at `index`."""
    depth = 0
    for place in range(index, -1, -1):
        token = tokens[place]
        if token.kind is Kind.PUNCTUATION:
            depth += (token.text in CLOSERS) - (token.text in OPENERS)
            if depth == 0:
                return place
    return None


def match_angle_backward(tokens: Sequence[Token], index: int) -> int | None:
    """Index of the `<` that opens the template arguments which close at `index`."""
    depth, place = 0, index
    while place >= 0:
        token = tokens[place]
        if token.kind is Kind.PUNCTUATION:
            if token.text == ">":
                depth += 1
            elif token.text == "<":
                depth -= 1
                if depth == 0:
                    return place
            elif token.text in CLOSERS:
                opener = match_backward(tokens, place)
                if opener is None:
                    return None
                place = opener
            elif token.text in OPENERS or token.text == ";":
                return None
        place -= 1
    return None


def directives(tokens: Sequence[Token]) -> Iterator[Directive]:
    """All preprocessor lines, in order."""
    index = 0
    while index < len(tokens):
        if not tokens[index].directive:
            index += 1
            continue
        start, line, name = index, tokens[index].directive, ""
        while index < len(tokens) and tokens[index].directive == line:
            if not name and tokens[index].kind is Kind.WORD:
                name = tokens[index].text
            index += 1
        yield Directive(name, start, index)


def inactive_lines(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Line ranges, ends within, that `#if 0` (or `#if false`, or the `#else` of `#if 1`) skips."""
    ranges: list[tuple[int, int]] = []
    stack: list[tuple[bool, int, bool | None]] = []  # is this part skipped, from where, condition
    for name, start, end in directives(tokens):
        line = tokens[start].line
        if name in ("if", "ifdef", "ifndef"):
            value = _constant(tokens[start:end]) if name == "if" else None
            stack.append((value is False, line, value))
        elif stack and name in ("else", "elif", "elifdef", "elifndef", "endif"):
            skipped, begin, value = stack.pop()
            if skipped:
                ranges.append((begin, line))
            if name != "endif":
                stack.append((value is True, line, value))
    return ranges


def _constant(tokens: Sequence[Token]) -> bool | None:
    words = [t.text for t in tokens if not t.blank]
    if len(words) != 3:
        return None
    return {"0": False, "false": False, "1": True, "true": True}.get(words[2])
