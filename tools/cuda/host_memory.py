"""Host memory that two processes share by an open file without a name: the way for large inputs
where the card's driver shares none. It looks like `card_memory.CardRegion` from outside."""

import ctypes
import mmap
import os
from contextlib import suppress
from typing import Any, Self


class HostRegion:
    """`size` bytes at `address` of this process, until close()."""

    def __init__(self, descriptor: int, size: int) -> None:
        """Takes `descriptor` over. Raises OSError or ValueError."""
        self.size, self._descriptor = size, descriptor
        try:
            self._map = mmap.mmap(descriptor, size)
        except BaseException:
            os.close(descriptor)
            raise
        self._first: Any = ctypes.c_ubyte.from_buffer(self._map)
        self.address = ctypes.addressof(self._first)

    @classmethod
    def allocate(cls, nbytes: int) -> Self:
        size = max(nbytes, 1)
        descriptor = os.memfd_create("inputs")
        try:
            os.ftruncate(descriptor, size)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor, size)

    @classmethod
    def imported(cls, descriptor: int, size: int) -> Self:
        """What another process allocated; `descriptor` stays open."""
        return cls(os.dup(descriptor), size)

    def export(self) -> int:
        """A new descriptor that stands for the memory; the caller closes it."""
        return os.dup(self._descriptor)

    def close(self) -> None:
        """Tensors over it must be gone. The memory goes with the last process that maps it."""
        self._first = None
        with suppress(BufferError):
            self._map.close()
        os.close(self._descriptor)


def host_bytes_at(address: int, nbytes: int) -> Any:
    """A flat uint8 tensor over memory of this process."""
    import torch

    return torch.frombuffer((ctypes.c_ubyte * nbytes).from_address(address), dtype=torch.uint8)
