"""What about a task any kernel must mind, and what would let a wrong kernel pass.

Two kinds: read off the traced graph at the task's own shapes, and found by asking the reference.
The questions use KernelBench's loosest tolerance, |got - expected| <= 1e-2 + 1e-2 * |expected|, for
they ask what a lenient harness would let through.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from musaagent.tools.cost import MOVES, base_name, elements, references, value_metas
from musaagent.tools.opgraph import OpGraph, TensorMeta, Trap
from musaagent.tools.reference import ReferenceModel, TaskCodeError, clone, drew_random

ATOL = RTOL = 1e-2
SMALL_BYTES = 1_000_000
SMALL_FLOPS = 100_000_000
"""About a launch's worth of a current GPU."""
_INT32 = 1 << 31
_GRID_YZ = 65535
_SEEDS = (11, 20_240_502, 77_003)
_PERTURBED_ELEMENTS = 5_000_000
_PERTURBING_S = 3.0
_SAME = 1e-9

_PRODUCTS = (
    "linear matmul mm bmm addmm baddbmm einsum mv conv1d conv2d conv3d conv_transpose1d"
    " conv_transpose2d conv_transpose3d convolution scaled_dot_product_attention lstm gru"
).split()


def graph_traps(
    graph: OpGraph, flops: int, least_bytes: int, *, asked_for_tf32: bool = False
) -> Iterator[Trap]:
    """Traps that the traced graph shows, at the task's own shapes."""
    yield from _batch_norms(graph)
    yield from _overflows(graph)
    yield from _grid_limits(graph)
    yield from _tf32(graph, asked_for_tf32)
    if least_bytes < SMALL_BYTES and flops < SMALL_FLOPS:
        yield Trap(
            name="too_small_to_time",
            message=f"{least_bytes} bytes and {flops} operations: launching takes longer than the"
            " work, so times compare launch overheads",
        )


def probe_traps(model: ReferenceModel) -> Iterator[Trap]:
    """Answers that would pass without the work; three or four runs of the reference."""
    model.construct(_SEEDS[0])
    inputs = [model.inputs(seed) for seed in _SEEDS]
    with _FirstStep() as first:
        expected = model.run(model.copy(), clone(inputs[0]), _SEEDS[0])[1]
    drew = drew_random(_SEEDS[0])
    others = [
        model.run(model.copy(), clone(values), seed)[1]
        for values, seed in zip(inputs[1:], _SEEDS[1:], strict=True)
    ]
    shapes = ", ".join(_text(t) for t in _flat(inputs[0]))
    if drew and not _equal(expected, model.run(model.copy(), clone(inputs[0]), _SEEDS[1])[1]):
        yield Trap(
            name="random_forward",
            message="forward draws random numbers: two runs on the same inputs differ, so values"
            " can only be compared in distribution",
        )
    if all(_zeros_pass(outputs) for outputs in (expected, *others)):
        yield Trap(name="zeros_pass", message=f"an all-zero output passes ({_rule()}; {shapes})")
    else:
        yield from _constants([expected, *others], shapes)
    yield from _copies(expected, _flat(inputs[0]), first, shapes)


def dead_parameters(model: ReferenceModel) -> Iterator[Trap]:
    """Parameters and buffers that can change without any effect; one float64 run for each.

    Buffers that forward itself updates are left out. Asks nothing of modules that are too large.
    """
    model.construct(_SEEDS[0])
    inputs = model.inputs(_SEEDS[0])
    state = model.state()
    if not state or sum(t.numel() for t in state.values()) > _PERTURBED_ELEMENTS:
        return
    run = _wide_or_native(model, inputs)
    before, updated = run("")
    deadline = time.process_time() + _PERTURBING_S
    dead = []
    for name, tensor in state.items():
        if not tensor.is_floating_point() or name in updated or time.process_time() > deadline:
            continue
        if same_outputs(before, run(name)[0]):
            dead.append(name)
    if dead:
        yield Trap(
            name="dead_parameter",
            message=f"no influence on the output: {', '.join(dead)} (each changed by itself)",
        )


