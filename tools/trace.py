"""Trace a task's forward into an OpGraph on fake tensors: no memory, whatever the shapes."""

import inspect
import logging
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from musaagent.tools import trees
from musaagent.tools.opgraph import GraphNode, GraphValue, OpGraph, TensorMeta
from musaagent.tools.reference import ReferenceModel, TaskCodeError, call_arguments

_LONGEST_REPR = 400
_SAME_VALUE = frozenset(
    f"aten.{name}.default"
    for name in ("detach", "detach_", "alias", "lift_fresh", "lift_fresh_copy")
)
"""Calls that only autograd and the tracer see; what they return stands for their argument."""


@dataclass(frozen=True)
class Traced:
    """One task at one scale."""

    graph: OpGraph | None
    error: str
    """Why there is no graph, in one line."""
    inputs: tuple[TensorMeta, ...]
    outputs: tuple[TensorMeta, ...]
    init_inputs: str
    training: bool
    asked_for_tf32: bool


def warm() -> None:
    """Import what the first trace needs (some seconds), as a fork server may do ahead of time."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    with FakeTensorMode(), torch.no_grad():
        layers = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1), torch.nn.BatchNorm2d(1))
        make_fx(layers, pre_dispatch=True, _allow_non_fake_inputs=True)(torch.rand(2, 1, 2, 2))


def trace(source: str, overrides: Mapping[str, int] | None = None, *, name: str = "task") -> Traced:
    """Trace the task at its own or overridden sizes.

    Raises TaskCodeError where import, constructor or get_inputs fail; a forward that runs but
    cannot be traced gives `error`, and a forward that fails does so too.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    # It logs every failure with its own traceback; here failures are answers.
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        model = ReferenceModel(source, overrides, name=name)
        init = model.init_inputs(0)
    module = _construct(model, init, mode)
    with mode:
        values = model.inputs(0)
    tree, tensors = trees.flatten(values, "inputs")
    graph, error = None, ""
    try:
        with mode:
            traced, out_tree = _trace_forward(model, module, tree, tensors)
        names, scalars = _argument_names(module, tree), _scalars(module, tree)
        graph = _Conversion(traced, module, names).graph(out_tree, scalars)
    except Exception as failure:
        error = _one_line(failure)
    outputs = () if graph is None else _output_metas(graph)
    return Traced(
        graph,
        error,
        tuple(_meta(t) for t in tensors),
        outputs,
        _short_repr(init),
        module.training,
        model.asked_for_tf32,
    )


def _construct(model: ReferenceModel, init: Any, mode: Any) -> torch.nn.Module:
    """On fake tensors, or on real ones where the constructor looks at values."""
    from torch._subclasses.fake_tensor import DataDependentOutputException

    try:
        with mode:
            return model.construct(0, init)
    except TaskCodeError as error:
        if not isinstance(error.__cause__, DataDependentOutputException):
            raise
        return model.construct(0)


def _trace_forward(
    model: ReferenceModel, module: torch.nn.Module, tree: trees.Tree, tensors: list[torch.Tensor]
) -> tuple[torch.fx.GraphModule, trees.Tree]:
    from torch.fx.experimental.proxy_tensor import make_fx

    result: list[trees.Tree] = []

    def forward(*flat: torch.Tensor) -> list[torch.Tensor]:
        positional, named = call_arguments(trees.unflatten(tree, list(flat)))
        with model.on_cpu("forward"):
            value = module(*positional, **named)
        out_tree, out = trees.flatten(value, "forward")
        result.append(out_tree)
        return out

    with torch.no_grad():
        traced = make_fx(forward, pre_dispatch=True, _allow_non_fake_inputs=True)(*tensors)
    return traced, result[-1]


