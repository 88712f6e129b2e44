"""One source, read once: its tokens, outline, macros, shared variables and asm statements."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from musaagent.tools.host.lexer import (
    Kind,
    Token,
    directives,
    following,
    inactive_lines,
    lex,
    match_forward,
)
from musaagent.tools.host.scopes import Outline, macro_head, outline
from musaagent.tools.host.shared_variables import SharedVariable, find_shared

_ASM = frozenset({"asm", "__asm__", "__asm"})
_ASM_QUALIFIERS = frozenset({"volatile", "__volatile__", "inline", "goto"})


@dataclass(frozen=True)
class Macro:
    """One `#define`; its body is tokens[start:end]."""

    name: str
    parameters: list[str]
    start: int
    end: int


@dataclass
class Source:
    """A source and what a rewriter must know of it."""

    tokens: list[Token]
    outline: Outline
    macros: list[Macro] = field(default_factory=list)
    dead: list[tuple[int, int]] = field(default_factory=list)

    def macro_at(self, index: int) -> list[str] | None:
        """Parameters of the macro whose body holds the token, None in ordinary text."""
        for macro in self.macros:
            if macro.start <= index < macro.end:
                return macro.parameters
        return None

    def macro_words(self, name: str) -> frozenset[str]:
        """Words in the body of the macro `name`; empty where there is none."""
        return frozenset(
            token.text
            for macro in self.macros
            if macro.name == name
            for token in self.tokens[macro.start : macro.end]
        )

    @property
    def all_macro_words(self) -> frozenset[str]:
        return frozenset().union(*(self.macro_words(macro.name) for macro in self.macros))

    def shared_variables(self) -> list[SharedVariable]:
        bodies = [(macro.start, macro.end) for macro in self.macros]
        return find_shared(self.tokens, self.outline, bodies)

    def initialised_shared(self) -> list[int]:
        """Lines of `__shared__` declarations with an initialiser, which nvcc refuses."""
        variables = self.shared_variables()
        return [
            self.tokens[v.start].line
            for v in variables
            if any(d.initialised for d in v.declarators) and not self.skipped(v.start)
        ]

    def skipped(self, index: int) -> bool:
        line = self.tokens[index].line
        return any(start <= line <= end for start, end in self.dead)


def read(text: str) -> Source:
    """Lex and outline one source."""
    tokens = lex(text)
    source = Source(tokens, outline(tokens), dead=inactive_lines(tokens))
    for directive in directives(tokens):
        if directive.name == "define":
            name, names, body = macro_head(tokens, directive.start)
            source.macros.append(Macro(name, names, body, directive.end))
    return source


def find_asm(source: Source, index: int) -> int | None:
    """End of the asm statement that starts at `index` (after its parenthesis), if one does."""
    tokens = source.tokens
    token = tokens[index]
    if token.text not in _ASM or token.kind is not Kind.WORD or source.skipped(index):
        return None
    place = following(tokens, index)
    while place < len(tokens) and tokens[place].text in _ASM_QUALIFIERS:
        place = following(tokens, place)
    if place >= len(tokens) or tokens[place].text != "(":
        return None
    close = match_forward(tokens, place)
    return None if close is None else close + 1


def asm_is_empty(tokens: Sequence[Token], index: int) -> bool:
    """Whether the asm statement at `index` holds no instruction: a barrier for the compiler."""
    while tokens[index].text != "(":
        index += 1
    index = following(tokens, index)
    while tokens[index].kind is Kind.STRING:
        if tokens[index].text.strip('" \t\\n'):
            return False
        index = following(tokens, index)
    return tokens[index].text in (")", ":", "::")