def passes(got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> bool:
    """Whether every value is within the loosest tolerance; non-finite ones must be the same."""
    return all(_close(g, e) for g, e in zip(got, expected, strict=True))


def _close(got: torch.Tensor, expected: torch.Tensor) -> bool:
    if got.shape != expected.shape:
        return False
    if not expected.is_floating_point():
        return bool(torch.equal(got.to(expected.dtype), expected))
    if expected.dtype in (torch.float16, torch.bfloat16):
        got, expected = got.float(), expected.float()
    near = (got - expected).abs() <= ATOL + RTOL * expected.abs()
    same = (got == expected) | (got.isnan() & expected.isnan())
    return bool((near | same).all())


def _rule() -> str:
    return f"|error| <= {ATOL:g} + {RTOL:g} * |expected|"


def _zeros_pass(expected: Sequence[torch.Tensor]) -> bool:
    return passes([torch.zeros_like(e) for e in expected], expected)


def _constants(drawn: Sequence[Sequence[torch.Tensor]], shapes: str) -> Iterator[Trap]:
    """Whether one number, or one fixed output, passes for all the inputs drawn."""
    first = drawn[0]
    if any([t.shape for t in outputs] != [t.shape for t in first] for outputs in drawn):
        return
    middle = [_middle(alike) for alike in zip(*drawn, strict=True)]
    numbers = [m for m in middle if m is not None]
    filled = [torch.full_like(t, m) for t, m in zip(first, numbers, strict=False)]
    if len(filled) == len(first) and all(passes(filled, outputs) for outputs in drawn):
        text = ", ".join(f"{m:.4g}" for m in numbers)
        yield Trap(
            name="constant_output",
            message=f"an output of {text} everywhere passes ({_rule()}; {shapes})",
        )
    elif all(passes(first, outputs) for outputs in drawn[1:]):
        yield Trap(
            name="constant_output",
            message=f"the output for other inputs passes: it hardly depends on them ({_rule()};"
            f" {shapes})",
        )


def _middle(alike: Sequence[torch.Tensor]) -> float | None:
    """Halfway between the smallest and the largest value; None where there is no such number."""
    if not alike[0].is_floating_point() or not alike[0].numel():
        return None
    if not all(bool(t.isfinite().all()) for t in alike):
        return None
    return float((min(t.min() for t in alike).double() + max(t.max() for t in alike).double()) / 2)


def _copies(
    expected: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    first: "_FirstStep",
    shapes: str,
) -> Iterator[Trap]:
    """Whether an input, or the output of the first step alone, passes as the result."""
    if len(expected) != 1 or not expected[0].is_floating_point() or not expected[0].numel():
        return
    (result,) = expected
    for index, tensor in enumerate(inputs):
        if tensor.shape == result.shape and tensor.dtype == result.dtype and _close(tensor, result):
            yield Trap(
                name="identity_passes",
                message=f"a copy of input {index} passes as the output ({_rule()}; {shapes})",
            )
            return
    if first.steps > 1 and first.output is not None and _close(first.output, result):
        yield Trap(
            name="identity_passes",
            message=f"the output of {first.name} alone passes: the {first.steps - 1} later steps"
            f" change too little ({_rule()}; {shapes})",
        )


class _FirstStep(TorchDispatchMode):
    """Keeps what the first computing operation returns, and counts all of them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.name = ""
        self.steps = 0
        self.output: torch.Tensor | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if base_name(str(func)) not in MOVES:
            self.steps += 1
            if self.steps == 1:
                value = result[0] if isinstance(result, tuple) and result else result
                self.name = str(func)
                self.output = value.clone() if isinstance(value, torch.Tensor) else None
        return result


def _wide_or_native(
    model: ReferenceModel, inputs: Any
) -> Callable[[str], tuple[list[torch.Tensor], set[str]]]:
    """A run with one tensor of the state changed, and the names of buffers that it updated."""

    def run(changed: str, *, wide: bool) -> tuple[list[torch.Tensor], set[str]]:
        module = model.wide_copy() if wide else model.copy()
        state = module.state_dict()
        if changed:
            with torch.no_grad():
                _perturb(state[changed])
        kept = {name: tensor.clone() for name, tensor in module.named_buffers()}
        if wide:
            outputs = model.run_wide(module, inputs, _SEEDS[0])
        else:
            outputs = model.run(module, clone(inputs), _SEEDS[0])[1]
        now = dict(module.named_buffers())
        return outputs, {name for name, old in kept.items() if not _equal([old], [now[name]])}

    try:
        run("", wide=True)
    except TaskCodeError:
        return lambda changed: run(changed, wide=False)
    return lambda changed: run(changed, wide=True)


def _perturb(tensor: torch.Tensor) -> None:
    """Far enough to show through any step that depends on the values at all."""
    generator = torch.Generator().manual_seed(_SEEDS[1])
    noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
    scale = float(tensor.double().abs().max()) if tensor.numel() else 0.0
    tensor.add_((noise.abs() * (scale or 1.0)).to(tensor.dtype))


def same_outputs(before: Sequence[torch.Tensor], after: Sequence[torch.Tensor]) -> bool:
    """Whether two runs agree as far as rounding allows."""
    for a, b in zip(before, after, strict=True):
        if a.shape != b.shape:
            return False
        if not a.is_floating_point():
            if not torch.equal(a, b):
                return False
            continue
        a, b = a.double().nan_to_num(), b.double().nan_to_num()
        limit = (_SAME if before[0].dtype == torch.float64 else 1e-6) * max(
            1e-30, float(a.abs().max()) if a.numel() else 0.0
        )
        if a.numel() and float((a - b).abs().max()) > limit:
            return False
    return True


def _equal(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> bool:
    return len(first) == len(second) and all(
        a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())
        for a, b in zip(first, second, strict=True)
    )


def _flat(inputs: Any) -> list[torch.Tensor]:
    from musaagent.tools import trees

    tensors: list[torch.Tensor] = trees.flatten(inputs, "inputs")[1]
    return tensors


def _text(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _batch_norms(graph: OpGraph) -> Iterator[Trap]:
    paths = {v.name: v.path for v in (*graph.parameters, *graph.buffers)}
    trained = []
    for node in graph.nodes:
        if base_name(node.op) == "batch_norm" and len(node.args) > 5 and node.args[5] is True:
            owner = next((paths[n] for n in references(node.args[1:5]) if paths.get(n)), "")
            trained.append(owner.rpartition(".")[0] or "batch norm")
    if trained:
        names = ", ".join(trained[:4]) + (f" and {len(trained) - 4} more" if trained[4:] else "")
        yield Trap(
            name="train_mode_batchnorm",
            message=f"{names} in train mode: normalises by the batch's own statistics, and updates"
            " running_mean, running_var and num_batches_tracked",
        )


def _overflows(graph: OpGraph) -> Iterator[Trap]:
    kinds = {v.name: f"input {v.name}" for v in graph.inputs}
    kinds |= {v.name: f"parameter {v.path}" for v in graph.parameters}
    found = []
    for name, metas in value_metas(graph).items():
        if any(elements(m) >= _INT32 for m in metas):
            found.append(kinds.get(name, name))
    if found:
        largest = max(elements(m) for metas in value_metas(graph).values() for m in metas)
        yield Trap(
            name="int32_overflow",
            message=f"{', '.join(found[:4])}: up to {largest} elements; a 32-bit index overflows",
        )


def _grid_limits(graph: OpGraph) -> Iterator[Trap]:
    found = []
    for label, meta in _ends(graph):
        outer = meta.shape[:-1]
        wide = [f"dimension {i} of {label} is {n}" for i, n in enumerate(outer) if n > _GRID_YZ]
        if not wide and len(outer) > 1 and outer[0] * outer[1] > _GRID_YZ:
            wide = [f"the first two dimensions of {label} make {outer[0] * outer[1]}"]
        found += wide
    if found:
        yield Trap(
            name="grid_limit",
            message=f"{'; '.join(found[:3])}: over {_GRID_YZ}, the limit of a grid's y and z",
        )


def _ends(graph: OpGraph) -> Iterator[tuple[str, TensorMeta]]:
    metas = value_metas(graph)
    for value in graph.inputs:
        yield value.name, value.meta
    for name in dict.fromkeys(references(graph.outputs)):
        for meta in metas.get(name, ()):
            yield "the output", meta


def _tf32(graph: OpGraph, asked: bool) -> Iterator[Trap]:
    metas = value_metas(graph)
    found: list[str] = []
    for node in graph.nodes:
        name = base_name(node.op)
        if name in _PRODUCTS and any(
            m.dtype == "float32" for ref in references(node.args[:2]) for m in metas.get(ref, ())
        ):
            found.append(name)
    if not found:
        return
    names = ", ".join(dict.fromkeys(found))
    switched = "; the file itself switches it on" if asked else ""
    yield Trap(
        name="tf32_reference",
        message=f"{names} in float32: a GPU reference may run in TF32 (PyTorch's default for"
        f" convolutions), with errors near 1e-3{switched}; compare with float64",
    )
