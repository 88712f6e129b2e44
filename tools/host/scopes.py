"""Which tokens belong to which function: a light parse of namespace scope, enough for rewriting."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from musaagent.tools.host.lexer import (
    CLOSERS,
    OPENERS,
    Kind,
    Token,
    directives,
    following,
    inactive_lines,
    match_forward,
    previous,
)

_NOT_A_NAME = frozenset(
    "alignas __align__ __attribute__ __builtin_align__ __launch_bounds__ __maxnreg__"
    " __cluster_dims__ __declspec noexcept decltype requires throw explicit sizeof".split()
)
_STATEMENTS = frozenset({"if", "for", "while", "switch", "return", "catch"})
_CLASS_KEYS = frozenset({"struct", "class", "union", "enum"})


@dataclass(frozen=True)
class Function:
    """One function declared at namespace or class scope. Indices are of tokens."""

    name: str
    words: frozenset[str]
    """All words before its parameter list: specifiers, attributes, types, the name."""
    start: int
    """First token of the declaration."""
    parameters: tuple[int, int]
    """The opening and the closing parenthesis."""
    body: tuple[int, int] | None
    """The opening and the closing brace; None for a prototype."""
    global_scope: bool = True
    """Whether it stands outside every named namespace and class."""

    @property
    def kernel(self) -> bool:
        return "__global__" in self.words

    @property
    def device(self) -> bool:
        """Whether it can run on the device only."""
        return self.kernel or ("__device__" in self.words and "__host__" not in self.words)


@dataclass(frozen=True)
class Outline:
    """What stands at namespace scope."""

    functions: tuple[Function, ...]
    others: tuple[tuple[int, int], ...]
    """Token ranges of all other statements, a class or variable definition each."""

    def function_at(self, index: int) -> Function | None:
        """The function whose body holds the token."""
        for function in self.functions:
            if function.body and function.body[0] < index < function.body[1]:
                return function
        return None


@dataclass
class _State:
    scopes: list[str] = field(default_factory=list)
    """Names of the open namespaces and classes; "" is transparent (extern "C", unnamed)."""
    start: int | None = None
    """First token of the statement that is being read."""


def outline(tokens: Sequence[Token]) -> Outline:
    """Functions and other statements of a source, skipping what `#if 0` skips."""
    return _Outliner(tokens).run()


class _Outliner:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.functions: list[Function] = []
        self.others: list[tuple[int, int]] = []
        self.state = _State()
        self.saved: list[_State] = []
        self.dead = inactive_lines(tokens)
        self.closers = pair_brackets(tokens, self.dead)
        self.directives = {d.start: d for d in directives(tokens)}

    def run(self) -> Outline:
        index = 0
        while index < len(self.tokens):
            token = self.tokens[index]
            if index in self.directives:
                self.directive(self.directives[index].name)
                index = self.directives[index].end
            elif token.blank or self.skipped(token.line):
                index += 1
            else:
                index = self.step(index, token)
        return Outline(tuple(self.functions), tuple(self.others))

    def skipped(self, line: int) -> bool:
        return any(start <= line <= end for start, end in self.dead)

    def directive(self, name: str) -> None:
        """Both arms of a conditional start from the same braces."""
        state = self.state
        copy = _State(list(state.scopes), state.start)
        if name in ("if", "ifdef", "ifndef"):
            self.saved.append(copy)
        elif name in ("else", "elif") and self.saved:
            self.state = _State(list(self.saved[-1].scopes), self.saved[-1].start)
        elif name == "endif" and self.saved:
            self.saved.pop()

    def step(self, index: int, token: Token) -> int:
        """Read one token of a statement at namespace scope; answers the index to go on from."""
        state = self.state
        if token.text == "}" and token.kind is Kind.PUNCTUATION:
            if state.scopes:
                state.scopes.pop()
            state.start = None
            return index + 1
        if state.start is None:
            state.start = index
        if token.text == ";":
            self.finish(state.start, index, None)
            return index + 1
        if token.text == "{":
            return self.brace(state.start, index)
        if token.text in ("(", "["):
            return self.closers.get(index, index) + 1
        return index + 1

    def brace(self, start: int, index: int) -> int:
        head = self.significant(start, index)
        words = {self.tokens[i].text for i in head}
        parameters = self.parameters(start, index)
        close = self.closers.get(index, len(self.tokens) - 1)
        if "namespace" in words or (
            len(head) == 2 and self.tokens[head[0]].text == "extern" and not parameters
        ):
            named = "namespace" in words and self.tokens[head[-1]].text != "namespace"
            self.state.scopes.append(self.tokens[head[-1]].text if named else "")
            self.state.start = None
            return index + 1
        if self.has_initialiser(head):
            return close + 1  # the statement goes on to its semicolon
        if parameters:
            self.finish(start, index, close)
            return close + 1
        if words & _CLASS_KEYS and "enum" not in words:
            # Members are read like namespace scope; the declarators after `}` are of no interest.
            self.others.append((start, close))
            self.state.scopes.append("class")
            self.state.start = None
            return index + 1
        if head and "enum" not in words:
            self.others.append((start, close))
            self.state.start = None
        return close + 1

    def significant(self, start: int, end: int) -> list[int]:
        """Tokens of a statement that are outside its parentheses, preprocessor lines left out."""
        found: list[int] = []
        index = start
        while index < end:
            token = self.tokens[index]
            if not token.blank and not token.directive:
                found.append(index)
                if token.text in ("(", "["):
                    close = self.closers.get(index, end)
                    index = close if close < end else index
            index += 1
        return found

    def has_initialiser(self, head: Sequence[int]) -> bool:
        return any(
            self.tokens[i].text == "="
            and self.tokens[previous(self.tokens, i)].text != "operator"
            and not self.in_template_list(head, i)
            for i in head
        )

    def in_template_list(self, head: Sequence[int], index: int) -> bool:
        depth = 0
        for i in head:
            if i == index:
                return depth > 0
            depth += (self.tokens[i].text == "<") - (self.tokens[i].text == ">")
        return False

    def parameters(self, start: int, end: int) -> tuple[int, int] | None:
        """The parameter list: the last parenthesised group after a name, before any `:`."""
        found: tuple[int, int] | None = None
        for index in self.significant(start, end):
            if self.tokens[index].text == ":" and found:
                break
            if self.tokens[index].text != "(":
                continue
            before = self.tokens[previous(self.tokens, index)]
            close = self.closers.get(index)
            if before.kind is Kind.WORD and before.text not in _NOT_A_NAME and close is not None:
                found = (index, close)
        return found

    def finish(self, start: int, index: int, close: int | None) -> None:
        """A statement ends at `index`: its `;`, or the `{` of a body that ends at `close`."""
        self.state.start = None
        parameters = self.parameters(start, index)
        head = self.significant(start, index)
        if not parameters or (close is None and self.has_initialiser(head)):
            if head:
                self.others.append((start, index))
            return
        words = frozenset(self.tokens[i].text for i in head if i < parameters[0])
        name = self.tokens[previous(self.tokens, parameters[0])].text
        if (close is None and len(words) == 1) or name in _STATEMENTS:
            return  # a macro's call, or a statement after a brace too many
        self.functions.append(
            Function(
                name=name,
                words=words,
                start=start,
                parameters=parameters,
                body=None if close is None else (index, close),
                global_scope=not any(self.state.scopes),
            )
        )


def pair_brackets(tokens: Sequence[Token], dead: Sequence[tuple[int, int]] = ()) -> dict[int, int]:
    """Closing bracket of every opening one in ordinary text, whichever arms of #if are taken.

    Where both arms open a bracket that is closed after them, both openers get that closer.
    """
    pairs: dict[int, int] = {}
    stack: list[set[int]] = []
    saved: list[tuple[list[set[int]], list[list[set[int]]]]] = []  # at the #if; at each arm's end
    names = {d.start: d.name for d in directives(tokens)}
    for index, token in enumerate(tokens):
        name = names.get(index)
        if name in ("if", "ifdef", "ifndef"):
            saved.append(([set(s) for s in stack], []))
        elif name in ("else", "elif") and saved:
            saved[-1][1].append(stack)
            stack = [set(s) for s in saved[-1][0]]
        elif name == "endif" and saved:
            for arm in saved.pop()[1]:
                if len(arm) == len(stack):
                    stack = [a | b for a, b in zip(arm, stack, strict=True)]
        if token.directive or token.kind is not Kind.PUNCTUATION:
            continue
        if any(start <= token.line <= end for start, end in dead):
            continue
        if token.text in OPENERS:
            stack.append({index})
        elif token.text in CLOSERS and stack:
            pairs |= dict.fromkeys(stack.pop(), index)
    return pairs


def split_top_level(
    tokens: Sequence[Token], start: int, end: int, *, angles: bool = False
) -> list[tuple[int, int]]:
    """Ranges between the commas of tokens[start:end]; `angles` counts < > as brackets."""
    parts: list[tuple[int, int]] = []
    depth, angle, begin = 0, 0, start
    for index in range(start, end):
        token = tokens[index]
        if token.kind is not Kind.PUNCTUATION:
            continue
        depth += (token.text in OPENERS) - (token.text in CLOSERS)
        if angles and depth == 0:
            angle += (token.text == "<") - (token.text == ">")
        if token.text == "," and depth == 0 and angle == 0:
            parts.append((begin, index))
            begin = index + 1
    if any(not tokens[i].blank for i in range(begin, end)):
        parts.append((begin, end))
    return parts


def macro_head(tokens: Sequence[Token], hash_index: int) -> tuple[str, list[str], int]:
    """Name and parameters of the macro defined at `hash_index`, and where its body starts."""
    word = following(tokens, following(tokens, hash_index))
    name = tokens[word].text if word < len(tokens) else ""
    opener = word + 1
    if opener >= len(tokens) or tokens[opener].text != "(":
        return name, [], opener
    close = match_forward(tokens, opener)
    if close is None:
        return name, [], opener
    names = [t.text for t in tokens[opener + 1 : close] if t.kind is Kind.WORD or t.text == "..."]
    return name, names, close + 1
