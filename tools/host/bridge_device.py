"""Tensors whose memory candidates' host code cannot reach, as if it were a GPU's.

torch keeps using a tensor at its own address. C++ gets another one of the same pages, which are
closed while no kernel runs (`runtime/device.cpp`). While forward runs, torch's own address is
closed too, but for operators (`bridge_hidden`). With what real torch would have put into host
memory it is the other way round: its other address is closed while kernels run, and torch's own
never.
"""

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import _disable_current_modes

from musaagent.tools.host.bridge_memory import describe
from musaagent.tools.recorders import QuietMode

_SHARED_FOLDER = "/dev/shm"
_MOST_FILES = 512
"""Each storage keeps a file open."""
_SWEEP_EVERY = 32

# The shim replaces the attributes on torch.Tensor and torch.UntypedStorage.
_data_pointer = torch._C.TensorBase.data_ptr
_StorageBase: Any = torch._C.StorageBase
_storage_pointer = _StorageBase.data_ptr
_use_count: Any = torch._C._storage_Use_Count


@dataclass(frozen=True)
class _Piece:
    storage: StorageWeakRef
    address: int
    """Of the storage's first byte, as candidates see it."""
    owned: bool
    """Whether it is ours to unmap."""
    host: bool = False
    """Whether kernels cannot reach it, and host code can."""


class HostTensors:
    """Storages that real torch would have put into host memory."""

    def __init__(self) -> None:
        self._storages: dict[int, StorageWeakRef] = {}
        self.device: DeviceMemory | None = None
        """Told of what becomes the host's."""
        self._pinned: dict[int, StorageWeakRef] = {}

    def add(self, tensor: torch.Tensor) -> None:
        storage = _storage(tensor)
        if storage is not None:
            self._sweep()
            self._storages[storage._cdata] = StorageWeakRef(storage)
            if self.device is not None:
                self.device.show(storage)

    def pin(self, tensor: torch.Tensor) -> None:
        """In host memory, and kernels reach it as well."""
        self.add(tensor)
        storage = _storage(tensor)
        if storage is not None:
            self._pinned[storage._cdata] = StorageWeakRef(storage)

    def pinned(self, tensor: torch.Tensor) -> bool:
        if not self._pinned:
            return False
        storage = _storage(tensor)
        return storage is not None and storage._cdata in self._pinned

    def discard(self, tensor: torch.Tensor) -> None:
        storage = _storage(tensor)
        if storage is not None:
            self._storages.pop(storage._cdata, None)

    def __contains__(self, tensor: torch.Tensor) -> bool:
        if not self._storages:
            return False
        storage = _storage(tensor)
        return storage is not None and storage._cdata in self._storages

    def adopt(self, model: torch.nn.Module) -> None:
        """The harness of a GPU moves the model there."""
        for tensor in (*model.parameters(), *model.buffers()):
            self.discard(tensor)

    def follow(self, arguments: Any, result: Any) -> None:
        """A result of host tensors alone is one."""
        if not self._storages:
            return
        given = list(tensors_in(arguments))
        if given and all(tensor in self for tensor in given):
            for tensor in tensors_in(result):
                self.add(tensor)

    def _sweep(self) -> None:
        if len(self._storages) % _SWEEP_EVERY == 0:
            for key in [k for k, s in self._storages.items() if s.expired()]:
                del self._storages[key]


host_tensors = HostTensors()


def place_of(tensor: Any) -> str:
    """`cpu` or `cuda`: where real torch would have it."""
    return "cpu" if not isinstance(tensor, torch.Tensor) or tensor in host_tensors else "cuda"


