"""What a reduction keeps while it runs: its state, how an element joins, how two states merge.

All texts are C++ statements over variable names. Merging is exact in any order up to rounding, so
a reduction may be cut into pieces at will.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from musaagent.policies.builtin.body import literal
from musaagent.policies.builtin.dialect import accumulate_type, is_float, register_type
from musaagent.policies.builtin.pointwise import Types


@dataclass(frozen=True)
class Reducer(ABC):
    source: str
    """dtype of the elements."""
    results: tuple[str, ...]
    """dtypes of the fields, one for each `Reduced` value."""

    @property
    @abstractmethod
    def state(self) -> tuple[str, ...]:
        """C++ types of the state's variables."""

    @abstractmethod
    def start(self) -> tuple[str, ...]:
        """The state of no elements."""

    @abstractmethod
    def step(self, state: Sequence[str], element: Sequence[str], place: str) -> list[str]:
        """Take in one element, which stands at `place` in the reduced dims."""

    @abstractmethod
    def merge(self, state: Sequence[str], other: Sequence[str]) -> list[str]: ...

    def finish(self, state: Sequence[str]) -> tuple[str, ...]:
        """The fields, as expressions over the state."""
        return tuple(state[: len(self.results)])

    @property
    def element(self) -> tuple[str, ...]:
        """C++ types that the sources' elements are converted to."""
        return (self.state[0],)


def _finest(dtype: str, precise: bool) -> str:
    ctype = accumulate_type(dtype)
    return "double" if precise and ctype == "float" else ctype


@dataclass(frozen=True)
class Sum(Reducer):
    precise: bool = False

    @property
    def state(self) -> tuple[str, ...]:
        return (_finest(self.results[0], self.precise),)

    def start(self) -> tuple[str, ...]:
        return ("0",)

    def step(self, state: Sequence[str], element: Sequence[str], place: str) -> list[str]:
        return [f"{state[0]} += {element[0]};"]

    def merge(self, state: Sequence[str], other: Sequence[str]) -> list[str]:
        return [f"{state[0]} += {other[0]};"]


@dataclass(frozen=True)
class Product(Sum):
    def start(self) -> tuple[str, ...]:
        return ("1",)

    def step(self, state: Sequence[str], element: Sequence[str], place: str) -> list[str]:
        return [f"{state[0]} *= {element[0]};"]

    def merge(self, state: Sequence[str], other: Sequence[str]) -> list[str]:
        return [f"{state[0]} *= {other[0]};"]


@dataclass(frozen=True)
class Truth(Reducer):
    """any (one) or all (every)."""

    every: bool = False

    @property
    def state(self) -> tuple[str, ...]:
        return ("bool",)

    def start(self) -> tuple[str, ...]:
        return ("true" if self.every else "false",)

    def step(self, state: Sequence[str], element: Sequence[str], place: str) -> list[str]:
        sign = "&&" if self.every else "||"
        return [f"{state[0]} = {state[0]} {sign} {element[0]};"]

    def merge(self, state: Sequence[str], other: Sequence[str]) -> list[str]:
        return self.step(state, other, "")


def _extreme(dtype: str, largest: bool) -> str:
    """What every element beats or equals."""
    ctype = register_type(dtype)
    if is_float(dtype):
        return literal(float("-inf") if largest else float("inf"), ctype)
    if dtype == "bool":
        return "false" if largest else "true"
    bits = {"int64": 63, "int32": 31, "int16": 15, "int8": 7}.get(dtype)
    if bits is None:
        return literal(0 if largest else 255, ctype)
    return literal(-(2**bits) if largest else 2**bits - 1, ctype)


@dataclass(frozen=True)
class Extreme(Reducer):
    """max or min; NaN wins, as in torch."""

    largest: bool = True

    @property
    def state(self) -> tuple[str, ...]:
        return (register_type(self.source),)

    def start(self) -> tuple[str, ...]:
        return (_extreme(self.source, self.largest),)

    def step(self, state: Sequence[str], element: Sequence[str], place: str) -> list[str]:
        a, x = state[0], element[0]
        sign = ">" if self.largest else "<"
        nan = f" || {x} != {x}" if is_float(self.source) else ""
        return [f"{a} = ({x} {sign} {a}{nan}) ? {x} : {a};"]

    def merge(self, state: Sequence[str], other: Sequence[str]) -> list[str]:
        return self.step(state, other, "")


_NOWHERE = "9223372036854775807LL"


