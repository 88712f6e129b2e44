"""The operations that C++ asks of Python: aten overloads by name, and a few of the bridge's own."""

import ctypes
import functools
import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from musaagent.tools.host.bridge_memory import poison
from musaagent.tools.host.bridge_values import ON_CPU, DeviceRequest

_POISONED = frozenset(
    {
        "empty",
        "empty_like",
        "empty_strided",
        "empty_permuted",
        "new_empty",
        "new_empty_strided",
    }
)
_FACTORIES = _POISONED | {
    "zeros",
    "zeros_like",
    "new_zeros",
    "ones",
    "ones_like",
    "new_ones",
    "full",
    "full_like",
    "new_full",
}
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Operation:
    """One aten overload, ready to be called with all its arguments in schema order."""

    function: Callable[..., Any]
    names: tuple[str, ...]
    positional: int
    written: tuple[int, ...]
    """Positions of the tensors that it may change, shape included."""
    device: int
    """Position of its `device` argument, -1 where it has none."""
    pin_memory: int
    poisoned: bool
    """Its result is uninitialised memory."""
    fresh: bool
    """Its result is always new memory."""


@functools.cache
def aten(name: str) -> Operation:
    """`sum.dim_IntList` as an Operation. Raises NotImplementedError where torch lacks it."""
    base, _, overload = name.partition(".")
    try:
        function = getattr(getattr(torch.ops.aten, base), overload or "default")
    except AttributeError:
        raise NotImplementedError(f"this torch has no aten::{name}") from None
    arguments = function._schema.arguments
    names = tuple(a.name for a in arguments)
    return Operation(
        function=function,
        names=names,
        positional=sum(not a.kwarg_only for a in arguments),
        written=tuple(
            i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write
        ),
        device=names.index("device") if "device" in names else -1,
        pin_memory=names.index("pin_memory") if "pin_memory" in names else -1,
        poisoned=base in _POISONED,
        fresh=base in _FACTORIES,
    )


def run_aten(operation: Operation, arguments: list[Any]) -> Any:
    """Executes on the CPU whatever device was asked for."""
    if operation.device >= 0 and arguments[operation.device] is not None:
        arguments[operation.device] = _CPU
    if operation.pin_memory >= 0:
        arguments[operation.pin_memory] = None
    count = operation.positional
    keywords = dict(zip(operation.names[count:], arguments[count:], strict=True))
    result = operation.function(*arguments[:count], **keywords)
    if operation.poisoned:
        poison(result)
    return result


def _to(
    tensor: torch.Tensor,
    dtype: torch.dtype | None,
    device: DeviceRequest | None,
    copy: bool,
    memory_format: torch.memory_format | None,
) -> torch.Tensor:
    keywords: dict[str, Any] = {}
    if memory_format is not None:
        keywords["memory_format"] = memory_format
    return torch._C.TensorBase.to(tensor, dtype or tensor.dtype, copy=copy, **keywords)


def _tensor(
    data: Any, dtype: torch.dtype, device: DeviceRequest | None, requires_grad: bool
) -> torch.Tensor:
    return torch.tensor(data, dtype=dtype, requires_grad=requires_grad)


def _from_blob(
    address: int,
    sizes: list[int],
    strides: list[int],
    dtype: torch.dtype,
    device: DeviceRequest | None,
) -> torch.Tensor:
    if any(size == 0 for size in sizes):
        return torch.empty(sizes, dtype=dtype)
    extent = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    memory = (ctypes.c_char * (extent * dtype.itemsize)).from_address(address)
    return torch.frombuffer(memory, dtype=dtype, count=extent).as_strided(sizes, strides)


def _index(tensor: torch.Tensor, indices: list[Any]) -> torch.Tensor:
    return tensor[tuple(indices)]


def _index_put(tensor: torch.Tensor, indices: list[Any], value: Any) -> torch.Tensor:
    tensor[tuple(indices)] = value
    return tensor


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=2)


def _grad_mode(mode: int) -> bool:
    before = torch.is_grad_enabled()
    if mode >= 0:
        torch.set_grad_enabled(bool(mode))
    return before


def _swapped(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return function


OWN: dict[str, Callable[..., Any]] = {
    "@to": _to,
    "@tensor": _tensor,
    "@from_blob": _from_blob,
    "@index": _index,
    "@index_put_": _index_put,
    "@item": lambda tensor: tensor.item(),
    "@repr": repr,
    "@warn": _warn,
    "@grad_mode": _grad_mode,
    "@grad": lambda tensor: tensor.grad,
    "@is_leaf": lambda tensor: tensor.is_leaf,
    "@version": lambda tensor: tensor._version,
    "@requires_grad_": lambda tensor, on: tensor.requires_grad_(on),
    "@manual_seed": lambda seed: (torch.manual_seed(seed), None)[1],
    "@promote_types": torch.promote_types,
    "@broadcast_shapes": lambda a, b: list(torch.broadcast_shapes(a, b)),
    "@is_non_overlapping_and_dense": torch.ops.aten.is_non_overlapping_and_dense.default,
    **{
        f"@{name}": getattr(operator, name)
        for name in ("add", "sub", "mul", "truediv", "mod", "and_", "or_", "xor")
        + ("lt", "le", "gt", "ge", "eq", "ne")
    },
}
_TAKES_DEVICE = frozenset({"@to", "@tensor", "@from_blob"})


def result_on_cpu(name: str, arguments: list[Any], tensors_on_cpu: list[bool]) -> bool:
    """Whether torch would have put the result in host memory, where no kernel may touch it.

    A device that was asked for decides; else the tensors that went in; a factory without either
    allocates on the CPU.
    """
    asked = [a for a in arguments if isinstance(a, DeviceRequest)]
    if asked:
        return asked[0] is ON_CPU
    if tensors_on_cpu:
        return all(tensors_on_cpu)
    return True
