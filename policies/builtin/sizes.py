"""Sizes that hold at two sets of shapes: the task's own and the scaled ones it is verified at.

A candidate runs at both. So a number of the graph is a pair, arithmetic works on both halves, and
two numbers are equal where both halves are. A pair of equal halves is a literal in the source; any
other becomes a run-time expression over the dimensions of the tensors that come in.
"""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


class Refusal(Exception):
    """The builtin policy cannot write this task; str() is the reason: `PolicyAnswer.refusal`."""


@dataclass(frozen=True)
class Num:
    """An integer at own shapes and at scaled shapes, and the host expression that gives it."""

    own: int
    scaled: int
    expr: str = field(default="", compare=False)

    @property
    def literal(self) -> bool:
        return self.own == self.scaled

    @property
    def host(self) -> str:
        """C++ text, valid where the host function's dimensions are in scope."""
        return str(self.own) if self.literal else self.expr

    @property
    def halves(self) -> tuple[int, int]:
        return self.own, self.scaled

    def __add__(self, other: "Num | int") -> "Num":
        o = num(other)
        if ZERO in (self, o):
            return o if self == ZERO else self
        return _made(self.own + o.own, self.scaled + o.scaled, f"({self.host} + {o.host})")

    def __sub__(self, other: "Num | int") -> "Num":
        o = num(other)
        return _made(self.own - o.own, self.scaled - o.scaled, f"({self.host} - {o.host})")

    def __mul__(self, other: "Num | int") -> "Num":
        o = num(other)
        if o == ONE:
            return self
        if self == ONE:
            return o
        return _made(self.own * o.own, self.scaled * o.scaled, f"({self.host} * {o.host})")

    def __floordiv__(self, other: "Num | int") -> "Num":
        o = num(other)
        if o == ONE:
            return self
        return _made(self.own // o.own, self.scaled // o.scaled, f"({self.host} / {o.host})")

    def __neg__(self) -> "Num":
        return ZERO - self

    def __lt__(self, other: "Num | int") -> bool:
        o = num(other)
        return self.own < o.own and self.scaled < o.scaled

    def __le__(self, other: "Num | int") -> bool:
        o = num(other)
        return self.own <= o.own and self.scaled <= o.scaled

    def divides(self, other: "Num") -> bool:
        """Whether other is a multiple of self, at both sets of shapes."""
        if 0 in self.halves:
            return False
        return other.own % self.own == 0 and other.scaled % self.scaled == 0

    def ceil_div(self, other: "Num | int") -> "Num":
        return (self + num(other) - 1) // other


def _made(own: int, scaled: int, expr: str) -> Num:
    return Num(own, scaled, str(own) if own == scaled else expr)


def num(value: "Num | int") -> Num:
    return value if isinstance(value, Num) else Num(value, value, str(value))


ZERO, ONE = num(0), num(1)
Shape = tuple[Num, ...]


def product(nums: Iterable[Num]) -> Num:
    return math.prod(nums, start=ONE)


def strides_of(shape: Shape) -> Shape:
    """Strides of a contiguous tensor of that shape."""
    out: list[Num] = []
    step = ONE
    for n in reversed(shape):
        out.append(step)
        step = step * n
    return tuple(reversed(out))


@dataclass(frozen=True)
class Real:
    """A floating-point number that differs between the two sets of shapes."""

    own: float
    scaled: float
    expr: str = field(compare=False)


class Symbols:
    """Finds run-time expressions for the numbers of a pair of traces."""

    def __init__(self, dimensions: Mapping[str, tuple[int, int]]) -> None:
        """dimensions: host expression -> its value at own and at scaled shapes."""
        self._known: dict[tuple[int, int], str] = {}
        for expr, pair in dimensions.items():
            if pair[0] != pair[1]:
                self._known.setdefault(pair, expr)

    def integer(self, own: int, scaled: int, what: str = "a number of the graph") -> Num:
        """Raises Refusal where no expression over the dimensions fits both values."""
        if own == scaled:
            return num(own)
        expr = self._search(own, scaled)
        if expr is None:
            raise Refusal(
                f"{what} is {own} at the task's shapes and {scaled} at the scaled ones, and no "
                "expression over the input dimensions gives both"
            )
        return Num(own, scaled, expr)

    def real(self, own: float, scaled: float) -> float | Real:
        """A float constant; a pair that differs is sought as n, 1/n, sqrt(n) or 1/sqrt(n)."""
        if own == scaled or (math.isnan(own) and math.isnan(scaled)):
            return own
        shapes = (
            (lambda v: v, "double({})"),
            (lambda v: 1 / v, "1.0 / double({})"),
            (lambda v: v * v, "sqrt(double({}))"),
            (lambda v: 1 / (v * v), "1.0 / sqrt(double({}))"),
        )
        for back, text in shapes:
            if own == 0 or scaled == 0:
                break
            a, b = round(back(own)), round(back(scaled))
            if not (math.isclose(a, back(own), rel_tol=1e-9) and math.isclose(b, back(scaled))):
                continue
            expr = self._search(a, b)
            if expr is not None:
                return Real(own, scaled, "(" + text.format(expr) + ")")
        raise Refusal(
            f"the constant {own} becomes {scaled} at the scaled shapes: no rule fits both"
        )

    def _search(self, own: int, scaled: int) -> str | None:
        if own == scaled:
            return str(own)
        for find in (self._scaled_product, self._shifted):
            expr = find(own, scaled)
            if expr is not None:
                self._known[own, scaled] = expr
                return expr
        return None

    def _scaled_product(self, own: int, scaled: int) -> str | None:
        """A product of up to three dimensions, times or over a whole number."""
        if (own, scaled) in self._known:
            return self._known[own, scaled]
        dims = [(p, e) for p, e in self._known.items() if 0 not in p]
        for count in (1, 2, 3):
            for chosen in itertools.combinations_with_replacement(dims, count):
                a = math.prod(p[0] for p, _ in chosen)
                b = math.prod(p[1] for p, _ in chosen)
                text = " * ".join(e for _, e in chosen)
                if (a, b) == (own, scaled):
                    return f"({text})"
                if own * b == scaled * a:  # one ratio at both: a whole factor or divisor
                    if own % a == 0:
                        return f"({text} * {own // a})"
                    if own and a % own == 0:
                        return f"({text} / {a // own})"
        return self._quotient(own, scaled)

    def _quotient(self, own: int, scaled: int) -> str | None:
        for (p, e), (q, f) in itertools.permutations(self._known.items(), 2):
            exact = 0 not in q and p[0] % q[0] == 0 and p[1] % q[1] == 0
            if exact and (p[0] // q[0], p[1] // q[1]) == (own, scaled):
                return f"({e} / {f})"
        return None

    def _shifted(self, own: int, scaled: int) -> str | None:
        """A dimension times or over a small factor, plus a constant: `n - 1`, `n / 2 + 3`."""
        for up, down in ((1, 1), (2, 1), (1, 2), (3, 1), (4, 1), (1, 4)):
            for (a, b), e in self._known.items():
                u, v = a * up // down, b * up // down
                if own - u == scaled - v:
                    scale = e if up == down else f"{e} * {up} / {down}"
                    return f"({scale} + {own - u})".replace("+ -", "- ")
        return None
