"""Finds `kernel<<<...>>>(...)` among tokens, with every form that the kernel's name can take."""

from collections.abc import Sequence
from dataclasses import dataclass

from musaagent.tools.host.lexer import (
    Kind,
    Token,
    following,
    match_angle_backward,
    match_backward,
    match_forward,
    previous,
)

_CONTROL = frozenset({"if", "while", "for", "switch"})
_NO_PRIMARY = frozenset("return else do case throw co_return co_yield delete".split())


@dataclass(frozen=True)
class Launch:
    """One launch: indices of its first kernel token, `<<<`, `>>>`, `(` and `)`."""

    kernel: int
    open: int
    close: int
    arguments: int
    end: int


def find_launches(tokens: Sequence[Token]) -> list[Launch]:
    """All launches whose kernel and arguments can be told, in order of their `<<<`."""
    launches: list[Launch] = []
    opens: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind is Kind.LAUNCH_OPEN:
            opens.append(index)
        elif token.kind is Kind.LAUNCH_CLOSE and opens:
            start = opens.pop()
            arguments = following(tokens, index)
            end = match_forward(tokens, arguments)
            kernel = kernel_start(tokens, start)
            if end is not None and kernel is not None:
                launches.append(Launch(kernel, start, index, arguments, end))
    return sorted(launches, key=lambda launch: launch.open)


def kernel_start(tokens: Sequence[Token], index: int) -> int | None:
    """First token of the postfix expression that ends before `index`."""
    place = previous(tokens, index)
    while place >= 0:
        token = tokens[place]
        if token.text in (")", "]"):
            opener = match_backward(tokens, place)
            if opener is None:
                return None
            before = previous(tokens, opener)
            if not _continues(tokens, before, parenthesised=token.text == ")"):
                return opener
            place = before
        elif token.text == ">":
            opener = match_angle_backward(tokens, place)
            if opener is None:
                return None
            place = previous(tokens, opener)
        elif token.kind is Kind.WORD:
            before = previous(tokens, place)
            link = tokens[before].text if before >= 0 else ""
            if link == "template":
                before = previous(tokens, before)
                link = tokens[before].text
            if link not in ("::", ".", "->", "##"):
                return place
            qualifier = previous(tokens, before)
            if link == "::" and not _names(tokens, qualifier):
                return before
            place = qualifier
        else:
            return None
    return None


def _names(tokens: Sequence[Token], index: int) -> bool:
    """Whether the token can end a name that `::` qualifies."""
    if index < 0:
        return False
    token = tokens[index]
    if token.kind is Kind.WORD:
        return token.text not in _NO_PRIMARY
    return token.text == ">"


def _continues(tokens: Sequence[Token], index: int, *, parenthesised: bool) -> bool:
    """Whether the bracket after tokens[index] is a call or a subscript of what ends there."""
    if index < 0:
        return False
    token = tokens[index]
    if token.kind is Kind.WORD:
        return token.text not in _CONTROL | _NO_PRIMARY
    if token.text == ">":
        return match_angle_backward(tokens, index) is not None
    if token.text not in (")", "]"):
        return False
    opener = match_backward(tokens, index)
    if opener is None or not parenthesised:
        return opener is not None
    return tokens[previous(tokens, opener)].text not in _CONTROL
