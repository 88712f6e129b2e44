"""Warp-32 assumptions: code that takes a warp for 32 lanes, on a card whose warps have 128.

What was written with `warpSize`, or with an explicit width of 32 in every shuffle, holds on any
card and is left alone. A full mask of 32 bits is no fault by itself (torch_musa passes it on cards
with 128 lanes), so it is only told together with other signs.
"""

import re
from collections.abc import Iterator

from musaagent.tools.host.lexer import Kind, Token, directives, following, match_forward, previous
from musaagent.tools.host.reading import Source
from musaagent.tools.host.scopes import Function, split_top_level
from musaagent.tools.musa.cards import Card
from musaagent.tools.port.remarks import Remark

_SHUFFLE = re.compile(r"__shfl(_up|_down|_xor)?_sync$|WARP_SHFL")
_VOTE = re.compile(r"__(ballot_sync|activemask|match_any_sync|match_all_sync|ballot)$")
_WHOLE = re.compile(r"__(any_sync|all_sync|syncwarp|reduce_\w+_sync)$")
_THREAD = re.compile(r"(?i)(tid|thread|lane|warp|linear|rank|threadIdx|blockDim)")
_WARP_NAME = re.compile(r"(?i)^(k?_?warp_?(size|threads|width)?|k?warp_?lanes?|(num_)?lanes)_*$")
_FULL = frozenset({"0xffffffff", "4294967295", "0xffffffffffffffff"})
_AWARE = frozenset({"warpSize", "__MUSA_ARCH__"})
_KIND = "warp_size"


def warp_remarks(source: Source, card: Card) -> Iterator[Remark]:
    """Nothing on cards whose warps have 32 lanes."""
    if card.warp_size == 32:
        return
    reader = _Warps(source, card.warp_size)
    yield from reader.constants()
    for function in source.outline.functions:
        if function.body is not None and (function.device or _uses_threads(source, function)):
            yield from reader.function(function)


def _uses_threads(source: Source, function: Function) -> bool:
    """A template without `__device__` in sight, or `__host__ __device__`, that works on threads."""
    assert function.body is not None
    return any(
        t.text == "threadIdx" or _SHUFFLE.match(t.text)
        for t in source.tokens[function.body[0] : function.body[1]]
    )


def number(token: Token) -> int | None:
    """The value of an integer literal; None for everything else."""
    if token.kind is not Kind.NUMBER:
        return None
    text = re.sub(r"[uUlL]+$", "", token.text.replace("'", ""))
    try:
        return int(text, 0)
    except ValueError:
        return None