class _Following(QuietMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        host_tensors.follow((args, kwargs), result)
        return result


def following() -> AbstractContextManager[Any]:
    """Within it what is computed from host tensors alone is one."""
    return _Following()


class DeviceMemory:
    """The addresses that C++ gets. One a process, made by `bridge.set_guard`."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._pieces: dict[int, _Piece] = {}
        self._plain: dict[int, StorageWeakRef] = {}
        self._new = 0
        self._nothing = os.open(os.devnull, os.O_RDONLY)
        self._torch_threads = self._native_threads()
        self._own_threads = 0
        self.unwatched = 0
        """Bytes of tensors that host code can reach, for there was no room to move them."""
        self.moved = 0
        """Bytes that were copied here, of one element each as a record of all threads sees them."""
        self._hiding = False
        self._hidden: dict[int, torch.UntypedStorage] = {}
        """Closed at torch's address. They are kept, or somebody else's memory would be closed."""
        host_tensors.device = self

    def address(self, tensor: torch.Tensor) -> int:
        """Of the first element, for kernels alone. The storage is moved the first time."""
        storage = _storage(tensor)
        if storage is None:
            return int(_data_pointer(tensor))
        # Not data_ptr(): a mode for functions, as a default device is, would call the shim's.
        offset = int(tensor.storage_offset()) * tensor.element_size()
        piece = self._piece(tensor, storage)
        if piece is None:
            return offset + int(_storage_pointer(storage))
        self._hide(storage, piece)
        return offset + piece.address

    def _piece(self, tensor: torch.Tensor, storage: torch.UntypedStorage) -> _Piece | None:
        """None where the memory stays where it is."""
        piece, host = self._pieces.get(storage._cdata), tensor in host_tensors
        if host_tensors.pinned(tensor):
            self._note_pinned(storage, piece)
            return piece
        if piece is not None:
            return self._given_to(piece, storage, host)
        if storage._cdata in self._plain or (host and not _movable(storage)):
            self._plain[storage._cdata] = StorageWeakRef(storage)
            return None
        return self._move(tensor, storage, host)

    def _given_to(self, piece: _Piece, storage: torch.UntypedStorage, host: bool) -> _Piece:
        """To the host, or to the device, where it is the other's."""
        if piece.owned and piece.host is not host:
            self._library.musahost_device_give(piece.address, int(host))
            piece = self._pieces[storage._cdata] = replace(piece, host=host)
        return piece

    def _note_pinned(self, storage: torch.UntypedStorage, piece: _Piece | None) -> None:
        """Kernels may take it, and leave there what host code then reads."""
        size = storage.nbytes()
        address = _storage_pointer(storage) if piece is None else piece.address
        self._library.musahost_register(address, size, b"pinned memory")
        self._library.musahost_note_host_bytes(size)

    def storage_address(self, storage: torch.UntypedStorage) -> int:
        """What UntypedStorage.data_ptr tells candidates."""
        if not storage.nbytes():
            return int(_storage_pointer(storage))
        with _disable_current_modes():
            whole = torch.empty(0, dtype=torch.uint8).set_(storage)
        return self.address(whole)

    def borrow(self, tensor: torch.Tensor, address: int) -> None:
        """`tensor` was made of memory that has the address `address` already."""
        storage = _storage(tensor)
        if storage is not None:
            self._pieces[storage._cdata] = _Piece(StorageWeakRef(storage), address, False)

    def leave(self, tensor: torch.Tensor) -> None:
        """It stays where it is: somebody else uses the memory too."""
        storage = _storage(tensor)
        if storage is not None and storage._cdata not in self._pieces:
            self._plain[storage._cdata] = StorageWeakRef(storage)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Until its end what has an `address` is closed at torch's own too."""
        self._hiding = True
        self._library.musahost_set_hiding(1)
        try:
            for piece in list(self._pieces.values()):
                storage = torch.UntypedStorage._new_with_weak_ptr(piece.storage.cdata)
                if storage is not None:
                    self._hide(storage, piece)
            yield
        finally:
            self._hiding = False
            self._library.musahost_set_hiding(0)
            for storage in self._hidden.values():
                self._library.musahost_device_show(_storage_pointer(storage))
            self._hidden = {}

    def hide(self, tensor: torch.Tensor) -> None:
        """It holds values of the device's, unless it is the host's. Nothing outside of `hidden`."""
        if self._hiding and tensor not in host_tensors:
            self.address(tensor)

    def show(self, storage: torch.UntypedStorage) -> None:
        """The host is given the values, which counts; its code can reach them from here on."""
        if self._hidden.pop(storage._cdata, None) is not None:
            self._library.musahost_device_show(_storage_pointer(storage))
            self._library.musahost_note_host_bytes(storage.nbytes())
        piece = self._pieces.get(storage._cdata)
        if piece is not None:
            self._given_to(piece, storage, host=True)

    @contextmanager
    def lent(self, tensors: Iterable[torch.Tensor]) -> Iterator[bool]:
        """Torch itself may use them. Tells whether one of them was closed."""
        storages = [_storage(tensor) for tensor in tensors] if self._hiding else []
        places = [_storage_pointer(storage) for storage in storages if storage is not None]
        opened = [place for place in places if self._library.musahost_device_lend(place, 1)]
        try:
            yield bool(opened)
        finally:
            for place in opened:
                self._library.musahost_device_lend(place, -1)

    def _hide(self, storage: torch.UntypedStorage, piece: _Piece) -> None:
        closed = piece.host or storage._cdata in self._hidden
        if self._hiding and piece.owned and not closed:
            self._hidden[storage._cdata] = storage
            place = _storage_pointer(storage)
            self._library.musahost_device_hide(place, storage.nbytes(), piece.address)

    def enter_candidate(self) -> None:
        """What started since the last `leave_candidate` is torch's or ours."""
        self._torch_threads = self._native_threads() - self._own_threads

    def leave_candidate(self) -> None:
        limit = self._torch_threads + threading.active_count()
        self._own_threads = max(self._native_threads(limit) - self._torch_threads, 0)

    def threads(self) -> int:
        """How many there are where the candidate's native code has started none."""
        return self._torch_threads + threading.active_count()

    def _native_threads(self, limit: int = 1 << 30) -> int:
        return int(self._library.musahost_thread_count(limit)) - threading.active_count()

    def _move(
        self, tensor: torch.Tensor, storage: torch.UntypedStorage, host: bool
    ) -> _Piece | None:
        """Into pages of a file, which all views of the storage follow. `host`: the CPU's."""
        self._sweep()
        nbytes = storage.nbytes()
        address = 0
        # Who shared it before us has its file, and reads it there.
        if not storage.is_shared() and len(self._pieces) < _MOST_FILES and nbytes < _room():
            try:
                with _disable_current_modes():  # its copy is no work of the candidate's
                    file, _ = _StorageBase._share_fd_cpu_(storage)
            except (RuntimeError, OSError):
                file = -1
            if file >= 0:
                self.moved += nbytes
                name = describe("tensor", tensor).encode()
                address = self._library.musahost_device_map(file, nbytes, name, int(host)) or 0
                os.dup2(self._nothing, file)  # torch closes it some day; nobody is to read it
        if not address:
            if not host:
                self.unwatched += nbytes
                self._library.musahost_refuse_host_pointers(0)
            self._plain[storage._cdata] = StorageWeakRef(storage)
            return None
        piece = _Piece(StorageWeakRef(storage), address, True, host)
        self._pieces[storage._cdata] = piece
        return piece

    def _sweep(self) -> None:
        """Memory of storages that are gone is given back, some of them at a time."""
        self._new += 1
        if self._new < _SWEEP_EVERY and len(self._pieces) < _MOST_FILES:
            return
        self._new = 0
        for key in [k for k in self._hidden if _use_count(k) == 1]:
            self._library.musahost_device_show(_storage_pointer(self._hidden[key]))
            del self._hidden[key]
        for key in [k for k, p in self._pieces.items() if p.storage.expired()]:
            piece = self._pieces.pop(key)
            if piece.owned:
                self._library.musahost_device_unmap(piece.address)
        for key in [k for k, s in self._plain.items() if s.expired()]:
            del self._plain[key]


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """None where there is no memory behind it."""
    try:
        storage = tensor.untyped_storage()
        return storage if storage.nbytes() and _storage_pointer(storage) else None
    except (RuntimeError, NotImplementedError):
        return None


def lent(*tensors: torch.Tensor) -> AbstractContextManager[bool]:
    """For what reads a tensor without an operator."""
    device = host_tensors.device
    return contextlib.nullcontext(False) if device is None else device.lent(tensors)


def _movable(storage: torch.UntypedStorage) -> bool:
    """Whether the memory is torch's own: somebody else's address of it would be stale."""
    return bool(storage.resizable())


def make_resizable(tensor: torch.Tensor) -> None:
    """Before resize_(), which a storage that was moved cannot take."""
    storage = _storage(tensor)
    if storage is None or not storage.is_shared():
        return
    with _disable_current_modes(), torch.no_grad(), lent(tensor):
        room = torch.empty(storage.nbytes(), dtype=torch.uint8).untyped_storage()
        old, new = (torch.empty(0, dtype=torch.uint8).set_(s) for s in (storage, room))
        new.copy_(old)
        tensor.set_(room, tensor.storage_offset(), tensor.size(), tensor.stride())


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, dict):
        yield from tensors_in(list(values.values()))
    elif isinstance(values, Iterable) and not isinstance(values, str | bytes):
        for value in values:
            yield from tensors_in(value)


def _room() -> int:
    try:
        system = os.statvfs(_SHARED_FOLDER)
    except OSError:
        return 0
    return system.f_bavail * system.f_frsize // 2