class _Conversion:
    """One fx graph on its way to an OpGraph; every value gets a readable, unique name."""

    def __init__(
        self, traced: torch.fx.GraphModule, module: torch.nn.Module, input_names: list[str]
    ) -> None:
        self.traced = traced
        self.input_names = input_names
        self.taken: set[str] = set()
        self.names: dict[torch.fx.Node, str] = {}
        self.values: dict[int, GraphValue] = {}
        self.inputs: list[GraphValue] = []
        self.groups: dict[str, list[GraphValue]] = {"parameter": [], "buffer": [], "constant": []}
        self.paths = _tensor_paths(module)

    def graph(self, out_tree: trees.Tree, scalars: tuple[str, ...]) -> OpGraph:
        nodes: list[GraphNode] = []
        outputs: list[Any] = []
        for node in self.traced.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "get_attr":
                self._attribute(node)
            elif node.op == "output":
                outputs = [self._argument(n) for n in node.args[0]]
            elif str(node.target) in _SAME_VALUE:
                self.names[node] = self.names[node.args[0]]
            elif _is_operator(node.target):
                nodes.append(self._node(node))
        return OpGraph(
            inputs=tuple(self.inputs),
            parameters=tuple(self.groups["parameter"]),
            buffers=tuple(self.groups["buffer"]),
            constants=tuple(self.groups["constant"]),
            nodes=tuple(nodes),
            outputs=_nest_outputs(out_tree, outputs),
            scalar_inputs=scalars,
        )

    def _placeholder(self, node: torch.fx.Node) -> None:
        name = self._unique(self.input_names[len(self.inputs)])
        self.names[node] = name
        self.inputs.append(GraphValue(name=name, meta=_meta(node.meta["val"])))

    def _attribute(self, node: torch.fx.Node) -> None:
        tensor: Any = self.traced
        for part in str(node.target).split("."):
            tensor = getattr(tensor, part)
        if not isinstance(tensor, torch.Tensor):
            return
        value = self.values.get(id(tensor))
        if value is None:
            kind, path = self.paths.get(id(tensor), ("constant", ""))
            name = self._unique(path.replace(".", "_") or "constant")
            number = _number(tensor) if kind == "constant" else None
            value = GraphValue(name=name, meta=_meta(tensor), path=path, value=number)
            self.values[id(tensor)] = value
            self.groups[kind].append(value)
        self.names[node] = value.name

    def _node(self, node: torch.fx.Node) -> GraphNode:
        name = self.names[node] = self._unique(node.name)
        target = node.target
        op = "getitem" if target is operator.getitem else str(target)
        return GraphNode(
            name=name,
            op=op,
            args=tuple(self._argument(a) for a in node.args),
            kwargs={key: self._argument(a) for key, a in node.kwargs.items()},
            outputs=tuple(_metas(node.meta.get("val"))),
        )

    def _argument(self, value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return {"ref": self.names[value]}
        if isinstance(value, list | tuple):
            return [self._argument(v) for v in value]
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        if isinstance(value, torch.layout):
            return {"layout": str(value).removeprefix("torch.")}
        if isinstance(value, torch.memory_format):
            return {"memory_format": str(value).removeprefix("torch.")}
        if isinstance(value, torch.device):
            return {"device": str(value)}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        return repr(value)

    def _unique(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self.taken:
            name, number = f"{wanted}_{number}", number + 1
        self.taken.add(name)
        return name


def _number(tensor: torch.Tensor) -> float | int | bool | None:
    """The value of a one-element tensor, where the tracer knows it."""
    known = getattr(tensor, "constant", None)
    known = tensor if known is None and type(tensor) is torch.Tensor else known
    if known is None or known.numel() != 1 or known.is_complex() or known.is_meta:
        return None
    number: float | int | bool = known.item()
    return number


def _is_operator(target: Any) -> bool:
    """Leaves out what only switches autograd or marks scopes."""
    if target is operator.getitem:
        return True
    return isinstance(target, torch._ops.OpOverload | torch._ops.HigherOrderOperator)


def _tensor_paths(module: torch.nn.Module) -> dict[int, tuple[str, str]]:
    """Kind and qualified name by identity, for everything that the module holds."""
    paths: dict[int, tuple[str, str]] = {}
    for prefix, part in module.named_modules():
        for name, value in vars(part).items():
            if isinstance(value, torch.Tensor):
                paths[id(value)] = ("constant", f"{prefix}.{name}".lstrip("."))
    paths |= {id(b): ("buffer", name) for name, b in module.named_buffers()}
    paths |= {id(p): ("parameter", name) for name, p in module.named_parameters()}
    return paths


def _argument_names(module: torch.nn.Module, tree: trees.Tree) -> list[str]:
    """A name for each input tensor: forward's own, with the place for nested ones."""
    names: list[str] = []
    for top, item in _arguments(module, tree):
        _collect_names(item, top, names)
    return names


def _scalars(module: torch.nn.Module, tree: trees.Tree) -> tuple[str, ...]:
    return tuple(
        f"{name} = {item.get('value', item.get('name'))!r}"
        for name, item in _arguments(module, tree)
        if item["kind"] in ("value", "dtype", "device")
    )


def _arguments(module: torch.nn.Module, tree: trees.Tree) -> list[tuple[str, trees.Tree]]:
    if tree["kind"] == "dict":
        return list(tree["items"].items())
    items = tree.get("items", [tree])
    kinds = [item["kind"] for item in items]
    if kinds == ["list", "dict"]:
        positional = zip(_forward_names(module), items[0]["items"], strict=False)
        return [*positional, *items[1]["items"].items()]
    return list(zip(_forward_names(module), items, strict=False))


def _forward_names(module: torch.nn.Module) -> Any:
    """Parameter names of forward, then `arg<n>` without end."""
    names: list[str] = []
    for parameter in inspect.signature(module.forward).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    yield from names
    number = len(names)
    while True:
        yield f"arg{number}"
        number += 1


def _collect_names(tree: trees.Tree, name: str, names: list[str]) -> None:
    if tree["kind"] == "tensor":
        names.append(name)
    elif tree["kind"] in ("tuple", "list"):
        for index, item in enumerate(tree["items"]):
            _collect_names(item, f"{name}_{index}", names)
    elif tree["kind"] == "dict":
        for key, item in tree["items"].items():
            _collect_names(item, f"{name}_{key}", names)


def _nest_outputs(tree: trees.Tree, refs: list[Any]) -> tuple[Any, ...]:
    """Outputs as forward nests them; a lone tensor is a tuple of one."""

    def nest(item: trees.Tree) -> Any:
        if item["kind"] == "tensor":
            return refs[item["index"]]
        if item["kind"] in ("tuple", "list"):
            return [nest(inner) for inner in item["items"]]
        if item["kind"] == "dict":
            return {key: nest(inner) for key, inner in item["items"].items()}
        return item.get("value", item.get("name"))

    if tree["kind"] in ("tuple", "list"):
        return tuple(nest(item) for item in tree["items"])
    return (nest(tree),)


def _output_metas(graph: OpGraph) -> tuple[TensorMeta, ...]:
    """Metadata of every output tensor, flat and in order."""
    metas = graph_metas(graph)
    found: list[TensorMeta] = []

    def visit(value: Any) -> None:
        if isinstance(value, dict) and set(value) == {"ref"}:
            found.append(metas[value["ref"]])
        elif isinstance(value, dict):
            for item in value.values():
                visit(item)
        elif isinstance(value, list | tuple):
            for item in value:
                visit(item)

    visit(graph.outputs)
    return tuple(found)


def graph_metas(graph: OpGraph) -> dict[str, TensorMeta]:
    """Metadata by name, for every value with one tensor result."""
    metas = {n.name: n.outputs[0] for n in graph.nodes if len(n.outputs) == 1}
    for values in (graph.inputs, graph.parameters, graph.buffers, graph.constants):
        metas |= {v.name: v.meta for v in values}
    return metas


def shape_text(meta: TensorMeta) -> str:
    """`float32[64, 1000]`."""
    return f"{meta.dtype}{list(meta.shape)}"


def _metas(value: Any) -> list[TensorMeta]:
    if isinstance(value, torch.Tensor):
        return [_meta(value)]
    if isinstance(value, list | tuple):
        return [_meta(v) for v in value if isinstance(v, torch.Tensor)]
    return []


def _meta(tensor: torch.Tensor) -> TensorMeta:
    strided = tensor.layout == torch.strided
    return TensorMeta(
        shape=tuple(int(n) for n in tensor.shape),
        stride=tuple(int(n) for n in tensor.stride()) if strided else (),
        dtype=str(tensor.dtype).removeprefix("torch."),
    )


def _one_line(error: BaseException) -> str:
    if isinstance(error, TaskCodeError):
        return str(error)
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


def _short_repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_REPR else text[: _LONGEST_REPR - 3] + "..."
