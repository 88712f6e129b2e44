"""Values between Python and candidates: C++ holds tensors by handle, and asks torch here."""

import ctypes
import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from musaagent.tools.host import abi, bridge_memory
from musaagent.tools.host.bridge_device import (
    DeviceMemory,
    host_tensors,
    make_resizable,
    tensors_in,
)
from musaagent.tools.host.bridge_memory import Registry
from musaagent.tools.host.bridge_ops import OWN, aten, result_on_cpu, run_aten
from musaagent.tools.host.bridge_values import (
    CPU,
    DTYPE_NUMBERS,
    DTYPES,
    MEMORY_FORMATS,
    ON_CPU,
    ON_CUDA,
    Tag,
    Value,
    ValuePointer,
    set_text,
    set_values,
    tensor_fields,
    text_of,
    values_at,
)

_OUT_OF_MEMORY: type[BaseException] = torch.OutOfMemoryError

# By the status numbers of musahost_thin_call; 0 is success and the last a pending Python exception.
_EXCEPTIONS: tuple[type[BaseException], ...] = (
    RuntimeError,
    RuntimeError,
    ValueError,
    IndexError,
    TypeError,
    NotImplementedError,
    MemoryError,
    OverflowError,
    KeyError,
    _OUT_OF_MEMORY,
    torch.linalg.LinAlgError,  # type: ignore[attr-defined]
)
_PENDING = len(_EXCEPTIONS)

_CALL = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64, ValuePointer
)
_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_int64)


class _Held:
    """A tensor that C++ holds."""

    __slots__ = ("address", "key", "on_cpu", "tensor")

    def __init__(self, tensor: torch.Tensor, on_cpu: bool, key: int) -> None:
        self.tensor = tensor
        self.on_cpu = on_cpu
        self.key = key
        self.address = 0


