"""What kernels may touch: poisoned, guarded and registered memory of tensors."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

_RED_ZONE = 4096
_ALIGNMENT = 512
POISON = 0xFF
"""NaN in every floating type, -1 in the signed integers."""

# The shim may replace the attributes on torch.Tensor; the originals stay on the base class.
data_pointer: Callable[[torch.Tensor], int] = torch._C.TensorBase.data_ptr
storage_pointer: Callable[[torch.UntypedStorage], int] = torch._C.StorageBase.data_ptr  # type: ignore[attr-defined]
_empty_strided = torch.empty_strided

pattern = POISON
"""What fresh memory is filled with now: one run has another, which no candidate can foresee."""
poisoning = True
"""Off where nothing is to be touched: tensors of any size cost no memory then."""


def describe(name: str, tensor: torch.Tensor) -> str:
    """`x float32[64, 128]`: how reports name a tensor."""
    kind = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
    return f"{name} {kind}" if name else kind


def poison(tensor: torch.Tensor) -> None:
    """Fills the whole storage with `pattern`."""
    storage = tensor.untyped_storage()
    if poisoning and storage.nbytes():
        ctypes.memset(storage_pointer(storage), pattern, storage.nbytes())


@contextmanager
def filled_with(byte: int | None) -> Iterator[None]:
    """Fresh memory has that pattern meanwhile; None is POISON."""
    global pattern
    pattern = POISON if byte is None else byte
    try:
        yield
    finally:
        pattern = POISON


def guard_storage(nbytes: int, dtype: torch.dtype) -> torch.Tensor:
    """A flat poisoned tensor of `nbytes` whose storage has unregistered memory on both sides."""
    buffer = bytearray(nbytes + 2 * _RED_ZONE + _ALIGNMENT)
    start = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    offset = _RED_ZONE + (-(start + _RED_ZONE)) % _ALIGNMENT
    count = nbytes // dtype.itemsize
    flat = torch.frombuffer(buffer, dtype=dtype, count=count, offset=offset)
    poison(flat)
    return flat


def guarded_like(tensor: torch.Tensor) -> torch.Tensor:
    """An uninitialised tensor of the same size and strides in guarded memory."""
    if tensor.numel() == 0:
        return _empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    flat = guard_storage(extent * tensor.dtype.itemsize, tensor.dtype)
    return flat.as_strided(tensor.shape, tensor.stride())


def guarded_copy(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, size and strides in memory with red zones around it."""
    with torch.no_grad():
        copy = guarded_like(tensor)
        if tensor.numel():
            overlapping = any(
                s == 0 and n > 1 for n, s in zip(tensor.shape, tensor.stride(), strict=True)
            )
            if overlapping:
                return guarded_copy(tensor.contiguous())
            copy.copy_(tensor.detach())
    return copy.requires_grad_(tensor.requires_grad) if tensor.requires_grad else copy


class Registry:
    """Counts the uses of each storage and tells the runtime of the first and the last."""

    def __init__(
        self,
        register: Callable[[int, int, bytes], Any],
        unregister: Callable[[int], Any],
    ) -> None:
        self.enabled = False
        self._register = register
        self._unregister = unregister
        self._uses: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._held: list[torch.Tensor] = []

    def name(self, tensor: torch.Tensor, name: str) -> None:
        """The name that reports give the tensor's storage from now on."""
        self._names[storage_pointer(tensor.untyped_storage())] = name

    def acquire(self, tensor: torch.Tensor, name: str) -> int:
        """Registers the storage; returns the key for `release`, 0 where there is no memory."""
        storage = tensor.untyped_storage()
        address, nbytes = storage_pointer(storage), storage.nbytes()
        if not address or not nbytes:
            return 0
        uses = self._uses.get(address, 0)
        if not uses:
            text = describe(self._names.get(address, name), tensor)
            self._register(address, nbytes, text.encode())
        self._uses[address] = uses + 1
        return address

    def release(self, key: int) -> None:
        uses = self._uses.get(key, 0) - 1
        if uses > 0:
            self._uses[key] = uses
        elif key:
            self._uses.pop(key, None)
            self._unregister(key)

    def hold(self, tensor: torch.Tensor) -> None:
        """Registers for good: the candidate took the bare address."""
        storage = storage_pointer(tensor.untyped_storage())
        if storage and not any(storage_pointer(t.untyped_storage()) == storage for t in self._held):
            self.acquire(tensor, "tensor taken by data_ptr()")
            self._held.append(tensor.detach())
