"""Runs compiled candidates of the thin levels on real CUDA tensors.

The host target's bridge does the work; here tensors have real devices, memory is poisoned by the
device, and C++ is told which stream torch is on.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from musaagent.tools.cuda.card_memory import ForeignBytes
from musaagent.tools.host import bridge, bridge_memory
from musaagent.tools.host.bridge_ops import OWN, aten
from musaagent.tools.host.bridge_runtime import Runtime
from musaagent.tools.host.bridge_values import ON_CPU, DeviceRequest, Value

_CPU, _CUDA = torch.device("cpu"), torch.device("cuda", 0)


class CudaRuntime(Runtime):
    """The runtime library of the cuda target."""

    guards = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.library.musacuda_set_stream.restype = None
        self.library.musacuda_set_stream.argtypes = [ctypes.c_void_p]
        self._on_gpu = torch.version.cuda is not None

    def hold(self, tensor: torch.Tensor, on_cpu: bool, name: str) -> tuple[int, int]:
        return super().hold(tensor, tensor.device.type != "cuda", name)

    def call(self, function: int, values: Any, count: int) -> Any:
        if self._on_gpu and torch.cuda.is_initialized():
            stream = torch.cuda.current_stream().cuda_stream
            self.library.musacuda_set_stream(stream)
        return super().call(function, values, count)

    def _run(self, name: str, values: Any, result: Value, keep: list[Any]) -> None:
        arguments = [_real(self.unbox(value, [])) for value in values]
        if name.startswith("@"):
            output = _OWN[name](*arguments)
            written = [0] if name.endswith("_") else []
        else:
            operation = aten(name)
            count = operation.positional
            keywords = dict(zip(operation.names[count:], arguments[count:], strict=True))
            output = operation.function(*arguments[:count], **keywords)
            written = list(operation.written)
            if operation.poisoned:
                poison(output)
        for position in written:
            self._refresh(values[position])
        self._box(result, output, False, name, keep)


poisoning = True
"""Whether fresh memory is filled; off while time is taken."""


def poison(tensor: torch.Tensor) -> None:
    """Uninitialised memory reads as NaN (or -1), never as what was there before."""
    if not poisoning or not tensor.numel():
        return
    if tensor.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return
    storage = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    storage.set_(tensor.untyped_storage())
    storage.fill_(bridge_memory.pattern)


def _real(value: Any) -> Any:
    """Device requests of C++ as torch's devices, inside lists too."""
    if isinstance(value, DeviceRequest):
        return _CPU if value is ON_CPU else _CUDA
    return value


def _to(
    tensor: torch.Tensor,
    dtype: torch.dtype | None,
    device: torch.device | None,
    copy: bool,
    memory_format: torch.memory_format | None,
) -> torch.Tensor:
    keywords: dict[str, Any] = {}
    if memory_format is not None:
        keywords["memory_format"] = memory_format
    return tensor.to(device or tensor.device, dtype or tensor.dtype, copy=copy, **keywords)


def _tensor(
    data: Any, dtype: torch.dtype, device: torch.device | None, requires_grad: bool
) -> torch.Tensor:
    return torch.tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)


def _from_blob(
    address: int,
    sizes: list[int],
    strides: list[int],
    dtype: torch.dtype,
    device: torch.device | None,
) -> torch.Tensor:
    if device is None or device.type != "cuda":
        return OWN["@from_blob"](address, sizes, strides, dtype, None)  # type: ignore[no-any-return]
    if any(size == 0 for size in sizes):
        return torch.empty(sizes, dtype=dtype, device=device)
    extent = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    raw = torch.as_tensor(ForeignBytes(address, extent * dtype.itemsize), device=device)
    return raw.view(dtype).as_strided(sizes, strides)


_OWN: dict[str, Callable[..., Any]] = {
    **OWN,
    "@to": _to,
    "@tensor": _tensor,
    "@from_blob": _from_blob,
}


def load_runtime(path: str | Path) -> None:
    """Loads libmusacuda.so, once a process."""
    bridge.load_runtime(path, CudaRuntime)
