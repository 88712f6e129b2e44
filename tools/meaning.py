"""Whether a task at other sizes is still the same op: what a change of sizes must leave alone."""

import math
from collections.abc import Mapping

from musaagent.tools.cost import base_name, elements, references
from musaagent.tools.opgraph import GraphNode, OpGraph, TensorMeta

_FEW_SAMPLES = 16
"""Over two or three samples a normalised value is a sign and little else."""

_SET_BY_INTEGERS = frozenset(
    "group_norm topk kthvalue sort softmax log_softmax cumsum cumprod cummax cummin sum mean amax"
    " amin max min argmax argmin prod logsumexp var std cross_entropy_loss nll_loss roll".split()
)


def different_meaning(own: OpGraph, scaled: OpGraph) -> str:
    """Why the scaled graph is another op than the task, in one line; empty where it is the same."""
    mine, theirs = _out_metas(own), _out_metas(scaled)
    if [(m.dtype, len(m.shape)) for m in mine] != [(m.dtype, len(m.shape)) for m in theirs]:
        return "the outputs have another number, rank or dtype"
    if len(own.inputs) != len(scaled.inputs):
        return "another number of inputs"
    if {n.op for n in own.nodes} != {n.op for n in scaled.nodes}:
        return "other operations run"
    for mine_in, theirs_in in zip(own.inputs, scaled.inputs, strict=True):
        if _collapsed(mine_in.meta, theirs_in.meta):
            return f"input {mine_in.name} loses a dimension"
    if any(_collapsed(x, y) for x, y in zip(mine, theirs, strict=True)):
        return "an output loses a dimension"
    if [n.op for n in own.nodes] != [n.op for n in scaled.nodes]:
        return ""  # a loop over a size that changed
    before, after = _metas(own), _metas(scaled)
    for a, b in zip(own.nodes, scaled.nodes, strict=True):
        if any(_collapsed(x, y) for x, y in zip(a.outputs, b.outputs, strict=False)):
            return f"{a.op} loses a dimension"
        if _settings(a, before) != _settings(b, after):
            return f"{a.op} runs with other settings"
        if _extent(b, after) < min(_extent(a, before), _least_extent(a)):
            return f"{a.op} has too few elements to normalise over"
    return ""


def _collapsed(own: TensorMeta, scaled: TensorMeta) -> bool:
    return any(a > 1 and b <= 1 for a, b in zip(own.shape, scaled.shape, strict=False))


def _metas(graph: OpGraph) -> dict[str, TensorMeta]:
    metas = {n.name: n.outputs[0] for n in graph.nodes if n.outputs}
    for values in (graph.inputs, graph.parameters, graph.buffers, graph.constants):
        metas |= {v.name: v.meta for v in values}
    return metas


def _out_metas(graph: OpGraph) -> list[TensorMeta]:
    metas = _metas(graph)
    return [metas[name] for name in references(graph.outputs)]


def _settings(node: GraphNode, metas: Mapping[str, TensorMeta]) -> list[object]:
    """The integers that are a node's meaning: windows, strides, groups, axes.

    A number that equals the whole extent (depthwise groups, a pool over everything) is `all`.
    """
    name = base_name(node.op)
    if not (name.startswith("conv") or "pool" in name or name in _SET_BY_INTEGERS):
        return []
    source = _tensor(node, 0, metas)
    shape = source.shape if source is not None else ()
    settings: list[object] = []
    for index, argument in enumerate(node.args[1:], 1):
        if isinstance(argument, int) and not isinstance(argument, bool):
            channels = shape[1] if len(shape) > 1 else 0
            is_groups = (index == 6 and name.startswith("conv")) or name == "group_norm"
            settings.append("all" if is_groups and argument == channels else argument)
        elif isinstance(argument, list) and all(isinstance(a, int) for a in argument):
            extents = shape[-len(argument) :] if "pool" in name and argument else ()
            settings.append(["all"] if tuple(argument) == tuple(extents) else argument)
    weight = _tensor(node, 1, metas)
    if name.startswith("conv") and weight is not None:
        settings.append(list(weight.shape[2:]))
    return settings


def _extent(node: GraphNode, metas: Mapping[str, TensorMeta]) -> int:
    """How many elements one statistic of a normalisation is taken over; 0 for other nodes."""
    source = _tensor(node, 0, metas)
    if source is None or len(source.shape) < 2:
        return 0
    total, shape = elements(source), source.shape
    name = base_name(node.op)
    if name == "batch_norm":
        return total // max(1, shape[1])
    if name == "instance_norm":
        return total // max(1, shape[0] * shape[1])
    if name == "group_norm" and isinstance(node.args[1], int):
        return total // max(1, shape[0] * node.args[1])
    if name in ("layer_norm", "rms_norm") and isinstance(node.args[1], list):
        return math.prod(shape[-len(node.args[1]) :])
    return 0


def _least_extent(node: GraphNode) -> int:
    return _FEW_SAMPLES if base_name(node.op) == "batch_norm" else 4


def _tensor(node: GraphNode, index: int, metas: Mapping[str, TensorMeta]) -> TensorMeta | None:
    argument = node.args[index] if index < len(node.args) else None
    if isinstance(argument, dict) and set(argument) == {"ref"}:
        return metas.get(argument["ref"])
    return None
