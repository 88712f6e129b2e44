"""What a traced task costs at least: floating-point operations and bytes, from shapes alone.

A multiply and an add count as two. Matrix products and convolutions follow the usual formulas
(2 * outputs * length of the dot product, as in torch.utils.flop_counter); pointwise functions count
their arithmetic steps, a special function (exp, tanh) as one; moving data counts nothing.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

from musaagent.tools.opgraph import GraphNode, OpGraph, TensorMeta

_ITEM_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "complex64": 8, "complex128": 16,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
    "uint16": 2, "uint32": 4, "uint64": 8,
}  # fmt: skip

MOVES = frozenset(
    "getitem view reshape flatten unflatten expand expand_as permute transpose t numpy_T mT squeeze"
    " unsqueeze select slice narrow split chunk unbind cat stack clone copy_ contiguous detach"
    " alias flip roll repeat tile triu tril index index_select gather scatter embedding pad"
    " constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d"
    " zeros ones full empty zeros_like ones_like full_like empty_like new_zeros new_ones new_full"
    " new_empty arange rand randn to _to_copy type_as masked_fill masked_fill_ where unfold im2col"
    " col2im pixel_shuffle pixel_unshuffle broadcast_tensors broadcast_to meshgrid movedim"
    " swapaxes unsafe_split split_with_sizes tensor_split as_strided diagonal channel_shuffle"
    " zero_ fill_ fill".split()
)

# Arithmetic steps for each input or output element.
_STEPS = {
    "sigmoid": 4, "silu": 5, "gelu": 8, "mish": 6, "softplus": 3, "softsign": 3, "elu": 3,
    "selu": 4, "celu": 3, "hardswish": 4, "hardsigmoid": 3, "hardtanh": 2, "leaky_relu": 2,
    "log_sigmoid": 4, "rsub": 1, "addcmul": 3, "addcdiv": 3, "lerp": 3, "clamp": 2, "dropout": 2,
    "softmax": 5, "log_softmax": 5, "logsumexp": 4, "batch_norm": 8, "layer_norm": 8,
    "group_norm": 8, "instance_norm": 8, "rms_norm": 5, "var": 4, "std": 4, "var_mean": 4,
    "std_mean": 4, "norm": 2, "linalg_vector_norm": 2, "cross_entropy_loss": 5, "nll_loss": 1,
    "nll_loss_nd": 1, "mse_loss": 3, "l1_loss": 3, "smooth_l1_loss": 5, "huber_loss": 5,
    "kl_div": 4, "binary_cross_entropy": 6, "binary_cross_entropy_with_logits": 7,
    "triplet_margin_loss": 8, "cosine_similarity": 6, "cosine_embedding_loss": 6,
    "hinge_embedding_loss": 3, "margin_ranking_loss": 4, "normalize": 3, "glu": 5,
}  # fmt: skip

_Args = list[Any]
"""A node's arguments with every reference replaced by its TensorMeta."""


def item_bytes(dtype: str) -> int:
    return _ITEM_BYTES.get(dtype, 4)


def tensor_bytes(meta: TensorMeta) -> int:
    """Distinct bytes behind a tensor: a dimension of stride 0 is stored once."""
    stride = meta.stride or (1,) * len(meta.shape)
    sizes = (n for n, s in zip(meta.shape, stride, strict=True) if s != 0 or n == 0)
    return math.prod(sizes) * item_bytes(meta.dtype)


def elements(meta: TensorMeta) -> int:
    return math.prod(meta.shape)


def flops(graph: OpGraph) -> int:
    """Floating-point operations of one forward."""
    metas = value_metas(graph)
    return sum(node_flops(node, metas) for node in graph.nodes)


def node_flops(node: GraphNode, metas: dict[str, tuple[TensorMeta, ...]]) -> int:
    """Operations of one node, `metas` holding the outputs of every value by name."""
    name = base_name(node.op)
    if name in MOVES:
        return 0
    args = [_resolve(a, metas) for a in node.args]
    rule = _RULES.get(name)
    if rule is not None:
        return rule(node, args)
    widest = max(
        (elements(m) for m in [*node.outputs, *_tensors(args), *_tensors(node.kwargs)]), default=0
    )
    return _STEPS.get(name, _STEPS.get(name.rstrip("_"), 1)) * widest


def least_bytes(graph: OpGraph) -> int:
    """Inputs and weights that are used read once, outputs and updated buffers written once."""
    used = {ref for node in graph.nodes for ref in references([node.args, node.kwargs])}
    gathered = _gathered(graph)
    total = 0
    for values in (graph.inputs, graph.parameters, graph.buffers, graph.constants):
        for value in values:
            if value.name in used:
                total += min(tensor_bytes(value.meta), gathered.get(value.name, 1 << 62))
    metas = value_metas(graph)
    names = dict.fromkeys(references(graph.outputs))
    total += sum(elements(m) * item_bytes(m.dtype) for n in names for m in metas[n])
    return total + sum(tensor_bytes(b.meta) for b in updated_buffers(graph))


def updated_buffers(graph: OpGraph) -> list[Any]:
    """Buffers that forward writes: running statistics and in-place counters."""
    written: set[str] = set()
    for node in graph.nodes:
        name = base_name(node.op)
        if name == "batch_norm" and len(node.args) > 5 and node.args[5] is True:
            written.update(references(node.args[3:5]))
        elif name.endswith("_") and node.args:
            written.update(references(node.args[:1]))
    return [b for b in graph.buffers if b.name in written]


