"""Input sets in shared card memory: where each tensor lies, how values get in and are seen."""

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from musaagent.tools.cuda.card_memory import CardRegion, bytes_at
from musaagent.tools.cuda.host_memory import HostRegion, host_bytes_at
from musaagent.tools.wire import WireError, checked_meta, storage_span

_ALIGNMENT = 256
"""torch's own allocations start at multiples of more; vector loads need 16."""

View = Callable[[int, int], Any]
"""Makes a flat uint8 tensor of an address and a number of bytes."""
CARD, HOST = "card", "host"
"""Where a shared set lies."""
_REGIONS: dict[str, tuple[type[CardRegion] | type[HostRegion], View]] = {
    CARD: (CardRegion, bytes_at),
    HOST: (HostRegion, host_bytes_at),
}


def storage_bytes(meta: Mapping[str, Any]) -> int:
    """Of the storage span that the tensor sees."""
    import torch

    dtype, shape, stride = checked_meta(meta)
    return storage_span(shape, stride) * int(getattr(torch, dtype).itemsize)


def layout(metas: Sequence[Mapping[str, Any]]) -> tuple[list[int], int]:
    """The offset of each tensor, and the bytes that all take."""
    offsets, end = [], 0
    for meta in metas:
        offsets.append(end)
        end += -(-storage_bytes(meta) // _ALIGNMENT) * _ALIGNMENT
    return offsets, end


def fill(memory: Any, tensors: Sequence[Any], metas: Sequence[Mapping[str, Any]]) -> list[int]:
    """Copy the tensors into flat bytes, strides and all; returns their offsets."""
    import torch

    offsets, _ = layout(metas)
    for tensor, meta, offset in zip(tensors, metas, offsets, strict=True):
        count = storage_span(meta["shape"], meta["stride"])
        if count == 0:
            continue
        flat = torch.as_strided(tensor.detach(), (count,), (1,), tensor.storage_offset())
        memory[offset : offset + storage_bytes(meta)].copy_(flat.view(torch.uint8))
    return offsets


def tensors_in(memory: Any, metas: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Tensors over what `fill` wrote. Raises WireError where they reach past its end."""
    import torch

    offsets, end = layout(metas)
    if end > memory.numel():
        raise WireError(f"{end} bytes of tensors in a region of {memory.numel()}")
    found = []
    for meta, offset in zip(metas, offsets, strict=True):
        dtype, shape, stride = checked_meta(meta)
        kind: torch.dtype = getattr(torch, dtype)
        nbytes = storage_bytes(meta)
        if nbytes == 0:
            found.append(torch.empty_strided(shape, stride, dtype=kind, device=memory.device))
            continue
        part = memory[offset : offset + nbytes].view(kind)
        found.append(part.as_strided(shape, stride, part.storage_offset()))
    return found


class SharedSet:
    """The giving side: one input set in a region of its own, until close()."""

    def __init__(
        self,
        tensors: Sequence[Any],
        metas: Sequence[Mapping[str, Any]],
        synchronize: Callable[[], object],
        where: str = CARD,
        view: View | None = None,
    ) -> None:
        """Raises CardMemoryError, OSError, or what torch raises."""
        kind, usual = _REGIONS[where]
        self.where = where
        self._region = kind.allocate(layout(metas)[1])
        try:
            fill((view or usual)(self._region.address, self._region.size), tensors, metas)
            synchronize()
            self.size, self.descriptor = self._region.size, self._region.export()
        except BaseException:
            self._region.close()
            raise

    def close(self) -> None:
        """What has mapped it keeps the memory."""
        self._region.close()


class MappedSet:
    """The taking side: `tensors` over what another process filled, until close()."""

    def __init__(
        self,
        descriptor: int,
        size: int,
        metas: Sequence[Mapping[str, Any]],
        where: str = CARD,
        view: View | None = None,
    ) -> None:
        """Raises CardMemoryError, OSError, or what torch raises. `descriptor` stays open."""
        kind, usual = _REGIONS[where]
        self._region = kind.imported(descriptor, size)
        try:
            self.tensors = tensors_in(
                (view or usual)(self._region.address, self._region.size), metas
            )
        except BaseException:
            self._region.close()
            raise

    def close(self) -> None:
        """The device must be done with the tensors, and nobody may use them any more."""
        self.tensors = []
        self._region.close()


def passable(descriptor: int) -> bool:
    """Whether an open file may go on to a candidate: the driver's, or memory without a name.

    What a task opened (folders, files, sockets, pipes) stays where it is.
    """
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode):
        return found.st_nlink == 0
    refused = (stat.S_ISDIR, stat.S_ISSOCK, stat.S_ISFIFO, stat.S_ISLNK, stat.S_ISBLK)
    return not any(test(found.st_mode) for test in refused)
