"""Integer index expressions with the simplifications that make views and broadcasting free.

An expression is a sum of atoms with `Num` factors. An atom is a named variable with a known extent,
or the quotient or remainder of an expression by a `Num`. Every identity used holds at both sets of
shapes. All sub-expressions that are divided are non-negative, so C++ division is floor division.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from musaagent.policies.builtin.sizes import ONE, ZERO, Num, Shape, num, strides_of


@dataclass(frozen=True)
class Variable:
    """A C++ integer in [0, extent). level: how deep in the kernel's loops it is defined."""

    name: str
    extent: Num
    level: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Quotient:
    of: "Index"
    by: Num


@dataclass(frozen=True)
class Remainder:
    of: "Index"
    by: Num


Atom = Variable | Quotient | Remainder


@dataclass(frozen=True)
class Index:
    """const + sum of factor * atom, simplified when made by `_sum`."""

    terms: frozenset[tuple[Atom, Num]]
    const: Num = ZERO

    def __add__(self, other: "Index | Num | int") -> "Index":
        o = index(other)
        merged = dict(self.terms)
        for atom, factor in o.terms:
            merged[atom] = merged.get(atom, ZERO) + factor
        return _sum(merged, self.const + o.const)

    def __sub__(self, other: "Index | Num | int") -> "Index":
        return self + index(other) * -1

    def __mul__(self, factor: Num | int) -> "Index":
        f = num(factor)
        return _sum({a: c * f for a, c in self.terms}, self.const * f)

    def __floordiv__(self, by: Num | int) -> "Index":
        return _quotient(self, num(by))

    def __mod__(self, by: Num | int) -> "Index":
        return _remainder(self, num(by))

    @cached_property
    def level(self) -> int:
        return max((_level(a) for a, _ in self.terms), default=0)

    @cached_property
    def least(self) -> Num:
        return _bound(self, low=True)

    @cached_property
    def most(self) -> Num:
        return _bound(self, low=False)

    @property
    def is_zero(self) -> bool:
        return not self.terms and self.const == ZERO

    def text(self, size: Callable[[Num], str]) -> str:
        """C++ text; size() names a Num in the kernel."""
        parts = [_term(a, f, size) for a, f in sorted(self.terms, key=_order)]
        if self.const != ZERO or not parts:
            parts.append(size(self.const))
        return " + ".join(parts)

    def substitute(self, values: Mapping[Variable, "Index"]) -> "Index":
        out = index(self.const)
        for atom, factor in self.terms:
            out = out + _replaced(atom, values) * factor
        return out


def index(value: Index | Num | int) -> Index:
    return value if isinstance(value, Index) else Index(frozenset(), num(value))


def variable(name: str, extent: Num | int, level: int = 0) -> Index:
    """A loop variable as an index; one of extent 1 is the constant 0."""
    n = num(extent)
    if n == ONE:
        return index(0)
    return Index(frozenset({(Variable(name, n, level), ONE)}))


def linear(at: Sequence[Index], shape: Shape) -> Index:
    """The row-major position of coordinates."""
    total = index(0)
    for i, step in zip(at, strides_of(shape), strict=True):
        total = total + i * step
    return total