class _Warps:
    def __init__(self, source: Source, lanes: int) -> None:
        self.source = source
        self.tokens = source.tokens
        self.lanes = lanes
        self.names = {name for name, _, value in self.named_constants() if value == 32}
        self.full = {name for name, _, value in self.named_constants() if value in (0xFFFFFFFF, -1)}

    def remark(self, index: int, message: str) -> Remark:
        return Remark(kind=_KIND, line=self.tokens[index].line, message=message)

    def named_constants(self) -> Iterator[tuple[str, int, int | None]]:
        """Name, place and value of every `#define N 32` and `const int N = 32`."""
        for macro in self.source.macros:
            body = [t for t in self.tokens[macro.start : macro.end] if not t.blank]
            if not macro.parameters and len(body) in (1, 3):
                value = number(body[len(body) // 2])
                yield macro.name, macro.start, value
        for index, token in enumerate(self.tokens):
            if token.text != "=" or token.directive:
                continue
            value_at = following(self.tokens, index)
            after = following(self.tokens, value_at) if value_at < len(self.tokens) else value_at
            name = previous(self.tokens, index)
            if after >= len(self.tokens) or name < 0 or self.tokens[after].text not in (";", ","):
                continue
            if self.tokens[name].kind is Kind.WORD and self._is_constant(name):
                yield self.tokens[name].text, name, number(self.tokens[value_at])

    def _is_constant(self, name: int) -> bool:
        place = name
        for _ in range(8):
            place = previous(self.tokens, place)
            if place < 0 or self.tokens[place].text in (";", "{", "}", "("):
                return False
            if self.tokens[place].text in ("const", "constexpr"):
                return True
        return False

    def constants(self) -> Iterator[Remark]:
        guarded = self._by_arch()
        for name, index, value in self.named_constants():
            if value == 32 and _WARP_NAME.match(name) and index not in guarded:
                yield self.remark(
                    index, f"{name} is 32: a warp has {self.lanes} lanes here; use warpSize"
                )

    def _by_arch(self) -> set[int]:
        found: set[int] = set()
        stack: list[tuple[int, bool]] = []
        for directive in directives(self.tokens):
            if directive.name in ("if", "ifdef", "ifndef"):
                words = {t.text for t in self.tokens[directive.start : directive.end]}
                stack.append((directive.end, bool(words & _AWARE)))
            elif directive.name == "endif" and stack:
                start, aware = stack.pop()
                if aware:
                    found.update(range(start, directive.start))
        return found

    def function(self, function: Function) -> Iterator[Remark]:
        assert function.body is not None
        low, high = function.body
        found = [*self._lanes(low, high), *self._loops(low, high), *self._calls(low, high)]
        aware = any(t.text == "warpSize" for t in self.tokens[low:high])
        found += self._masks(low, high) if found or not aware else []
        yield from found

    def is_32(self, index: int) -> bool:
        token = self.tokens[index]
        return number(token) == 32 or token.text in self.names

    def _operand_is_thread(self, operator: int) -> bool:
        """Whether what stands before it names threads: `threadIdx.x`, `tid`, `(lane + 1)`."""
        place = previous(self.tokens, operator)
        for _ in range(8):
            if place < 0 or self.tokens[place].text in (";", "{", "}", ",", "="):
                return False
            if self.tokens[place].kind is Kind.WORD and _THREAD.search(self.tokens[place].text):
                return True
            if self.tokens[place].text not in (".", ")", "x", "y", "z", "+", "1", "(", "-", "&"):
                return False
            place = previous(self.tokens, place)
        return False

    def _lanes(self, low: int, high: int) -> Iterator[Remark]:
        """`& 31`, `% 32`, `/ 32`, `>> 5`, `< 32` of a thread's number."""
        for index in range(low, high):
            if self.tokens[index].kind is not Kind.PUNCTUATION:
                continue
            text, last = self._operator(index)
            operand = following(self.tokens, last)
            wanted = _OPERATORS.get(text)
            if wanted is None or operand >= high or not self._operand_is_thread(index):
                continue
            value = number(self.tokens[operand])
            if text in ("%", "/", "<", "<=", ">=", "==") and self.is_32(operand):
                value = 32
            if value not in wanted:
                continue
            text += f" {self.tokens[operand].text}"
            yield self.remark(
                index, f"`{text}` of a thread's number: lanes and warps are counted by 32"
            )

    def _operator(self, index: int) -> tuple[str, int]:
        """Its text and last token: the lexer keeps `>` apart, for template arguments."""
        text = self.tokens[index].text
        if text == ">" and index + 1 < len(self.tokens) and self.tokens[index + 1].text == ">":
            return ">>", index + 1
        return text, index

    def _loops(self, low: int, high: int) -> Iterator[Remark]:
        """`for (int offset = 16; ...)` around shuffles."""
        words = {t.text for t in self.tokens[low:high]}
        if not any(_SHUFFLE.match(word) for word in words):
            return
        for index in range(low, high):
            if self.tokens[index].text != "for":
                continue
            opener = following(self.tokens, index)
            close = match_forward(self.tokens, opener) if opener < high else None
            if close is None:
                continue
            head = [t for t in self.tokens[opener:close] if not t.blank]
            start = next((i for i, t in enumerate(head) if t.text == "="), None)
            if start is None or not self._starts_at_16(head[start + 1 : start + 5]):
                continue
            yield self.remark(index, f"offsets start at 16: half of 32 lanes, not of {self.lanes}")

    def _starts_at_16(self, tokens: list[Token]) -> bool:
        if not tokens:
            return False
        if number(tokens[0]) == 16:
            return True
        half = len(tokens) > 2 and tokens[1].text in ("/", ">>") and number(tokens[2]) in (1, 2)
        return half and (number(tokens[0]) == 32 or tokens[0].text in self.names)

    def _calls(self, low: int, high: int) -> Iterator[Remark]:
        for index in range(low, high):
            token = self.tokens[index]
            if token.kind is not Kind.WORD:
                continue
            if _VOTE.match(token.text):
                yield self.remark(
                    index, f"{token.text} gives 32 bits, which do not hold {self.lanes} lanes"
                )
            elif _WHOLE.match(token.text) and token.text != "__syncwarp":
                yield self.remark(index, f"{token.text} spans {self.lanes} lanes, not 32")
            elif _SHUFFLE.match(token.text):
                yield from self._shuffle(index)
            elif token.text in ("tiled_partition", "thread_block_tile") and self._is_tile(index):
                yield self.remark(index, f"a tile of 32 is a quarter of a warp of {self.lanes}")

    def _is_tile(self, index: int) -> bool:
        opener = following(self.tokens, index)
        size = following(self.tokens, opener) if opener < len(self.tokens) else opener
        return size < len(self.tokens) and self.tokens[opener].text == "<" and self.is_32(size)

    def _shuffle(self, index: int) -> Iterator[Remark]:
        """An offset or a lane that only fits 32 lanes, where no width says that 32 are meant."""
        opener = following(self.tokens, index)
        close = match_forward(self.tokens, opener) if opener < len(self.tokens) else None
        if close is None:
            return
        parts = split_top_level(self.tokens, opener + 1, close)
        if len(parts) != 3:
            return  # four arguments: the width is given
        words = [t for t in self.tokens[parts[2][0] : parts[2][1]] if not t.blank]
        value = number(words[0]) if len(words) == 1 else None
        direct = self.tokens[index].text == "__shfl_sync"
        if direct and value in (0, 31):
            yield self.remark(
                index, f"lane {value} is one of {self.lanes}: give the width, or count by warpSize"
            )
        elif not direct and value == 16:
            yield self.remark(index, f"offset 16 is half of 32 lanes, not of {self.lanes}")

    def _masks(self, low: int, high: int) -> Iterator[Remark]:
        for index in range(low, high):
            token = self.tokens[index]
            if not (_SHUFFLE.match(token.text) or token.text.endswith("_sync")):
                continue
            mask = following(self.tokens, following(self.tokens, index))
            if mask >= high:
                continue
            text = self.tokens[mask].text
            if re.sub(r"[uUlL]+$", "", text.lower()) in _FULL or text in self.full:
                yield self.remark(index, f"the mask {text} has 32 bits, a warp {self.lanes} lanes")
                return


_OPERATORS: dict[str, tuple[int, ...]] = {
    "&": (31,),
    "%": (32,),
    "/": (32,),
    ">>": (5,),
    "<": (32,),
    "<=": (31,),
    ">=": (32,),
    "==": (31,),
}
