"""Steps of a task that could be left out: their results have no influence on the output."""

import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from musaagent.tools.cost import MOVES, base_name
from musaagent.tools.opgraph import Trap
from musaagent.tools.reference import ReferenceModel, TaskCodeError, clone, drew_random
from musaagent.tools.traps import same_outputs

_SEED = 11
_SECONDS = 2.0
_MOST_STEPS = 32


class _Disturbed(TorchDispatchMode):
    """Adds noise to the result of one computing step, and counts them."""

    def __init__(self, step: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.step = step
        self.steps = 0
        self.name = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        several = isinstance(result, tuple | list)
        value: Any = result[0] if several and result else result
        if base_name(str(func)) in MOVES or not _floating(value):
            return result
        self.steps += 1
        if self.steps - 1 != self.step:
            return result
        self.name = str(func)
        noisy = value + _noise(value)
        if args and value is args[0]:  # in place: who holds it sees the noise too
            value.copy_(noisy)
            return result
        return type(result)((noisy, *result[1:])) if several else noisy


def _floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() > 0


def _noise(value: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(_SEED)
    noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
    size = float(value.detach().double().nan_to_num().abs().max()) or 1.0
    return (noise * size).to(value.dtype)


def dead_steps(model: ReferenceModel) -> Iterator[Trap]:
    """One float32 run for each step, for as long as there is time. Says nothing of random ops."""
    model.construct(_SEED)
    inputs = model.inputs(_SEED)
    found, total = [], 1
    before = model.run(model.copy(), clone(inputs), _SEED)[1]
    if drew_random(_SEED):
        return
    step, deadline = 0, time.process_time() + _SECONDS
    while step < min(total, _MOST_STEPS) and time.process_time() < deadline:
        disturbed, module, values = _Disturbed(step), model.copy(), clone(inputs)
        try:
            with disturbed:
                after = model.run(module, values, _SEED)[1]
        except TaskCodeError:  # noise where the task's own code does not take it
            after = []
        total, step = max(total, disturbed.steps), step + 1
        if disturbed.name and len(after) == len(before) and same_outputs(before, after):
            found.append(f"{disturbed.name} (step {step} of {disturbed.steps})")
    if found:
        yield Trap(
            name="dead_step",
            message=f"no influence on the output: {', '.join(found[:4])}, each by itself",
        )
