"""The table from ATen names to functions that make values, and the walk over the graphs.

A family registers with `@lowers("aten.relu.default", ...)`. The function gets a `Call` and then the
node's arguments with ATen's names and order: tensors as `Value`, integers as int (or `Num` where
they differ between the traces), floats as float (or `Real`), dtypes as their names, devices and
layouts as None. Give it ATen's defaults: trailing arguments are left out of a trace.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from musaagent.policies.builtin.ir import Leaf, Value
from musaagent.policies.builtin.sizes import Refusal, Shape, Symbols
from musaagent.tools.opgraph import GraphNode, GraphValue, OpGraph, TensorMeta

Lowered = Any
"""A Value, or a tuple of them for a node with several outputs."""

_SAME = {
    "multiply": "mul", "subtract": "sub", "divide": "div", "true_divide": "div", "negative": "neg",
    "absolute": "abs", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
    "not_equal": "ne", "clip": "clamp", "fix": "trunc", "arccos": "acos", "arcsin": "asin",
    "arctan": "atan", "arctan2": "atan2", "arccosh": "acosh", "arcsinh": "asinh",
    "arctanh": "atanh", "special_expit": "sigmoid", "special_round": "round",
}  # fmt: skip
"""Second names of ops; those that start with special_ need none."""
_TABLE: dict[str, Callable[..., Lowered]] = {}


_Function = TypeVar("_Function", bound=Callable[..., Lowered])


def lowers(*names: str) -> Callable[[_Function], _Function]:
    """Register the function for these ATen names (`aten.sum.dim_IntList`)."""

    def register(function: _Function) -> _Function:
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
    """Walks the traces side by side and makes one value for each node."""

    def __init__(self, graphs: Sequence[OpGraph]) -> None:
        """graphs: traces of one task at several sets of shapes, the own ones first."""
        self._graphs = tuple(graphs)
        self.values: dict[str, Lowered] = {}
        self.leaves: dict[str, Leaf] = {}
        """Argument leaves by graph name, in the order inputs, parameters, buffers, constants."""
        self.updates: dict[Leaf, Value] = {}
        """In-place changes of leaves: the value that each holds in the end."""
        self._arguments = list(self._side_by_side([_arguments(g) for g in graphs]))
        self.symbols = Symbols(dict(self._dimensions()))

    def run(self) -> Any:
        """The graph's outputs with values in place of references. Raises Refusal."""
        for same in self._arguments:
            meta = self._meta([v.meta for v in same])
            name = same[0].name
            leaf = Leaf(_identifier(name), meta.shape, meta.dtype, name)
            self.values[name] = self.leaves[name] = leaf
        for nodes in self._side_by_side([g.nodes for g in self._graphs]):
            self.values[nodes[0].name] = self._node(nodes)
        return self._argument([g.outputs for g in self._graphs], "the outputs")

    def _side_by_side(self, rows: Sequence[Sequence[Any]]) -> "zip[tuple[Any, ...]]":
        if len({len(row) for row in rows}) > 1:
            raise Refusal("the traces at own and at scaled shapes have different nodes")
        return zip(*rows, strict=True)

    def _dimensions(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        for same in self._arguments:
            shapes = [v.meta.shape for v in same]
            for d, values in enumerate(self._side_by_side(shapes)):
                yield f"{_identifier(same[0].name)}.size({d})", values

    def _meta(self, metas: Sequence[TensorMeta]) -> Output:
        dims = self._side_by_side([m.shape for m in metas])
        return Output(tuple(self.symbols.integer(d, "a dimension") for d in dims), metas[0].dtype)

    def _node(self, nodes: Sequence[GraphNode]) -> Lowered:
        first = nodes[0]
        if len({n.op for n in nodes}) > 1:
            raise Refusal("the traces at own and at scaled shapes have different nodes")
        what = f"an argument of {first.op}"
        args = self._argument([n.args for n in nodes], what)
        kwargs = {k: self._argument([n.kwargs.get(k) for n in nodes], what) for k in first.kwargs}
        if first.op == "getitem":
            return args[0][args[1]]
        self.symbols.expect(_integers(args))
        metas = self._side_by_side([n.outputs for n in nodes])
        call = Call(first.op, tuple(map(self._meta, metas)), self)
        function, in_place = self._function(first.op)
        try:
            result = function(call, *args, **kwargs)
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            # An argument of a kind that the family never thought of: it is outside the family.
            raise call.refuse(f"with these arguments ({error})") from error
        if in_place:
            self._rebind(call, args[0], result)
        return result

    def _function(self, op: str) -> tuple[Callable[..., Lowered], bool]:
        if op in _TABLE:
            return _TABLE[op], False
        space, _, rest = op.partition(".")
        name, _, overload = rest.partition(".")
        in_place = name.endswith("_") and not name.endswith("__")
        plain = name.removesuffix("_") if in_place else name
        known = f"{space}.{_SAME.get(plain, plain.removeprefix('special_'))}.{overload}"
        if known in _TABLE:
            return _TABLE[known], in_place
        raise Refusal(f"no family for {op}")

    def _rebind(self, call: Call, target: Value, result: Value) -> None:
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

    def _argument(self, forms: Sequence[Any], what: str) -> Any:
        """One argument, from its form in each trace."""
        first = forms[0]
        if isinstance(first, Mapping):
            if first.keys() == {"ref"}:
                return self.values[first["ref"]]
            if first.keys() == {"dtype"}:
                return first["dtype"]
            if len(first) == 1 and first.keys() & {"layout", "device", "memory_format"}:
                return None
            return {k: self._argument([f[k] for f in forms], what) for k in first}
        if isinstance(first, (list, tuple)):
            parts = self._side_by_side(list(forms))
            return type(first)([self._argument(part, what) for part in parts])
        if isinstance(first, (bool, str)) or first is None:
            if any(f != first for f in forms):
                raise Refusal(f"{what} is {first} at own shapes and not so at scaled shapes")
            return first
        if all(isinstance(f, int) for f in forms):
            return first if len(set(forms)) == 1 else self.symbols.integer(forms, what)
        return self.symbols.real([float(f) for f in forms])


def _integers(argument: Any) -> Iterator[int]:
    """The plain integers in nested arguments."""
    if isinstance(argument, (list, tuple)):
        for item in argument:
            yield from _integers(item)
    elif isinstance(argument, int) and not isinstance(argument, bool):
        yield argument


def _identifier(name: str) -> str:
    """An argument's name in C++; the prefix keeps it apart from what kernels call their own."""
    return "in_" + re.sub(r"\W", "_", name, flags=re.ASCII)


def _arguments(graph: OpGraph) -> tuple[GraphValue, ...]:
    return (*graph.inputs, *graph.parameters, *graph.buffers, *graph.constants)


def known_ops() -> tuple[str, ...]:
    return tuple(sorted(_TABLE))
