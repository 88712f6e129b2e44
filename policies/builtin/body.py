"""The text of one kernel while it is written: typed scalars, scopes, common subexpressions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from musaagent.policies.builtin.dialect import register_type
from musaagent.policies.builtin.index import Index, coordinates, index, linear, variable
from musaagent.policies.builtin.sizes import Num, Real

if TYPE_CHECKING:
    from musaagent.policies.builtin.ir import Leaf, Value
    from musaagent.policies.builtin.kernel import Kernel


@dataclass(frozen=True)
class Scalar:
    """A C++ expression without side effects, cheap to repeat: a variable or a literal."""

    text: str
    ctype: str
    level: int = 0


Coordinates = tuple[Index, ...]


class NeedsBuffer(Exception):
    """A value cannot be had inside the kernel being written: it must be in memory before."""

    def __init__(self, value: "Value") -> None:
        super().__init__(f"{value} must be in memory")
        self.value = value


@dataclass
class Scope:
    lines: list[str] = field(default_factory=list)
    cache: dict[tuple[str, str], Scalar] = field(default_factory=dict)


class Body:
    """Writes scalars into the scope where everything that they depend on is known.

    Scope 0 is the thread's own, scope k the k-th loop in it. `Variable.level` says in which scope
    an index variable lives, so whatever does not depend on the innermost loop leaves it.
    """

    def __init__(self, kernel: "Kernel") -> None:
        self.kernel = kernel
        self.scopes = [Scope()]
        self._bound: dict[Value, tuple[Coordinates, Scalar]] = {}
        self._guards: list[Scalar] = []
        self._vectors: dict[Leaf, tuple[Index, str]] = {}

    # --- scalars -------------------------------------------------------------------------------

    def let(self, text: str, ctype: str, *uses: "Scalar | Index") -> Scalar:
        """A constant with that value, in the outermost scope that knows all it uses."""
        level = min(max((u.level for u in uses), default=0), len(self.scopes) - 1)
        for scope in self.scopes[: level + 1]:
            if (known := scope.cache.get((text, ctype))) is not None:
                return known
        scalar = Scalar(self.kernel.fresh("v"), ctype, level)
        self.scopes[level].lines.append(f"const {ctype} {scalar.text} = {text};")
        self.scopes[level].cache[text, ctype] = scalar
        return scalar

    def cast(self, value: Scalar, ctype: str) -> Scalar:
        if value.ctype == ctype:
            return value
        if ctype == "bool":
            return self.let(f"{value.text} != 0", "bool", value)
        return self.let(f"static_cast<{ctype}>({value.text})", ctype, value)

    def constant(self, value: "float | int | bool | Num | Real", ctype: str) -> Scalar:
        if isinstance(value, Num):
            text = f"static_cast<{ctype}>({self.kernel.size(value)})"
        elif isinstance(value, Real):
            text = f"static_cast<{ctype}>({self.kernel.real(value)})"
        else:
            text = literal(value, ctype)
        return Scalar(text, ctype)

    def position(self, at: Index) -> str:
        """The C++ text of an index expression."""
        return at.text(self.kernel.size)

    def as_scalar(self, at: Index, ctype: str = "int64_t") -> Scalar:
        """An index as a value, for arange, comparisons of coordinates and the like."""
        return self.let(f"static_cast<{ctype}>({self.position(at)})", ctype, at)

    def index_of(self, text: str, extent: Num, *uses: Scalar | Index) -> Index:
        """A computed integer in [0, extent) as an index."""
        made = self.let(f"static_cast<index_t>({text})", "index_t", *uses)
        return variable(made.text, extent, made.level)

    def line(self, text: str) -> None:
        self.scopes[-1].lines.append(text)

    # --- values --------------------------------------------------------------------------------

    def read(self, value: "Value", at: Sequence[Index]) -> Scalar:
        """The value's element. Raises NeedsBuffer where it cannot be had here."""
        where = tuple(at)
        value = self.kernel.program.current(value)
        if (bound := self._bound.get(value)) is not None and bound[0] == where:
            return bound[1]
        if (leaf := self.kernel.memory(value)) is not None:
            return self.load(leaf, linear(where, leaf.shape))
        return value.compute(self, where)

    def bind(self, value: "Value", at: Sequence[Index], scalar: Scalar) -> None:
        """From here on the value's element at those coordinates is that scalar."""
        self._bound[value] = (tuple(at), scalar)

    def load(self, leaf: "Leaf", position: Index) -> Scalar:
        ctype = register_type(leaf.dtype)
        if leaf in self.kernel.program.written:
            return self._load_changing(leaf, position, ctype)
        if (vector := self._vectors.get(leaf)) is not None and vector[0] == position:
            return self.let(self.kernel.up(vector[1], leaf.dtype), ctype, position)
        element = f"{self.kernel.pointer(leaf)}[{self.position(position)}]"
        text = self.kernel.up(element, leaf.dtype)
        if self._guards:
            text = f"{' && '.join(g.text for g in self._guards)} ? {text} : {literal(0, ctype)}"
        return self.let(text, ctype, position, *self._guards)

    def _load_changing(self, leaf: "Leaf", position: Index, ctype: str) -> Scalar:
        """A load that stays where it is read: another thread may have stored at a position by the
        time that this one, having no element of its own, would load ahead of its loop."""
        element = f"{self.kernel.pointer(leaf)}[{self.position(position)}]"
        scalar = Scalar(self.kernel.fresh("v"), ctype, len(self.scopes) - 1)
        self.line(f"const {ctype} {scalar.text} = {self.kernel.up(element, leaf.dtype)};")
        return scalar

    def preload(self, leaf: "Leaf", position: Index, element: str) -> None:
        """Loads of leaf at exactly that position are the given text (a lane of a vector)."""
        self._vectors[leaf] = (position, element)

    def forget_preloads(self) -> None:
        self._vectors.clear()

    def store(self, leaf: "Leaf", position: Index, value: Scalar) -> None:
        stored = self.kernel.down(value, leaf.dtype)
        self.line(f"{self.kernel.pointer(leaf, write=True)}[{self.position(position)}] = {stored};")

    @contextmanager
    def guard(self, condition: Scalar) -> Iterator[None]:
        """Loads inside happen only where the condition holds; elsewhere they give 0."""
        self._guards.append(condition)
        try:
            yield
        finally:
            self._guards.pop()

    # --- scopes --------------------------------------------------------------------------------

    @contextmanager
    def inner(self) -> Iterator[Scope]:
        """A nested scope: a loop's body. The caller puts its lines where they belong."""
        scope = Scope()
        self.scopes.append(scope)
        try:
            yield scope
        finally:
            self.scopes.pop()

    def block(self, head: str, scope: Scope) -> None:
        """Writes `head { lines }` into the current scope."""
        for text in f"{head} {{".split("\n"):
            self.line(text)
        self.scopes[-1].lines.extend(f"  {text}" for text in scope.lines)
        self.line("}")


def reshaped(at: Sequence[Index], shape: tuple[Num, ...], to: tuple[Num, ...]) -> Coordinates:
    """The coordinates in `to` of the element at `at` in `shape`, both contiguous."""
    if shape == to:
        return tuple(index(i) for i in at)
    return coordinates(linear(at, shape), to)


def literal(value: float | int | bool, ctype: str) -> str:
    """A C++ literal of that type."""
    if ctype == "bool":
        return "true" if value else "false"
    if ctype not in ("float", "double"):
        whole = int(value)
        if whole == -(2**63):
            return "(-9223372036854775807LL - 1)"
        return f"int64_t({whole}LL)" if ctype == "int64_t" else f"{ctype}({whole})"
    v = float(value)
    if v != v:
        return f"{ctype}(NAN)"
    if v in (float("inf"), float("-inf")):
        return f"{ctype}({'-' if v < 0 else ''}INFINITY)"
    text = f"{v!r}f" if ctype == "float" else repr(v)
    return f"({text})" if v < 0 else text
