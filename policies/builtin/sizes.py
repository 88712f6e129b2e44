"""Sizes that hold at every set of shapes that a candidate runs at.

A candidate is used at the task's own shapes, and verified and watched at smaller ones. So a number
of the graph has a value for each trace, arithmetic works on all of them, and two numbers are equal
where all values are. A number of equal values is a literal in the source; any other becomes a
run-time expression over the dimensions of the tensors that come in.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field


class Refusal(Exception):
    """The builtin policy cannot write this task; str() is the reason: `PolicyAnswer.refusal`."""


@dataclass(frozen=True)
class Num:
    """An integer at each set of shapes, the own ones first, and the host expression that gives it.

    Made by `num` and `Num.of`: equal values are kept as one.
    """

    values: tuple[int, ...]
    expr: str = field(default="", compare=False)

    @staticmethod
    def of(values: Sequence[int], expr: str) -> "Num":
        if len(set(values)) == 1:
            return Num((values[0],), str(values[0]))
        return Num(tuple(values), expr)

    @property
    def own(self) -> int:
        return self.values[0]

    @property
    def literal(self) -> bool:
        return len(self.values) == 1

    @property
    def host(self) -> str:
        """C++ text, valid where the host function's dimensions are in scope."""
        return self.expr

    def each(self, other: "Num | int", rule: Callable[[int, int], int], expr: str = "") -> "Num":
        """The number whose values are rule(mine, other's)."""
        return Num.of([rule(a, b) for a, b in self._beside(num(other))], expr)

    def __add__(self, other: "Num | int") -> "Num":
        o = num(other)
        if ZERO in (self, o):
            return o if self == ZERO else self
        return self.each(o, lambda a, b: a + b, f"({self.host} + {o.host})")

    def __sub__(self, other: "Num | int") -> "Num":
        o = num(other)
        return self if o == ZERO else self.each(o, lambda a, b: a - b, f"({self.host} - {o.host})")

    def __mul__(self, other: "Num | int") -> "Num":
        o = num(other)
        if ONE in (self, o):
            return o if self == ONE else self
        return self.each(o, lambda a, b: a * b, f"({self.host} * {o.host})")

    def __floordiv__(self, other: "Num | int") -> "Num":
        o = num(other)
        return self if o == ONE else self.each(o, lambda a, b: a // b, f"({self.host} / {o.host})")

    def __neg__(self) -> "Num":
        return ZERO - self

    def __lt__(self, other: "Num | int") -> bool:
        return all(a < b for a, b in self._beside(num(other)))

    def __le__(self, other: "Num | int") -> bool:
        return all(a <= b for a, b in self._beside(num(other)))

    def divides(self, other: "Num") -> bool:
        """Whether other is a multiple of self, at every set of shapes."""
        return 0 not in self.values and all(b % a == 0 for a, b in self._beside(other))

    def ceil_div(self, other: "Num | int") -> "Num":
        return (self + num(other) - 1) // other

    def _beside(self, other: "Num") -> "zip[tuple[int, int]]":
        mine, theirs = self.values, other.values
        if len(mine) < len(theirs):
            mine = mine * len(theirs)
        elif len(theirs) < len(mine):
            theirs = theirs * len(mine)
        return zip(mine, theirs, strict=True)


def num(value: "Num | int") -> Num:
    return value if isinstance(value, Num) else Num((value,), str(value))


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
    """A floating-point number that differs between the sets of shapes."""

    values: tuple[float, ...]
    expr: str = field(compare=False)


_REAL_FORMS: tuple[tuple[Callable[[float], float], str], ...] = (
    (lambda v: v, "double({})"),
    (lambda v: 1 / v, "1.0 / double({})"),
    (lambda v: v * v, "sqrt(double({}))"),
    (lambda v: 1 / (v * v), "1.0 / sqrt(double({}))"),
)
_FACTORS = range(1, 9)
"""Strides and scale factors that a dimension is tried with, beside those that the ops name."""
_MOST_FACTOR = 256
Values = tuple[int, ...]


class Symbols:
    """Finds run-time expressions for the numbers of several traces of one task."""

    def __init__(self, dimensions: Mapping[str, Sequence[int]]) -> None:
        """dimensions: host expression -> its value in each trace."""
        self._known: dict[Values, str] = {}
        self._factors = dict.fromkeys(_FACTORS)
        for expr, values in dimensions.items():
            if len(set(values)) > 1:
                self._known.setdefault(tuple(values), expr)

    def expect(self, factors: Iterable[int]) -> None:
        """Numbers that an op is called with: a dimension may be one over its stride."""
        self._factors.update(dict.fromkeys(f for f in factors if 1 <= f <= _MOST_FACTOR))

    def integer(self, values: Sequence[int], what: str = "a number of the graph") -> Num:
        """Raises Refusal where no expression over the dimensions fits all values."""
        if len(set(values)) == 1:
            return num(values[0])
        expr = self._search(tuple(values))
        if expr is None:
            shown = ", ".join(map(str, values[1:]))
            raise Refusal(
                f"{what} is {values[0]} at the task's shapes and {shown} at the scaled ones, and "
                "no expression over the input dimensions gives them all"
            )
        return Num(tuple(values), expr)

    def real(self, values: Sequence[float]) -> float | Real:
        """A float constant; one that differs is sought as n, 1/n, sqrt(n) or 1/sqrt(n)."""
        if len(set(values)) == 1 or all(map(math.isnan, values)):
            return values[0]
        for back, text in _REAL_FORMS:
            if 0 in values:
                break
            whole = tuple(round(back(v)) for v in values)
            pairs = zip(whole, values, strict=True)
            if not all(math.isclose(n, back(v), rel_tol=1e-9) for n, v in pairs):
                continue
            expr = self._search(whole)
            if expr is not None:
                return Real(tuple(values), "(" + text.format(expr) + ")")
        raise Refusal(f"the constant {values[0]} becomes {values[1:]} at the scaled shapes")

    def _search(self, wanted: Values) -> str | None:
        if len(set(wanted)) == 1:
            return str(wanted[0])
        for find in (self._known.get, self._product, self._quotient, self._shifted):
            expr = find(wanted)
            if expr is not None:
                whole = f"({expr})" if " " in expr and wanted not in self._known else expr
                return self._known.setdefault(wanted, whole)
        return None

    def _product(self, wanted: Values) -> str | None:
        """A product of up to three dimensions, times or over a whole number."""
        dims = [(v, e) for v, e in self._known.items() if 0 not in v]
        for count in (1, 2, 3):
            for chosen in itertools.combinations_with_replacement(dims, count):
                made = tuple(map(math.prod, zip(*(v for v, _ in chosen), strict=True)))
                text = " * ".join(e for _, e in chosen)
                if made == wanted:
                    return text
                if any(w * made[0] != wanted[0] * m for w, m in zip(wanted, made, strict=True)):
                    continue  # not one ratio everywhere
                if wanted[0] % made[0] == 0:
                    return f"{text} * {wanted[0] // made[0]}"
                if wanted[0] and made[0] % wanted[0] == 0:
                    return f"{f'({text})' if count > 1 else text} / {made[0] // wanted[0]}"
        return None

    def _quotient(self, wanted: Values) -> str | None:
        for (v, e), (w, f) in itertools.permutations(self._known.items(), 2):
            exact = 0 not in w and all(a % b == 0 for a, b in zip(v, w, strict=True))
            if exact and tuple(a // b for a, b in zip(v, w, strict=True)) == wanted:
                return f"{e} / {f}"
        return None

    def _shifted(self, wanted: Values) -> str | None:
        """A dimension times a factor, or over one after a shift, plus a constant.

        Covers slices (`n - 1`), halves rounded either way, and the sizes of windows and strides.
        """
        for factor in self._factors:
            for values, e in list(self._known.items()):
                found = _apart(wanted, [v * factor for v in values])
                if found is not None:
                    return _sum(f"{e} * {factor}" if factor > 1 else e, found)
                for shift in range(factor):
                    found = _apart(wanted, [(v + shift) // factor for v in values])
                    if found is not None:
                        return _sum(f"{_sum(e, shift)} / {factor}", found)
        return None


def _apart(wanted: Values, made: Sequence[int]) -> int | None:
    """The one difference between them, if it is one."""
    apart = {w - m for w, m in zip(wanted, made, strict=True)}
    return apart.pop() if len(apart) == 1 else None


def _sum(text: str, constant: int) -> str:
    if constant == 0:
        return text
    return f"({text} {'-' if constant < 0 else '+'} {abs(constant)})"
