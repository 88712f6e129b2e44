"""Card memory that two processes share: one allocates it and passes an open file, both map it.

By the driver's virtual memory management, called through ctypes: its file handles cross between
process namespaces, which the older IPC handles do not. Everything here raises CardMemoryError where
the driver, or the lack of one, says no; callers have another way.
"""

import contextlib
import ctypes
import functools
from types import TracebackType
from typing import Any, Self

LIBRARY = "libcuda.so.1"

# Values of cuda.h.
_PINNED = 1
_DEVICE = 1
_POSIX_FILE = 1
_READ_WRITE = 3
_MINIMUM_GRANULARITY = 0


class CardMemoryError(Exception):
    """One line: which call of the driver failed, and how."""


class Location(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class AllocFlags(ctypes.Structure):
    """The nameless struct in CUmemAllocationProp."""

    _fields_ = (
        ("compressionType", ctypes.c_ubyte),
        ("gpuDirectRDMACapable", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    )


class AllocationProp(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("requestedHandleTypes", ctypes.c_int),
        ("location", Location),
        ("win32HandleMetaData", ctypes.c_void_p),
        ("allocFlags", AllocFlags),
    )


class AccessDesc(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", Location), ("flags", ctypes.c_int))


_U64, _SIZE, _POINTER = ctypes.c_ulonglong, ctypes.c_size_t, ctypes.c_void_p
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "cuInit": (ctypes.c_uint,),
    "cuMemGetAllocationGranularity": (_POINTER, _POINTER, ctypes.c_int),
    "cuMemCreate": (_POINTER, _SIZE, _POINTER, _U64),
    "cuMemRelease": (_U64,),
    "cuMemAddressReserve": (_POINTER, _SIZE, _SIZE, _U64, _U64),
    "cuMemAddressFree": (_U64, _SIZE),
    "cuMemMap": (_U64, _SIZE, _SIZE, _U64, _U64),
    "cuMemUnmap": (_U64, _SIZE),
    "cuMemSetAccess": (_U64, _SIZE, _POINTER, _SIZE),
    "cuMemExportToShareableHandle": (_POINTER, _U64, ctypes.c_int, _U64),
    "cuMemImportFromShareableHandle": (_POINTER, _POINTER, ctypes.c_int),
}


class _Driver:
    """The calls that are needed, each checked."""

    def __init__(self, path: str) -> None:
        try:
            library = ctypes.CDLL(path)
            self._calls = {name: getattr(library, name) for name in _ARGUMENTS}
        except (OSError, AttributeError) as error:
            raise CardMemoryError(f"{path}: {error}") from None
        for name, types in _ARGUMENTS.items():
            self._calls[name].argtypes, self._calls[name].restype = types, ctypes.c_int
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        code = self._calls[name](*arguments)
        if code != 0:
            raise CardMemoryError(f"{name} failed with CUresult {code}")


@functools.cache
def _driver(path: str) -> _Driver:
    return _Driver(path)


def _properties(device: int) -> AllocationProp:
    return AllocationProp(
        type=_PINNED,
        requestedHandleTypes=_POSIX_FILE,
        location=Location(type=_DEVICE, id=device),
    )


class CardRegion:
    """`size` bytes at `address` of this process; a context manager, or call close().

    Tensors over it must be gone, and the device done with them, when it is closed.
    """

    def __init__(self, driver: _Driver, handle: int, size: int, device: int) -> None:
        """Maps what `handle` names; the handle is released here if that fails."""
        self._driver = driver
        self.size = size
        self.address = 0
        with contextlib.ExitStack() as undo:
            undo.callback(driver.call, "cuMemRelease", handle)
            address = _U64(0)
            driver.call("cuMemAddressReserve", ctypes.byref(address), size, 0, 0, 0)
            undo.callback(driver.call, "cuMemAddressFree", address, size)
            driver.call("cuMemMap", address, size, 0, handle, 0)
            undo.callback(driver.call, "cuMemUnmap", address, size)
            access = AccessDesc(location=Location(type=_DEVICE, id=device), flags=_READ_WRITE)
            driver.call("cuMemSetAccess", address, size, ctypes.byref(access), 1)
            self._undo = undo.pop_all()
        self.address, self._handle = int(address.value), handle

    @classmethod
    def allocate(cls, nbytes: int, device: int = 0) -> Self:
        """At least `nbytes` of the card's memory (rounded up), in an allocation that can be shared.

        A context must be on the card already (torch makes one with its first tensor).
        """
        driver, properties, unit = _driver(LIBRARY), _properties(device), ctypes.c_size_t(0)
        driver.call(
            "cuMemGetAllocationGranularity",
            ctypes.byref(unit),
            ctypes.byref(properties),
            _MINIMUM_GRANULARITY,
        )
        step = max(int(unit.value), 1)
        size = max((nbytes + step - 1) // step, 1) * step
        handle = _U64(0)
        driver.call("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(properties), 0)
        return cls(driver, int(handle.value), size, device)

    @classmethod
    def imported(cls, descriptor: int, size: int, device: int = 0) -> Self:
        """What another process exported; `size` is that of its region. `descriptor` stays open."""
        driver, handle = _driver(LIBRARY), _U64(0)
        driver.call("cuMemImportFromShareableHandle", ctypes.byref(handle), descriptor, _POSIX_FILE)
        return cls(driver, int(handle.value), size, device)

    def export(self) -> int:
        """A new file descriptor that stands for the memory; the caller closes it."""
        found = ctypes.c_int(-1)
        self._driver.call(
            "cuMemExportToShareableHandle", ctypes.byref(found), self._handle, _POSIX_FILE, 0
        )
        return int(found.value)

    def close(self) -> None:
        """Unmap it here; the memory itself goes with the last process that maps it."""
        self._undo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class ForeignBytes:
    """Device memory that torch does not own, for `torch.as_tensor`."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def bytes_at(address: int, nbytes: int) -> Any:
    """A flat uint8 tensor over the card's memory there."""
    import torch

    try:
        found: Any = torch.as_tensor(ForeignBytes(address, nbytes), device="cuda")
    except (RuntimeError, TypeError, ValueError) as error:
        # torch asks the runtime whose memory that is, which not every version knows of mapped
        # memory; this way it is told.
        make = getattr(torch._C, "_construct_storage_from_data_pointer", None)
        if make is None:
            raise CardMemoryError(f"torch makes no tensor over it: {error}") from None
        device = torch.device("cuda", torch.cuda.current_device())
        found = torch.empty(0, dtype=torch.uint8, device=device)
        found.set_(make(address, device, nbytes))
    if found.data_ptr() != address or found.numel() != nbytes:
        raise CardMemoryError("torch made a copy of it")
    return found
