"""The values that lowering makes: tensors described by how one element of them is computed.

`Leaf` lies in memory. `Pointwise` is recomputed wherever it is read, so views, broadcasts and
elementwise chains cost nothing until a kernel stores them. `Reduced`, `Scanned` and a family's own
`Custom` need a kernel of their own shape; `fuse.py` decides which.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from musaagent.policies.builtin.body import Body, Coordinates, NeedsBuffer, Scalar
from musaagent.policies.builtin.index import Index, linear, variable
from musaagent.policies.builtin.sizes import ZERO, Num, Shape, product

if TYPE_CHECKING:
    from musaagent.policies.builtin.kernel import Epilogue, Program
    from musaagent.policies.builtin.reducers import Reducer
    from musaagent.policies.builtin.schedule import Schedule


class Value(ABC):
    """A tensor. Identity is object identity."""

    def __init__(self, shape: Iterable[Num], dtype: str, sources: Sequence["Value"] = ()) -> None:
        self.shape: Shape = tuple(shape)
        self.dtype = dtype
        self.sources = tuple(sources)

    @property
    def numel(self) -> Num:
        return product(self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @abstractmethod
    def compute(self, body: Body, at: Coordinates) -> Scalar:
        """Write the code for one element. Raises NeedsBuffer where it needs a kernel first."""

    def __repr__(self) -> str:
        sizes = ", ".join(str(n.own) for n in self.shape)
        return f"{type(self).__name__}({self.dtype}[{sizes}])"


class Leaf(Value):
    """A contiguous tensor in memory, known in C++ by its name."""

    def __init__(self, name: str, shape: Iterable[Num], dtype: str, origin: str = "") -> None:
        """origin: the graph's name of an argument."""
        super().__init__(shape, dtype)
        self.name, self.origin = name, origin

    def compute(self, body: Body, at: Coordinates) -> Scalar:
        return body.load(self, linear(at, self.shape))


class Pointwise(Value):
    """element(body, at): the code of one element, from elements of the sources."""

    def __init__(
        self,
        shape: Iterable[Num],
        dtype: str,
        sources: Sequence[Value],
        element: Callable[[Body, Coordinates], Scalar],
        view: bool = False,
        weight: int = 1,
    ) -> None:
        super().__init__(shape, dtype, sources)
        self._element = element
        self.view = view
        """It only moves elements: an index map and nothing else."""
        self.weight = weight
        """Rough cost of one element, in additions."""

    def compute(self, body: Body, at: Coordinates) -> Scalar:
        return self._element(body, at)


class Reduction:
    """A reduction of same-shaped sources over some dims; its fields are `Reduced` values."""

    def __init__(self, sources: Sequence[Value], dims: Sequence[int], reducer: "Reducer") -> None:
        self.sources = tuple(sources)
        self.dims = tuple(sorted(dims))
        self.reducer = reducer
        shape = sources[0].shape
        self.kept: Shape = tuple(n for d, n in enumerate(shape) if d not in self.dims)
        self.reduced: Shape = tuple(shape[d] for d in self.dims)
        self.fields = tuple(Reduced(self, k) for k in range(len(reducer.results)))

    @property
    def shape(self) -> Shape:
        return self.sources[0].shape


class Reduced(Value):
    """One result of a reduction; its shape is the kept dims."""

    def __init__(self, reduction: Reduction, field: int) -> None:
        super().__init__(reduction.kept, reduction.reducer.results[field], reduction.sources)
        self.reduction = reduction
        self.field = field

    def compute(self, body: Body, at: Coordinates) -> Scalar:
        raise NeedsBuffer(self)


class Custom(Value):
    """A family's own kernel, as a matrix product, a convolution, a pooling.

    Subclass it, set `sources` through the constructor, and write `emit`.
    """

    outputs: tuple["Further", ...] = ()
    """The further results of the same kernel, where there are several (as pooling's indices)."""

    @property
    def first(self) -> "Custom":
        """The result that emits the kernel."""
        return self

    def further(self, shape: Iterable[Num], dtype: str) -> "Further":
        """One more result of this kernel, indexed like the first."""
        made = Further(shape, dtype, self)
        self.outputs = (*self.outputs, made)
        return made

    def buffers(self) -> tuple[Value, ...]:
        """What must lie in memory before the kernel: by default all sources, views looked through.

        A source left out is read by `body.read` with whatever it computes fused in.
        """
        return tuple(base(s) for s in self.sources)

    @abstractmethod
    def emit(self, program: "Program", out: "Epilogue", schedule: "Schedule") -> None:
        """Write the kernel or kernels: every element goes through `out.store` exactly once."""

    def compute(self, body: Body, at: Coordinates) -> Scalar:
        raise NeedsBuffer(self)


class Further(Custom):
    """A further result of another value's kernel. Its shape has as many elements as the first."""

    def __init__(self, shape: Iterable[Num], dtype: str, first: Custom) -> None:
        super().__init__(shape, dtype, first.sources)
        self._first = first

    @property
    def first(self) -> Custom:
        return self._first

    def emit(self, program: "Program", out: "Epilogue", schedule: "Schedule") -> None:
        raise AssertionError("the first result emits the kernel")


class Affine:
    """An element of a value is `leaf[offset + sum(strides[k] * at[k])]`."""

    def __init__(self, leaf: Leaf, strides: Shape, offset: Num) -> None:
        self.leaf, self.strides, self.offset = leaf, strides, offset


Memory = Callable[[Value], Leaf | None]


class _Found(Exception):
    def __init__(self, leaf: Leaf, position: Index) -> None:
        self.leaf, self.position = leaf, position


class _Probe(Body):
    """Asks a value where it loads from, and writes nothing."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def read(self, value: Value, at: Sequence[Index]) -> Scalar:
        leaf = self._memory(value)
        return (leaf or value).compute(self, tuple(at))

    def load(self, leaf: Leaf, position: Index) -> Scalar:
        raise _Found(leaf, position)


def base(value: Value) -> Value:
    """The value that views only rearrange (a view of several, as `cat`, is its own base)."""
    while isinstance(value, Pointwise) and value.view and len(value.sources) == 1:
        value = value.sources[0]
    return value


def affine(value: Value, memory: Memory) -> Affine | None:
    """Where an element lies, if the value is in memory, or views of a value that is; else None.

    Contiguous, transposed, sliced, expanded and flipped tensors are affine.
    """
    v = value
    while memory(v) is None:
        if not isinstance(v, Pointwise) or not v.view or len(v.sources) != 1:
            return None
        v = v.sources[0]
    at = tuple(variable(f"a{k}", n) for k, n in enumerate(value.shape))
    try:
        _Probe(memory).read(value, at)
    except _Found as found:
        return _strides(at, found)
    return None


def _strides(at: Coordinates, found: _Found) -> Affine | None:
    factors = dict(found.position.terms)
    strides = []
    for coordinate in at:
        if coordinate.is_zero:
            strides.append(ZERO)
            continue
        ((atom, _),) = coordinate.terms
        strides.append(factors.pop(atom, ZERO))
    return None if factors else Affine(found.leaf, tuple(strides), found.position.const)
