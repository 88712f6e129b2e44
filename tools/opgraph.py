"""The traced graph of a task: what plan measures and what the builtin policy reads.

One node for each ATen call that the reference makes, before decomposition (`aten.linear.default`,
`aten.softmax.int`), in execution order, with the metadata of every value.
"""

import math
from typing import Any

from pydantic import Field, field_validator

from musaagent.tools.results import Record

_NON_FINITE = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


def _restore_floats(value: Any) -> Any:
    """Undo what JSON does to infinities inside untyped arguments (`masked_fill(mask, -inf)`)."""
    if isinstance(value, str):
        return _NON_FINITE.get(value, value)
    if isinstance(value, dict):
        return {key: _restore_floats(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_restore_floats(item) for item in value]
    return value


class TensorMeta(Record):
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    """torch's name without the prefix: `float32`, `bfloat16`, `int64`, `bool`."""


class GraphValue(Record):
    """A named tensor that enters the graph."""

    name: str
    """Name used by nodes that refer to it."""
    meta: TensorMeta
    path: str = ""
    """Qualified attribute for parameters, buffers and constants: `conv.weight`."""
    value: float | int | bool | None = None
    """The number itself, for a constant of one element (`torch.tensor(0.5)` in forward)."""


class GraphNode(Record):
    name: str
    op: str
    """`aten.conv2d.default`; `getitem` picks one output of a multi-output node."""
    args: tuple[Any, ...] = ()
    """Plain values; a reference to another value is `{"ref": name}`; a dtype, layout, memory
    format or device is `{"dtype": "float32"}`, `{"layout": ...}`, `{"memory_format": ...}`,
    `{"device": ...}`."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    outputs: tuple[TensorMeta, ...] = ()
    """One per tensor result, in order; empty for a result that is no tensor."""

    _floats = field_validator("args", "kwargs", mode="before")(_restore_floats)


class OpGraph(Record):
    inputs: tuple[GraphValue, ...]
    """Arguments of forward, tensors only, in order (nested ones flattened)."""
    parameters: tuple[GraphValue, ...] = ()
    buffers: tuple[GraphValue, ...] = ()
    constants: tuple[GraphValue, ...] = ()
    """Tensors that the module holds outside its state_dict."""
    nodes: tuple[GraphNode, ...] = ()
    outputs: tuple[Any, ...] = ()
    """Nested as forward returns them, each tensor as `{"ref": name}`."""
    scalar_inputs: tuple[str, ...] = ()
    """Remarks on forward arguments that are no tensors."""


class Trap(Record):
    """Something about the task that any kernel must mind, or that makes it easy to fool."""

    name: str
    """`train_mode_batchnorm`, `int32_overflow`, `grid_limit`, `tf32_reference`,
    `constant_output`, `zeros_pass`, `identity_passes`, `dead_parameter`, `random_forward`,
    `too_small_to_time`."""
    message: str


class Plan(Record):
    """What is known of a task before any candidate is written."""

    task: str
    """The task's content hash."""
    graph: OpGraph | None
    """Traced at the task's own shapes; None when tracing failed."""
    scaled_graph: OpGraph | None = None
    """Traced at the scaled shapes (equal to `graph` when nothing was scaled)."""
    trace_error: str = ""
    scaling: dict[str, tuple[int, int]] = Field(default_factory=dict)
    """Size constants that were changed for the CPU run: name -> (own, scaled)."""
    scaling_note: str = ""
    """Set where no sizes meet the budget of a CPU run: what the smallest cost."""
    check_graph: OpGraph | None = None
    """Traced at the shapes of the watched run."""
    check_scaling: dict[str, tuple[int, int]] = {}
    """The same for the watched run."""
    check_shapes: tuple[str, ...] = ()
    input_shapes: tuple[str, ...] = ()
    scaled_shapes: tuple[str, ...] = ()
    output_shapes: tuple[str, ...] = ()
    init_inputs: str = ""
    """`repr` of get_init_inputs(), cut at 400 characters."""
    flops: int = 0
    """Multiply and add counted as two, at the task's own shapes."""
    least_bytes: int = 0
    """Inputs and parameters read once, outputs written once, at the task's own shapes."""
    training: bool = True
    """Mode that the reference runs in (KernelBench leaves modules in train mode)."""
    traps: tuple[Trap, ...] = ()