def value_metas(graph: OpGraph) -> dict[str, tuple[TensorMeta, ...]]:
    """The tensors behind every name."""
    metas = {node.name: node.outputs for node in graph.nodes}
    for values in (graph.inputs, graph.parameters, graph.buffers, graph.constants):
        metas |= {value.name: (value.meta,) for value in values}
    return metas


def base_name(op: str) -> str:
    """`conv2d` of `aten.conv2d.default`."""
    return op.split(".")[1] if "." in op else op


def references(value: Any) -> Iterator[str]:
    """Names that nested arguments refer to, in order."""
    if isinstance(value, dict):
        if set(value) == {"ref"}:
            yield value["ref"]
        else:
            for item in value.values():
                yield from references(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from references(item)


def _gathered(graph: OpGraph) -> dict[str, int]:
    """Tables that are only looked up: the bytes of the rows taken at most."""
    rows: dict[str, int] = {}
    other: set[str] = set()
    for node in graph.nodes:
        refs = list(references([node.args, node.kwargs]))
        if base_name(node.op) in ("embedding", "index_select") and node.outputs and refs:
            size = elements(node.outputs[0]) * item_bytes(node.outputs[0].dtype)
            rows[refs[0]] = rows.get(refs[0], 0) + size
            other.update(refs[1:])
        else:
            other.update(refs)
    return {name: size for name, size in rows.items() if name not in other}


def _resolve(value: Any, metas: dict[str, tuple[TensorMeta, ...]]) -> Any:
    if isinstance(value, dict) and set(value) == {"ref"}:
        found = metas.get(value["ref"], ())
        return found[0] if len(found) == 1 else list(found)
    if isinstance(value, list | tuple):
        return [_resolve(v, metas) for v in value]
    return value


def _tensors(value: Any) -> Iterator[TensorMeta]:
    if isinstance(value, TensorMeta):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _out(node: GraphNode) -> int:
    return elements(node.outputs[0]) if node.outputs else 0


def _product(first: int, length_axis: int = -1) -> Callable[[GraphNode, _Args], int]:
    """A matrix product whose argument `first` is contracted along `length_axis`."""

    def rule(node: GraphNode, args: _Args) -> int:
        shape = args[first].shape
        return 2 * _out(node) * (shape[length_axis] if shape else 1)

    return rule


def _volume(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def _linear(node: GraphNode, args: _Args) -> int:
    bias = _out(node) if len(args) > 2 and args[2] is not None else 0
    return 2 * _out(node) * int(args[0].shape[-1]) + bias


def _conv(node: GraphNode, args: _Args) -> int:
    bias = _out(node) if len(args) > 2 and args[2] is not None else 0
    return 2 * _out(node) * _volume(args[1].shape[1:]) + bias


def _conv_transpose(node: GraphNode, args: _Args) -> int:
    bias = _out(node) if len(args) > 2 and args[2] is not None else 0
    return 2 * elements(args[0]) * _volume(args[1].shape[1:]) + bias


def _convolution(node: GraphNode, args: _Args) -> int:
    transposed = len(args) > 6 and bool(args[6])
    return _conv_transpose(node, args) if transposed else _conv(node, args)


def _attention(node: GraphNode, args: _Args) -> int:
    query, key, value = args[:3]
    scores = _volume(query.shape[:-1]) * int(key.shape[-2])
    return scores * (2 * int(query.shape[-1]) + 2 * int(value.shape[-1]) + _STEPS["softmax"])


def _recurrent(node: GraphNode, args: _Args) -> int:
    """LSTM, GRU, RNN: every weight matrix once for each step and sample."""
    shape = args[0].shape
    steps = _volume(shape[:-1])
    matrices = [m for m in _tensors(args[2:]) if len(m.shape) == 2]
    return 2 * steps * sum(elements(m) for m in matrices)


def _einsum(node: GraphNode, args: _Args) -> int:
    left = str(args[0]).replace(" ", "").split("->")[0].split(",")
    operands = list(_tensors(args[1:]))
    sizes: dict[str, int] = {}
    for labels, operand in zip(left, operands, strict=False):
        if "." in labels:
            return 2 * _out(node) * max(elements(o) for o in operands) // max(1, _out(node))
        sizes |= dict(zip(labels, operand.shape, strict=True))
    return max(1, 2 * (len(operands) - 1)) * math.prod(sizes.values())


def _pool(node: GraphNode, args: _Args) -> int:
    kernel = args[1] if isinstance(args[1], list) else [args[1]]
    rank = len(node.outputs[0].shape) - 2
    window = math.prod(kernel) if len(kernel) > 1 else kernel[0] ** max(1, rank)
    if len(kernel) == 1 and base_name(node.op).endswith("1d"):
        window = kernel[0]
    return _out(node) * int(window)


def _sort(node: GraphNode, args: _Args) -> int:
    shape = args[0].shape
    return elements(args[0]) * max(1, math.ceil(math.log2(max(2, shape[-1] if shape else 1))))


_RULES: dict[str, Callable[[GraphNode, _Args], int]] = {
    "linear": _linear,
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot", "vdot", "inner"), _product(0)),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "addmv"), _product(1)),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _conv),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _conv_transpose),
    "convolution": _convolution,
    "scaled_dot_product_attention": _attention,
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), _recurrent),
    "einsum": _einsum,
    **dict.fromkeys(
        (f"{kind}_pool{n}d" for kind in ("max", "avg") for n in (1, 2, 3)), _pool
    ),
    **dict.fromkeys(("sort", "topk", "kthvalue", "median", "argsort"), _sort),
}  # fmt: skip
