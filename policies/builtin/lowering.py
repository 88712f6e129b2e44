"""The table from ATen names to functions that make values, and the walk over a pair of graphs.

A family registers with `@lowers("aten.relu.default", ...)`. The function gets a `Call` and then the
node's arguments with ATen's names and order: tensors as `Value`, integers as int (or `Num` where
they differ between the two traces), floats as float (or `Real`), dtypes as their names, devices and
layouts as None. Give it ATen's defaults: trailing arguments are left out of a trace.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from musaagent.policies.builtin.ir import Leaf, Value
from musaagent.policies.builtin.sizes import Num, Refusal, Shape, Symbols
from musaagent.tools.opgraph import GraphNode, OpGraph, TensorMeta

Lowered = Any
"""A Value, or a tuple of them for a node with several outputs."""

_TABLE: dict[str, Callable[..., Lowered]] = {}


def lowers(*names: str) -> Callable[[Callable[..., Lowered]], Callable[..., Lowered]]:
    """Register the function for these ATen names (`aten.sum.dim_IntList`)."""

    def register(function: Callable[..., Lowered]) -> Callable[..., Lowered]:
        for name in names:
            if name in _TABLE:
                raise ValueError(f"{name} is lowered twice")
            _TABLE[name] = function
        return function

    return register


@dataclass(frozen=True)
class Output:
    shape: Shape
    dtype: str


@dataclass
class Call:
    """One node while it is lowered."""

    op: str
    outputs: tuple[Output, ...]
    module: "Lowering"
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def shape(self) -> Shape:
        return self.outputs[0].shape

    @property
    def dtype(self) -> str:
        return self.outputs[0].dtype

    def refuse(self, why: str) -> Refusal:
        """For `raise call.refuse(...)`: this node is outside the family."""
        return Refusal(f"no family for {self.op}: {why}")


class Lowering:
    """Walks the two traces side by side and makes one value for each node."""

    def __init__(self, own: OpGraph, scaled: OpGraph) -> None:
        self._own, self._scaled = own, scaled
        self.values: dict[str, Lowered] = {}
        self.leaves: dict[str, Leaf] = {}
        """Argument leaves by graph name, in the order inputs, parameters, buffers, constants."""
        self.updates: dict[Leaf, Value] = {}
        """In-place changes of leaves: the value that each holds in the end."""
        self.symbols = Symbols(self._dimensions())

    def run(self) -> Any:
        """The graph's outputs with values in place of references. Raises Refusal."""
        self._leaves()
        if len(self._own.nodes) != len(self._scaled.nodes):
            raise Refusal("the traces at own and at scaled shapes have different nodes")
        for own, scaled in zip(self._own.nodes, self._scaled.nodes, strict=True):
            self.values[own.name] = self._node(own, scaled)
        return self._pair(self._own.outputs, self._scaled.outputs, "the outputs")

    def _groups(self, graph: OpGraph) -> tuple[Any, ...]:
        return (*graph.inputs, *graph.parameters, *graph.buffers, *graph.constants)

    def _dimensions(self) -> dict[str, tuple[int, int]]:
        found = {}
        for own, scaled in zip(self._groups(self._own), self._groups(self._scaled), strict=True):
            if len(own.meta.shape) != len(scaled.meta.shape):
                raise Refusal(f"{own.name} has different ranks at own and at scaled shapes")
            pairs = zip(own.meta.shape, scaled.meta.shape, strict=True)
            for d, (a, b) in enumerate(pairs):
                found[f"{own.name}.size({d})"] = (a, b)
        return found

    def _leaves(self) -> None:
        for own, scaled in zip(self._groups(self._own), self._groups(self._scaled), strict=True):
            meta = self._meta(own.meta, scaled.meta)
            self.leaves[own.name] = Leaf(own.name, meta.shape, meta.dtype)
            self.values[own.name] = self.leaves[own.name]

    def _meta(self, own: TensorMeta, scaled: TensorMeta) -> Output:
        pairs = zip(own.shape, scaled.shape, strict=True)
        shape = tuple(self.symbols.integer(a, b, "a dimension") for a, b in pairs)
        return Output(shape, own.dtype)

    def _node(self, own: GraphNode, scaled: GraphNode) -> Lowered:
        if own.op != scaled.op:
            raise Refusal("the traces at own and at scaled shapes have different nodes")
        what = f"an argument of {own.op}"
        args = self._pair(own.args, scaled.args, what)
        kwargs = self._pair(own.kwargs, scaled.kwargs, what)
        if own.op == "getitem":
            return args[0][args[1]]
        outputs = tuple(self._meta(a, b) for a, b in zip(own.outputs, scaled.outputs, strict=True))
        call = Call(own.op, outputs, self)
        function, in_place = self._function(own.op)
        try:
            result = function(call, *args, **kwargs)
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            # An argument of a kind that the family never thought of: it is outside the family.
            raise call.refuse(f"with these arguments ({error})") from error
        if in_place:
            self._rebind(own, call, args[0], result)
        return result

    def _function(self, op: str) -> tuple[Callable[..., Lowered], bool]:
        if op in _TABLE:
            return _TABLE[op], False
        space, _, rest = op.partition(".")
        name, _, overload = rest.partition(".")
        functional = f"{space}.{name[:-1]}.{overload}"
        if name.endswith("_") and functional in _TABLE:
            return _TABLE[functional], True
        raise Refusal(f"no family for {op}")

    def _rebind(self, node: GraphNode, call: Call, target: Value, result: Value) -> None:
        """After `x.op_()`, every name of x means the new value. Views of x would not follow."""
        names = [n for n, v in self.values.items() if v is target]
        views = [
            v for v in self.values.values()
            if isinstance(v, Value) and target in v.sources and getattr(v, "view", False)
        ]  # fmt: skip
        if views or getattr(target, "view", False):
            raise call.refuse("it changes a tensor in place that has views")
        leaf = target if isinstance(target, Leaf) else self._updated(target)
        if leaf is not None:
            self.updates[leaf] = result
        for name in names:
            self.values[name] = result

    def _updated(self, value: Value) -> Leaf | None:
        return next((leaf for leaf, v in self.updates.items() if v is value), None)

    def current(self, leaf: Leaf) -> Value:
        """A leaf's value now, after the in-place changes so far."""
        return self.updates.get(leaf, leaf)

    def update(self, leaf: Value, value: Value) -> None:
        """Record an in-place change that a node makes beside its result (running statistics)."""
        origin = leaf if isinstance(leaf, Leaf) else self._updated(leaf)
        if origin is None:
            raise Refusal("an in-place change of a tensor that the graph has computed itself")
        self.updates[origin] = value
        for name in [n for n, v in self.values.items() if v is leaf]:
            self.values[name] = value

    def _pair(self, own: Any, scaled: Any, what: str) -> Any:
        """One argument from its two traced forms."""
        if isinstance(own, Mapping):
            if "ref" in own:
                return self.values[own["ref"]]
            if "dtype" in own:
                return own["dtype"]
            if own.keys() & {"layout", "device", "memory_format"}:
                return None
            return {k: self._pair(v, scaled[k], what) for k, v in own.items()}
        if isinstance(own, (list, tuple)):
            if len(own) != len(scaled):
                raise Refusal(f"{what} has different lengths at own and at scaled shapes")
            made = [self._pair(a, b, what) for a, b in zip(own, scaled, strict=True)]
            return type(own)(made)
        if isinstance(own, bool) or own is None or isinstance(own, str):
            if own != scaled:
                raise Refusal(f"{what} is {own} at own shapes and {scaled} at scaled shapes")
            return own
        if isinstance(own, int) and isinstance(scaled, int):
            return own if own == scaled else self.symbols.integer(own, scaled, what)
        if isinstance(own, (int, float)):
            return self.symbols.real(float(own), float(scaled))
        raise Refusal(f"{what} is a {type(own).__name__}")


def known_ops() -> tuple[str, ...]:
    return tuple(sorted(_TABLE))


def number(value: int | Num) -> Num:
    return value if isinstance(value, Num) else Num(value, value, str(value))