def coordinates(position: Index, shape: Shape) -> tuple[Index, ...]:
    """The coordinates of a row-major position: the inverse of `linear`."""
    out = []
    for n, step in zip(shape, strides_of(shape), strict=True):
        out.append(index(0) if n == ONE else (position // step) % n)
    return tuple(out)


def _sum(terms: dict[Atom, Num], const: Num) -> Index:
    kept = {a: f for a, f in terms.items() if f != ZERO}
    while (folded := _fold(kept)) is not None:
        kept, extra = folded
        if extra:
            const = const + extra
    return Index(frozenset(kept.items()), const)


def _fold(terms: dict[Atom, Num]) -> tuple[dict[Atom, Num], Num] | None:
    """One use of (e / m) * m + e % m = e, or ((e / a) % b) * a + e % a = e % (a * b)."""
    for atom, factor in terms.items():
        if not isinstance(atom, Remainder):
            continue
        whole = terms.get(Quotient(atom.of, atom.by))
        if whole == factor * atom.by:
            rest = {a: f for a, f in terms.items() if a not in (atom, Quotient(atom.of, atom.by))}
            return _added(rest, atom.of * factor)
        for other, scale in terms.items():
            if not isinstance(other, Remainder) or scale != factor * atom.by:
                continue
            if other.of == _quotient(atom.of, atom.by):
                rest = {a: f for a, f in terms.items() if a not in (atom, other)}
                return _added(rest, _remainder(atom.of, atom.by * other.by) * factor)
    return None


def _added(rest: dict[Atom, Num], extra: Index) -> tuple[dict[Atom, Num], Num]:
    for atom, factor in extra.terms:
        rest[atom] = rest.get(atom, ZERO) + factor
    return {a: f for a, f in rest.items() if f != ZERO}, extra.const


def _single(e: Index) -> Atom | None:
    if len(e.terms) == 1 and e.const == ZERO:
        (atom, factor), *_ = e.terms
        return atom if factor == ONE else None
    return None


def _divided(e: Index, by: Num) -> tuple[Index, Index]:
    """e = by * first + second, with every term and constant of second not a multiple of by."""
    whole = {a: f // by for a, f in e.terms if by.divides(f)}
    rest = {a: f for a, f in e.terms if not by.divides(f)}
    if by.divides(e.const):
        return _sum(whole, e.const // by), _sum(rest, ZERO)
    return _sum(whole, ZERO), _sum(rest, e.const)


def _inside(e: Index, by: Num) -> bool:
    return e.least >= ZERO and e.most < by


def _common(rest: Index, by: Num) -> tuple[Num, Index, Index] | None:
    """A factor g of by with rest = g * part + small and 0 <= small < g."""
    for _, g in sorted(rest.terms, key=lambda t: -t[1].own):
        if g != ONE and g >= ONE and g.divides(by):
            part, small = _divided(rest, g)
            if _inside(small, g) and part.terms:
                return g, part, small
    return None


def _quotient(e: Index, by: Num) -> Index:
    if by == ONE:
        return e
    whole, rest = _divided(e, by)
    if _inside(rest, by):
        return whole
    if not (rest.least >= ZERO):  # C++ truncates: keep the dividend non-negative
        whole, rest = index(0), e
    if (found := _common(rest, by)) is not None:
        g, part, _ = found
        return whole + _quotient(part, by // g)
    atom = _single(rest)
    if isinstance(atom, Quotient):
        return whole + _quotient(atom.of, atom.by * by)
    if isinstance(atom, Remainder) and by.divides(atom.by):
        return whole + _remainder(_quotient(atom.of, by), atom.by // by)
    return whole + Index(frozenset({(Quotient(rest, by), ONE)}))


def _remainder(e: Index, by: Num) -> Index:
    if by == ONE:
        return index(0)
    _, rest = _divided(e, by)
    if _inside(rest, by):
        return rest
    if not (rest.least >= ZERO):
        rest = e
    if (found := _common(rest, by)) is not None:
        g, part, small = found
        return _remainder(part, by // g) * g + small
    atom = _single(rest)
    if isinstance(atom, Remainder) and by.divides(atom.by):
        return _remainder(atom.of, by)
    return Index(frozenset({(Remainder(rest, by), ONE)}))


def _level(atom: Atom) -> int:
    return atom.level if isinstance(atom, Variable) else atom.of.level


def _range(atom: Atom) -> tuple[Num, Num]:
    """Least and greatest value of an atom."""
    if isinstance(atom, Variable):
        return ZERO, atom.extent - 1
    if isinstance(atom, Remainder):
        return ZERO, atom.by - 1
    return atom.of.least // atom.by, atom.of.most // atom.by


def _bound(e: Index, low: bool) -> Num:
    total = e.const
    for atom, factor in e.terms:
        ends = [end * factor for end in _range(atom)]
        a, b = ends
        total = total + a.each(b, min if low else max)
    return total


def _replaced(atom: Atom, values: Mapping[Variable, Index]) -> Index:
    if isinstance(atom, Variable):
        return values.get(atom, Index(frozenset({(atom, ONE)})))
    inner = atom.of.substitute(values)
    return inner // atom.by if isinstance(atom, Quotient) else inner % atom.by


def _order(term: tuple[Atom, Num]) -> tuple[int, int, str]:
    atom, factor = term
    return (_level(atom), -factor.own, str(atom))


def _term(atom: Atom, factor: Num, size: Callable[[Num], str]) -> str:
    if isinstance(atom, Variable):
        text = atom.name
    else:
        sign = "/" if isinstance(atom, Quotient) else "%"
        text = f"({_wrapped(atom.of, size)} {sign} {size(atom.by)})"
    return text if factor == ONE else f"{text} * {size(factor)}"


def _wrapped(e: Index, size: Callable[[Num], str]) -> str:
    text = e.text(size)
    return text if len(e.terms) == 1 and e.const == ZERO and " " not in text else f"({text})"
