"""Finds `__shared__` declarations among tokens, in every form that nvcc accepts."""

from collections.abc import Sequence
from dataclasses import dataclass

from musaagent.tools.host.lexer import (
    Kind,
    Token,
    following,
    match_backward,
    match_forward,
    previous,
)
from musaagent.tools.host.scopes import Outline, split_top_level

_ALIGNMENT = frozenset({"alignas", "__align__", "__builtin_align__", "__attribute__"})
_DROPPED = frozenset({"extern", "static", "inline", "__shared__", "__device__"})
_CLASS_KEYS = frozenset({"struct", "class", "union", "enum"})
_STATEMENT_WORDS = frozenset({"else", "do", "case", "default", "return", "public", "private"})


@dataclass(frozen=True)
class Declarator:
    """tokens[start:end] with the variable's name at tokens[name[0]:name[1]]."""

    start: int
    end: int
    name: tuple[int, int]
    initialised: bool


@dataclass(frozen=True)
class SharedVariable:
    """One declaration statement. Indices are of tokens; `end` is after the semicolon, if any."""

    start: int
    end: int
    terminated: bool
    external: bool
    specifiers: tuple[int, ...]
    """Tokens of the type, storage classes and alignment left out."""
    alignment: tuple[int, ...]
    """Tokens of the alignment attributes."""
    declarators: tuple[Declarator, ...]
    file_scope: bool
    defines_type: bool


def find_shared(
    tokens: Sequence[Token], outline: Outline, macros: Sequence[tuple[int, int]]
) -> list[SharedVariable]:
    """All declarations, in order; `macros` are the token ranges of #define bodies."""
    found: list[SharedVariable] = []
    done = 0
    for index, token in enumerate(tokens):
        if token.text != "__shared__" or token.kind is not Kind.WORD or index < done:
            continue
        low, high = 0, len(tokens)
        if token.directive:
            bodies = [m for m in macros if m[0] <= index < m[1]]
            if not bodies:
                continue  # `#define __shared__`, `#ifdef __shared__`
            low, high = bodies[0]
        variable = _read(tokens, index, low, high)
        if variable is not None:
            inside = bool(token.directive) or outline.function_at(index) is not None
            found.append(_placed(variable, file_scope=not inside))
            done = variable.end
    return found


def _placed(variable: SharedVariable, *, file_scope: bool) -> SharedVariable:
    return SharedVariable(**{**variable.__dict__, "file_scope": file_scope})


def _read(tokens: Sequence[Token], index: int, low: int, high: int) -> SharedVariable | None:
    start = _statement_start(tokens, index, low)
    end, terminated = _statement_end(tokens, index, high)
    parts = split_top_level(tokens, start, end, angles=True)
    if not parts:
        return None
    specifiers, alignment, external, declared = _specifiers(tokens, *parts[0])
    declarators = [_declarator(tokens, *declared)]
    declarators += [_declarator(tokens, *part) for part in parts[1:]]
    known = [d for d in declarators if d is not None]
    if len(known) != len(declarators) or not specifiers:
        return None
    return SharedVariable(
        start=start,
        end=end + terminated,
        terminated=terminated,
        external=external,
        specifiers=specifiers,
        alignment=alignment,
        declarators=tuple(known),
        file_scope=False,
        defines_type=any(tokens[i].text == "{" for i in specifiers),
    )


def _statement_start(tokens: Sequence[Token], index: int, low: int) -> int:
    """Back over the specifiers that may stand before `__shared__`."""
    start = index
    while True:
        before = previous(tokens, start)
        if before < low or tokens[before].directive != tokens[index].directive:
            return start
        token = tokens[before]
        if token.text == "::" or (token.kind is Kind.WORD and token.text not in _STATEMENT_WORDS):
            start = before
        elif token.text == ")":
            opener = match_backward(tokens, before)
            word = -1 if opener is None else previous(tokens, opener)
            if word < low or tokens[word].text not in _ALIGNMENT:
                return start
            start = word
        else:
            return start


