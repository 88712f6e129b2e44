"""Shared and constant memory that a source declares, where its sizes are written as numbers."""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Sequence

from musaagent.tools.host.lexer import Kind, Token, following
from musaagent.tools.host.reading import Source
from musaagent.tools.host.shared_variables import Declarator, SharedVariable
from musaagent.tools.musa.cards import Card
from musaagent.tools.port.remarks import Remark
from musaagent.tools.syntax import parse_expression

_SIZES = {
    "float4": 16, "int4": 16, "uint4": 16, "double2": 16, "float2": 8, "int2": 8, "double": 8,
    "int64_t": 8, "uint64_t": 8, "size_t": 8, "long": 8, "float": 4, "int": 4, "unsigned": 4,
    "int32_t": 4, "uint32_t": 4, "half2": 4, "__half2": 4, "half": 2, "__half": 2, "short": 2,
    "int16_t": 2, "uint16_t": 2, "__nv_bfloat16": 2, "__mt_bfloat16": 2, "char": 1, "bool": 1,
    "int8_t": 1, "uint8_t": 1,
}  # fmt: skip
_LARGEST = 1 << 40
_QUALIFIERS = frozenset({"const", "volatile", "signed", "static", "__shared__"})


def memory_remarks(source: Source, card: Card) -> Iterator[Remark]:
    """Static shared memory of each function, and constant memory of the file, over the card's."""
    sizes = _Sizes(source)
    for function in source.outline.functions:
        if function.body is None:
            continue
        used, line = 0, 0
        for variable in source.shared_variables():
            if function.body[0] < variable.start < function.body[1] and not variable.external:
                used += sizes.shared(variable)
                line = line or source.tokens[variable.start].line
        if used > card.shared_bytes:
            yield Remark(
                kind="shared_memory",
                severity="error" if card.shared_documented else "warning",
                line=line,
                message=f"{function.name} declares {used} B of shared memory; "
                f"{card.arch} has {card.shared_bytes} B a block"
                + ("" if card.shared_documented else " (by a comment in torch_musa)"),
            )
    total, line = sizes.constant_memory()
    if card.constant_bytes is not None and total > card.constant_bytes:
        yield Remark(
            kind="constant_memory",
            severity="warning",
            line=line,
            message=f"{total} B of __constant__ memory; musaInfo says that {card.arch} has "
            f"{card.constant_bytes} B",
        )


class _Sizes:
    """Evaluates what is written with numbers, macros and constants; all else counts nothing."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = source.tokens
        self.values = self._named()

    def shared(self, variable: SharedVariable) -> int:
        element = self._element([self.tokens[i] for i in variable.specifiers])
        return sum(element * self._count(d) for d in variable.declarators) if element else 0

    def constant_memory(self) -> tuple[int, int]:
        """Bytes of all `__constant__` arrays, and the line of the first."""
        total, line = 0, 0
        for index, token in enumerate(self.tokens):
            if token.text != "__constant__" or token.directive:
                continue
            end = index
            while end < len(self.tokens) and self.tokens[end].text not in (";", "="):
                end += 1
            head = [t for t in self.tokens[index + 1 : end] if not t.blank]
            bracket = next((i for i, t in enumerate(head) if t.text == "["), len(head))
            element = self._element(head[: max(bracket - 1, 0)])
            total += element * self._dimensions(head[bracket:])
            line = line or token.line
        return total, line

    def _element(self, words: Sequence[Token]) -> int:
        names = [t.text for t in words if not t.blank and t.text not in _QUALIFIERS]
        return _SIZES.get(names[-1], 0) if names else 0

    def _count(self, declarator: Declarator) -> int:
        return self._dimensions(
            [t for t in self.tokens[declarator.name[1] : declarator.end] if not t.blank]
        )

    def _dimensions(self, tokens: Sequence[Token]) -> int:
        """The product of `[a][b]`; 0 where a bound is not a number."""
        count, place = 1, 0
        while place < len(tokens) and tokens[place].text == "[":
            end = place
            while end < len(tokens) and tokens[end].text != "]":
                end += 1
            value = self._evaluate(tokens[place + 1 : end])
            if value is None:
                return 0
            count *= value
            place = end + 1
        return count

    def _evaluate(self, tokens: Sequence[Token]) -> int | None:
        """Integers, named constants, + - * / << and parentheses."""
        words: list[str] = []
        for token in tokens:
            if token.blank:
                continue
            if token.kind is Kind.WORD:
                if token.text not in self.values:
                    return None
                words.append(str(self.values[token.text]))
            elif token.kind is Kind.NUMBER:
                words.append(re.sub(r"[uUlL]+$", "", token.text))
            elif token.text == "/":
                words.append("//")
            elif token.text in ("+", "-", "*", "(", ")", "<<", ">>"):
                words.append(token.text)
            elif token.text in ("<", ">"):  # the lexer keeps shifts as single tokens
                words[-1:] = (
                    [words[-1] + token.text]
                    if words[-1:] == [token.text]
                    else [
                        *words[-1:],
                        token.text,
                    ]
                )
            else:
                return None
        return _arithmetic(words)

    def _named(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for _ in range(2):  # constants of constants
            self.values = found
            for macro in self.source.macros:
                if not macro.parameters:
                    value = self._evaluate(self.tokens[macro.start : macro.end])
                    if value is not None:
                        found[macro.name] = value
            for index, token in enumerate(self.tokens):
                if token.text not in ("constexpr", "const") or token.directive:
                    continue
                self._constant(index, found)
        return found

    def _constant(self, index: int, found: dict[str, int]) -> None:
        """`constexpr int NAME = EXPRESSION;`"""
        place, name = index, ""
        for _ in range(6):
            place = following(self.tokens, place)
            if place >= len(self.tokens) or self.tokens[place].text in (";", "(", "{", ","):
                return
            if self.tokens[place].text == "=":
                break
            name = self.tokens[place].text
        else:
            return
        end = place
        while end < len(self.tokens) and self.tokens[end].text not in (";", ","):
            end += 1
        value = self._evaluate(self.tokens[place + 1 : end])
        if value is not None and name:
            found.setdefault(name, value)


_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}


def _arithmetic(words: Sequence[str]) -> int | None:
    """The value of integers and operators; None for what is too large to be a size."""
    try:
        value = _value(parse_expression(" ".join(words)).body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None
    return value if 0 <= value < _LARGEST else None


def _value(node: ast.expr) -> int:
    """Raises ValueError for what is no integer arithmetic."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and (run := _OPERATIONS.get(type(node.op))):
        left, right = _value(node.left), _value(node.right)
        if max(abs(left), abs(right)) >= _LARGEST or (run is operator.lshift and right > 40):
            raise ValueError("too large")
        return run(left, right)
    raise ValueError("no arithmetic")