class Runtime:
    """The loaded runtime library, the tensors that C++ holds, and the exceptions under way."""

    guards = True
    """Whether the library can close device memory to host code; a card does that by itself."""

    def __init__(self, path: Path) -> None:
        self.library = abi.opened(path, ValuePointer, guards=self.guards)
        self.registry = Registry(self.library.musahost_register, self.library.musahost_unregister)
        self.device: DeviceMemory | None = None
        """Where tensors are out of the reach of C++ host code."""
        self.on_host_copy: Callable[[torch.Tensor, str], object] = lambda tensor, way: None
        """Called when C++ takes a tensor of the device to host memory."""
        self._held: dict[int, _Held] = {}
        self._handles = itertools.count(1)
        self._numbers = itertools.count(1)
        self._pending: dict[int, BaseException] = {}
        self._thread = threading.local()
        # ctypes frees a callback with its last reference.
        self._callbacks = (_CALL(self._on_call), _RELEASE(self._on_release))
        self.library.musahost_thin_bind(*self._callbacks)

    def unbind(self) -> None:
        """Static tensors of loaded libraries outlive the interpreter; they must not call it."""
        self.library.musahost_thin_bind(None, None)

    # -- tensors

    def hold(self, tensor: torch.Tensor, on_cpu: bool, name: str) -> tuple[int, int]:
        """Gives C++ one reference; returns (address of its TensorData, handle)."""
        reached = not on_cpu or host_tensors.pinned(tensor)
        registered = self.registry.enabled and reached
        held = _Held(tensor, on_cpu, self.registry.acquire(tensor, name) if registered else 0)
        handle = next(self._handles)
        self._held[handle] = held
        address = self.library.musahost_thin_tensor(handle, *self._metadata(tensor, on_cpu))
        if not address:
            self._on_release(handle)
            raise RuntimeError("tensors of more than 25 dimensions are not supported")
        held.address = address
        return address, handle

    def lend(self, value: Value, tensor: torch.Tensor, name: str, keep: list[Any]) -> None:
        """As a function argument: the reference ends with `keep`."""
        address, handle = self.hold(tensor, tensor in host_tensors, name)
        value.tag, value.pointer, value.length = Tag.TENSOR, address, handle
        keep.append(_Lent(self.library, address))

    def _on_release(self, handle: int) -> None:
        held = self._held.pop(handle, None)
        if held is not None and held.key:
            self.registry.release(held.key)

    @property
    def held_count(self) -> int:
        """Tensors that C++ holds now."""
        return len(self._held)

    def address(self, tensor: torch.Tensor) -> int:
        """Of its first element, as C++ and kernels see it."""
        if self.device is None:
            return bridge_memory.data_pointer(tensor)
        return self.device.address(tensor)

    def _metadata(self, tensor: torch.Tensor, on_cpu: bool) -> tuple[Any, Any, Any]:
        if tensor.layout is not torch.strided:
            return tensor_fields(tensor, on_cpu, 0)
        if on_cpu and self.device is not None:
            host_tensors.add(tensor)
        return tensor_fields(tensor, on_cpu, self.address(tensor))

    def tensor(self, handle: int) -> torch.Tensor:
        return self._held[handle].tensor

    # -- calls from C++

    def _on_call(self, name: bytes, arguments: int, count: int, result: Any) -> int:
        keep: list[Any] = []
        self._thread.results = keep  # C++ copies before this thread comes back
        try:
            self._run(name.decode(), values_at(arguments, count), result[0], keep)
        except BaseException as error:  # comes out again where Python called C++
            number = next(self._numbers)
            self._pending[number] = error
            set_text(result[0], str(error), keep)
            result[0].extra = number
            return 1
        return 0

    def _run(self, name: str, values: Any, result: Value, keep: list[Any]) -> None:
        handles: list[int] = []
        arguments = [self.unbox(value, handles) for value in values]
        places = [self._held[h].on_cpu for h in handles]
        on_cpu = result_on_cpu(name, arguments, places) and not self._of_device(name, arguments)
        if name.startswith("@"):
            output = OWN[name](*arguments) if self.device is None else self._own(name, arguments)
            written = [0] if name.endswith("_") else []
        else:
            operation = aten(name)
            if self.device is not None and name.startswith("resize_"):
                make_resizable(arguments[0])
            pinned = operation.pin_memory >= 0 and arguments[operation.pin_memory]
            output = run_aten(operation, arguments)
            if pinned:
                host_tensors.pin(output)
            written = list(operation.written)
            if operation.fresh and self.registry.enabled and not on_cpu:
                output = bridge_memory.guarded_copy(output)
        if self.device is not None:
            output = self._placed(name, arguments, places, output, on_cpu)
            for position in written:
                self._note_written(values[position], places)
        for position in written:
            self._refresh(values[position])
        self._box(result, output, on_cpu, name, keep)

    def _of_device(self, name: str, arguments: list[Any]) -> bool:
        """Memory of the device stays there, whatever from_blob() calls it."""
        if name != "@from_blob" or self.device is None or not arguments[0]:
            return False
        return bool(self.library.musahost_device_alias(arguments[0]) != arguments[0])

    def _own(self, name: str, arguments: list[Any]) -> Any:
        """An operation of the bridge's own; an address of the device becomes the host's."""
        if self.device is None or not self._of_device(name, arguments):
            output = OWN[name](*arguments)
            if name == "@from_blob" and self.device is not None:
                self.device.leave(output)
            return output
        address, *others = arguments
        output = OWN[name](self.library.musahost_device_alias(address), *others)
        self.device.borrow(output, address)
        return output

    def _placed(
        self, name: str, arguments: list[Any], places: list[bool], output: Any, on_cpu: bool
    ) -> Any:
        """The result where real torch would have put it: what crosses is a copy."""
        crosses = name == "@to" and places[0] is not on_cpu
        if crosses and isinstance(output, torch.Tensor):
            source: torch.Tensor = arguments[0]
            if output.untyped_storage()._cdata == source.untyped_storage()._cdata:
                output = output.clone()
        if on_cpu:
            if not all(places):
                for tensor in tensors_in(output):
                    self.on_host_copy(tensor, f"{name.lstrip('@')} in C++")
            for tensor in tensors_in(output):
                host_tensors.add(tensor)
        elif any(argument is ON_CUDA for argument in arguments):
            for tensor in tensors_in(output):
                host_tensors.discard(tensor)  # though it was computed from host tensors alone
        else:
            host_tensors.follow(arguments, output)
        return output

    def _note_written(self, value: Value, places: list[bool]) -> None:
        """A tensor in host memory that an operation with others of the device wrote to."""
        if value.tag == Tag.TENSOR and not all(places):
            held = self._held[value.length]
            if held.on_cpu or held.tensor in host_tensors:
                self.on_host_copy(held.tensor, "written in C++")

    def _refresh(self, value: Value) -> None:
        """An operation in place may have changed shape, or moved to other memory."""
        if value.tag != Tag.TENSOR:
            return
        held = self._held[value.length]
        if held.key:
            key = self.registry.acquire(held.tensor, "resized tensor")
            self.registry.release(held.key)
            held.key = key
        self.library.musahost_thin_refresh(value.pointer, *self._metadata(held.tensor, held.on_cpu))

    def unbox(self, value: Value, handles: list[int]) -> Any:
        """The Python object of a value; the handles of its tensors are added to `handles`."""
        tag = value.tag
        if tag == Tag.TENSOR:
            handles.append(value.length)
            return self._held[value.length].tensor
        if tag in (Tag.NONE, Tag.DEFAULT):
            return None
        if tag == Tag.INTEGER:
            return value.integer
        if tag == Tag.REAL:
            return value.real
        if tag == Tag.BOOLEAN:
            return bool(value.integer)
        if tag == Tag.DTYPE:
            return DTYPES[value.integer]
        if tag == Tag.INTEGERS:
            return (
                list((ctypes.c_int64 * value.length).from_address(value.pointer))
                if (value.length)
                else []
            )
        if tag == Tag.DEVICE:
            return ON_CPU if value.integer == CPU else ON_CUDA
        return self._unbox_rare(value, handles)

    def _unbox_rare(self, value: Value, handles: list[int]) -> Any:
        tag = value.tag
        if tag == Tag.TEXT:
            return text_of(value)
        if tag == Tag.LAYOUT:
            return torch.strided
        if tag == Tag.MEMORY_FORMAT:
            return MEMORY_FORMATS[value.integer]
        if tag == Tag.COMPLEX:
            return complex(value.real, value.imaginary)
        if tag == Tag.REALS:
            return (
                list((ctypes.c_double * value.length).from_address(value.pointer))
                if (value.length)
                else []
            )
        if tag == Tag.TENSORS:
            return self._unbox_tensors(value, handles)
        if tag == Tag.ELLIPSIS:
            return ...
        items = [self.unbox(item, handles) for item in values_at(value.pointer, value.length)]
        if tag == Tag.TUPLE:
            return tuple(items)
        if tag == Tag.SLICE:
            return slice(*items)
        if tag == Tag.DICT:
            return dict(zip(items[::2], items[1::2], strict=True))
        return items

    def _unbox_tensors(self, value: Value, handles: list[int]) -> list[torch.Tensor | None]:
        """An array of at::Tensor objects: addresses of TensorData, which holds the handle."""
        if not value.length:
            return []
        found: list[torch.Tensor | None] = []
        for address in (ctypes.c_void_p * value.length).from_address(value.pointer):
            if not address:
                found.append(None)
                continue
            handle = ctypes.c_int64.from_address(address + 8).value
            handles.append(handle)
            found.append(self._held[handle].tensor)
        return found

    def _box(self, value: Value, item: Any, on_cpu: bool, name: str, keep: list[Any]) -> None:
        """Writes an operation's result. References of tensors pass to C++."""
        if isinstance(item, torch.Tensor):
            address, handle = self.hold(item, on_cpu, f"result of {name}")
            value.tag, value.pointer, value.length = Tag.TENSOR, address, handle
        elif item is None:
            value.tag = Tag.NONE
        elif isinstance(item, bool):
            value.tag, value.integer = Tag.BOOLEAN, item
        elif isinstance(item, int):
            value.tag, value.integer = Tag.INTEGER, item
        elif isinstance(item, float):
            value.tag, value.real = Tag.REAL, item
        elif isinstance(item, complex):
            value.tag, value.real, value.imaginary = Tag.COMPLEX, item.real, item.imag
        elif isinstance(item, str):
            set_text(value, item, keep)
        elif isinstance(item, torch.dtype):
            value.tag, value.integer = Tag.DTYPE, DTYPE_NUMBERS[item]
        elif isinstance(item, list) and item and all(type(x) is int for x in item):
            array = (ctypes.c_int64 * len(item))(*item)
            keep.append(array)
            value.tag, value.pointer, value.length = (
                Tag.INTEGERS,
                ctypes.addressof(array),
                len(item),
            )
        elif isinstance(item, list | tuple):
            kind = Tag.TUPLE if isinstance(item, tuple) else Tag.LIST
            slots = set_values(value, kind, len(item), keep)
            for index, entry in enumerate(item):
                self._box(slots[index], entry, on_cpu, name, keep)
        else:
            raise TypeError(f"{name} returned {type(item).__name__}, which C++ cannot take")

    # -- calls into C++

    def call(self, function: int, values: Any, count: int) -> Any:
        """Runs a function of a library; raises what it threw."""
        result = Value()
        first = next(self._numbers)
        if self.device is not None:
            self.library.musahost_expect_threads(self.device.threads())
        status = self.library.musahost_thin_call(function, values, count, result)
        try:
            if status:
                self.raise_status(status, result)
            return self.unbox(result, [])
        finally:
            self.library.musahost_thin_finish()
            # What C++ caught and dropped would keep the frames of this call alive.
            for number in [n for n in self._pending if n > first]:
                del self._pending[number]

    def raise_status(self, status: int, result: Value) -> None:
        if status == _PENDING:
            error = self._pending.pop(result.extra, None)
            if error is not None:
                raise error
        raise _EXCEPTIONS[min(status, _PENDING - 1)](text_of(result))


class _Lent:
    """Ends one C++ reference when it goes."""

    __slots__ = ("_address", "_library")

    def __init__(self, library: ctypes.CDLL, address: int) -> None:
        self._library = library
        self._address = address

    def __del__(self) -> None:
        self._library.musahost_thin_drop(self._address)