def _statement_end(tokens: Sequence[Token], index: int, high: int) -> tuple[int, bool]:
    """The semicolon, or the end of the macro body where it has none."""
    while index < high:
        token = tokens[index]
        if token.text == ";":
            return index, True
        if token.kind is Kind.PUNCTUATION and token.text in ("(", "[", "{"):
            close = match_forward(tokens, index)
            if close is None:
                break
            index = close
        elif token.text == "}" and token.kind is Kind.PUNCTUATION:
            return index, False
        index += 1
    return min(index, high), False


def _specifiers(
    tokens: Sequence[Token], start: int, end: int
) -> tuple[tuple[int, ...], tuple[int, ...], bool, tuple[int, int]]:
    """Type tokens, alignment tokens, whether it is extern, range of the first declarator."""
    alignment: list[int] = []
    kept: list[int] = []
    external = False
    index = start
    while index < end:
        token = tokens[index]
        if token.text in _ALIGNMENT:
            close = match_forward(tokens, following(tokens, index))
            stop = end if close is None else close + 1
            alignment += range(index, stop)
            index = stop
            continue
        external = external or token.text == "extern"
        if token.text not in _DROPPED or token.kind is not Kind.WORD:
            kept.append(index)
        index += 1
    name = _first_name(tokens, kept)
    split = _declarator_start(tokens, kept, name)
    type_tokens = tuple(kept[:split])
    return type_tokens, tuple(alignment), external, (kept[split] if split < len(kept) else end, end)


def _first_name(tokens: Sequence[Token], kept: Sequence[int]) -> int:
    """Position in `kept` of the declared name: the last word before `[`, `=` or the end."""
    angle, found, place = 0, len(kept) - 1, 0
    while place < len(kept):
        token = tokens[kept[place]]
        angle += (token.text == "<") - (token.text == ">")
        if token.text == "{" and _opens_type(tokens, kept, place):
            close = match_forward(tokens, kept[place])
            while close is not None and place < len(kept) and kept[place] < close:
                place += 1
        elif token.text in ("(", "[", "=", "{") and angle == 0:
            if token.text == "(" and tokens[previous(tokens, kept[place])].text == "decltype":
                close = match_forward(tokens, kept[place])
                while close is not None and place < len(kept) and kept[place] < close:
                    place += 1
            else:
                break
        elif token.kind is Kind.WORD and angle == 0:
            found = place
        place += 1
    return found


def _opens_type(tokens: Sequence[Token], kept: Sequence[int], place: int) -> bool:
    words = [tokens[i].text for i in kept[:place] if not tokens[i].blank]
    return any(word in _CLASS_KEYS for word in words[-3:])


def _declarator_start(tokens: Sequence[Token], kept: Sequence[int], name: int) -> int:
    """Back over `*`, `&`, their qualifiers and the pieces of a pasted name."""
    start = name
    while start > 0:
        before = start - 1
        while before > 0 and tokens[kept[before]].blank:
            before -= 1
        text = tokens[kept[before]].text
        if text in ("*", "&", "##") or tokens[kept[start]].text == "##":
            start = before
        elif text in ("const", "__restrict__", "volatile") and before > 0:
            star = before - 1
            while star > 0 and tokens[kept[star]].blank:
                star -= 1
            if tokens[kept[star]].text != "*":
                break
            start = star
        else:
            break
    return start


def _declarator(tokens: Sequence[Token], start: int, end: int) -> Declarator | None:
    stop, initialised = _declarator_end(tokens, start, end)
    first: int | None = None
    last = start
    for index in range(start, stop):
        if tokens[index].text == "[":
            break
        if tokens[index].kind is Kind.WORD and tokens[index].text not in ("const", "volatile"):
            pasted = first is not None and tokens[previous(tokens, index)].text == "##"
            first = first if pasted else index
            last = index + 1
    if first is None:
        return None
    return Declarator(start, stop, (first, last), initialised)


def _declarator_end(tokens: Sequence[Token], start: int, end: int) -> tuple[int, bool]:
    """Where an initialiser or a trailing attribute begins, and whether it is an initialiser."""
    depth = 0
    for index in range(start, end):
        text = tokens[index].text
        if depth == 0 and (text in ("=", "{", "(") or text in _ALIGNMENT):
            return index, text not in _ALIGNMENT
        depth += (text == "[") - (text == "]")
    return end, False