@dataclass(frozen=True)
class ArgExtreme(Reducer):
    """(value, place) of the first max or min; the first NaN wins, as in torch."""

    largest: bool = True

    @property
    def state(self) -> tuple[str, ...]:
        return (register_type(self.source), "int64_t")

    def start(self) -> tuple[str, ...]:
        return (_extreme(self.source, self.largest), _NOWHERE)

    def step(self, state: Sequence[str], element: Sequence[str], place: str) -> list[str]:
        return self._better(state, (element[0], f"static_cast<int64_t>({place})"))

    def merge(self, state: Sequence[str], other: Sequence[str]) -> list[str]:
        return self._better(state, other)

    def _better(self, state: Sequence[str], other: Sequence[str]) -> list[str]:
        (a, i), (x, j) = state, other
        sign = ">" if self.largest else "<"
        wins, ties = f"{x} {sign} {a}", f"{x} == {a}"
        if is_float(self.source):
            wins = f"{wins} || ({x} != {x} && {a} == {a})"
            ties = f"({ties} || ({x} != {x} && {a} != {a}))"
        return [f"if ({wins} || ({ties} && {j} < {i})) {{ {a} = {x}; {i} = {j}; }}"]


@dataclass(frozen=True)
class Place(ArgExtreme):
    """argmax or argmin: the place alone is a result."""

    def finish(self, state: Sequence[str]) -> tuple[str, ...]:
        return (state[1],)


@dataclass(frozen=True)
class Moments(Reducer):
    """(mean, sum of squared deviations), by Welford's update and Chan's merge."""

    precise: bool = False

    @property
    def state(self) -> tuple[str, ...]:
        ctype = _finest(self.results[0], self.precise)
        return (ctype, ctype, ctype)

    def start(self) -> tuple[str, ...]:
        return ("0", "0", "0")

    def step(self, state: Sequence[str], element: Sequence[str], place: str) -> list[str]:
        mean, m2, count = state
        (x,) = element
        ctype = self.state[0]
        return [
            f"{count} += {ctype}(1);",
            f"const {ctype} delta = {x} - {mean};",
            f"{mean} += delta / {count};",
            f"{m2} += delta * ({x} - {mean});",
        ]

    def merge(self, state: Sequence[str], other: Sequence[str]) -> list[str]:
        (mean, m2, count), (mean2, m22, count2) = state, other
        ctype = self.state[0]
        return [
            f"const {ctype} both = {count} + {count2};",
            f"const {ctype} share = both > 0 ? {count2} / both : {ctype}(0);",
            f"const {ctype} apart = {mean2} - {mean};",
            f"{m2} += {m22} + apart * apart * {count} * share;",
            f"{mean} += apart * share;",
            f"{count} = both;",
        ]


@dataclass(frozen=True)
class ExpSum(Reducer):
    """(max, sum of exp(x - max)) in one pass: the stable softmax's two numbers."""

    precise: bool = False

    @property
    def state(self) -> tuple[str, ...]:
        ctype = _finest(self.results[0], self.precise)
        return (ctype, ctype)

    def start(self) -> tuple[str, ...]:
        return (literal(float("-inf"), self.state[0]), "0")

    def step(self, state: Sequence[str], element: Sequence[str], place: str) -> list[str]:
        (top, total), (x,) = state, element
        t = Types(self.state[0])
        return [
            f"if ({x} > {top}) {{ {total} = {total} * {t.exp(f'{top} - {x}')} + {t(1)}; "
            f"{top} = {x}; }}",
            f"else if ({x} > {t(float('-inf'))}) {total} += {t.exp(f'{x} - {top}')};",
            f"else if ({x} != {x}) {total} = {x};",
        ]

    def merge(self, state: Sequence[str], other: Sequence[str]) -> list[str]:
        (top, total), (top2, total2) = state, other
        t = Types(self.state[0])
        mine, theirs = t.exp(f"{top} - {top2}"), t.exp(f"{top2} - {top}")
        return [
            f"if ({top2} > {top}) {{ {total} = {total} * {mine} + {total2}; {top} = {top2}; }}",
            f"else if ({top2} > {t(float('-inf'))}) {total} += {total2} * {theirs};",
            f"else {total} += {total2};",
        ]


@dataclass(frozen=True)
class Merging(Reducer):
    """The second stage of a reduction that was cut: its elements are states."""

    of: Reducer | None = None

    @property
    def whole(self) -> Reducer:
        assert self.of is not None
        return self.of

    @property
    def state(self) -> tuple[str, ...]:
        return self.whole.state

    @property
    def element(self) -> tuple[str, ...]:
        return self.whole.state

    def start(self) -> tuple[str, ...]:
        return self.whole.start()

    def step(self, state: Sequence[str], element: Sequence[str], place: str) -> list[str]:
        return self.whole.merge(state, element)

    def merge(self, state: Sequence[str], other: Sequence[str]) -> list[str]:
        return self.whole.merge(state, other)

    def finish(self, state: Sequence[str]) -> tuple[str, ...]:
        return self.whole.finish(state)


def at_accuracy(reducer: Reducer, precise: bool) -> Reducer:
    """The reducer, summing in double where asked and where it sums floats."""
    if precise and isinstance(reducer, (Sum, Moments, ExpSum)):
        return replace(reducer, precise=True)
    return reducer


STATE_DTYPE = {
    "float": "float32", "double": "float64", "int64_t": "int64", "int": "int32",
    "int16_t": "int16", "int8_t": "int8", "uint8_t": "uint8", "bool": "bool",
}  # fmt: skip
"""The dtype that keeps a state's variable in memory between two kernels."""
