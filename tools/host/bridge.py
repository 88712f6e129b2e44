"""Loads compiled candidates into this process and calls their functions, with no pybind11.

One runtime library (libmusahost.so) serves all candidates. C++ holds tensors by handle; whatever it
asks of torch comes here through one callback.
"""

import atexit
import contextlib
import ctypes
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from musaagent.tools.host import bridge_memory
from musaagent.tools.host.bridge_device import DeviceMemory
from musaagent.tools.host.bridge_functions import Form, Function
from musaagent.tools.host.bridge_runtime import Runtime
from musaagent.tools.host.bridge_values import (
    Value,
)
from musaagent.tools.recorders import FEW_ELEMENTS

_FEW_BYTES = 8 * FEW_ELEMENTS
_FUNCTIONS_SYMBOL = "musahost_thin_functions"
_MODULE_SYMBOL = "musahost_thin_module"

_runtime: Runtime | None = None


def runtime() -> Runtime:
    """The loaded runtime. Raises RuntimeError before `load_runtime`."""
    if _runtime is None:
        raise RuntimeError("load_runtime() has not been called")
    return _runtime


def load_runtime(path: str | Path, make: Callable[[Path], Runtime] = Runtime) -> None:
    """Loads libmusahost.so (or what has its functions), once a process."""
    global _runtime
    if _runtime is None:
        _runtime = make(Path(path))
        atexit.register(_runtime.unbind)


def configure(
    *,
    order: int = 0,
    seed: int = 0,
    threads: int = 0,
    checked: bool = False,
    warp_size: int = 32,
) -> None:
    """Thread order 0 forward, 1 reverse, 2 random by `seed`; `threads` 0 is one a core."""
    loaded = runtime()
    loaded.registry.enabled = checked
    loaded.library.musahost_configure(order, seed, threads, int(checked), warp_size)


def set_dry(dry: bool) -> None:
    """From here on launches are checked and no kernel runs; memory stays as the system gives it."""
    runtime().library.musahost_set_dry(int(dry))
    bridge_memory.poisoning = not dry


def set_launching(launching: bool) -> None:
    """Off: launches are checked and do nothing, while memory is poisoned as ever."""
    runtime().library.musahost_set_dry(int(not launching))


def set_guard(on: bool) -> None:
    """On: host code cannot reach tensors; a load or store of it ends the process."""
    loaded = runtime()
    loaded.device = (loaded.device or DeviceMemory(loaded.library)) if on else None
    loaded.library.musahost_set_guard(int(on))


@contextlib.contextmanager
def candidate_code() -> Iterator[None]:
    """Threads that start within and stay are the candidate's, others are torch's.

    Not every target has a runtime of ours, or one that guards memory.
    """
    device = None if _runtime is None else _runtime.device
    if device is not None:
        device.enter_candidate()
    try:
        yield
    finally:
        if device is not None:
            device.leave_candidate()


def take_host_use() -> tuple[list[str], list[str]]:
    """Since the last call: what host code was given of the device's memory, where it is much; and
    what hides whether it was.
    """
    loaded = runtime()
    taken, unwatched = loaded.library.musahost_take_host_bytes(), []
    if loaded.library.musahost_take_threads_beside():
        unwatched.append("threads of its own were there while a kernel ran")
    if loaded.device is not None and loaded.device.unwatched:
        unwatched.append(f"{loaded.device.unwatched >> 10} KB of tensors could not be guarded")
    return [f"{taken} bytes"] if taken > _FEW_BYTES else [], unwatched


def load_library(
    path: str | Path, functions: Sequence[str] | None = None, *, checked: bool = False
) -> types.ModuleType:
    """The functions of a compiled candidate as a module.

    Raises ImportError where the library cannot be loaded or exports no table, and whatever the
    candidate's own module definition throws.
    """
    loaded = runtime()
    loaded.registry.enabled = loaded.registry.enabled or checked
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(str(error)) from None
    module = types.ModuleType(Path(path).stem)
    module.__file__ = str(path)
    found = 0
    for symbol in (_FUNCTIONS_SYMBOL, _MODULE_SYMBOL):
        if hasattr(library, symbol):
            found += 1
            _define(loaded, module, ctypes.cast(getattr(library, symbol), ctypes.c_void_p))
    if not found:
        raise ImportError(
            f"dynamic module does not define module export function (PyInit_{module.__name__})"
        )
    missing = [name for name in functions or () if not hasattr(module, name)]
    if missing:
        raise ImportError(f"{path} does not export {', '.join(missing)}")
    return module


def _define(loaded: Runtime, module: types.ModuleType, define: ctypes.c_void_p) -> None:
    table = ctypes.c_void_p()
    error = Value()
    status = loaded.library.musahost_thin_define(define, ctypes.byref(table), error)
    if status:
        loaded.raise_status(status, error)
    described = loaded.library.musahost_thin_describe(table).decode()
    own: dict[str, Function] = {}
    for index, line in enumerate(described.split("\x1e")[:-1]):
        name, code, doc, *arguments = line.split("\x1f")
        pointer = loaded.library.musahost_thin_function(table, index)
        function = own.setdefault(name, Function(loaded, name, doc))
        function.add(Form(loaded, pointer, code, arguments))
    for name, function in own.items():
        setattr(module, name, function)


def synchronize() -> None:
    """Raises RuntimeError, as torch.cuda.synchronize() would, if a launch failed unnoticed."""
    error = runtime().library.musahost_last_error(1)
    if error:
        raise RuntimeError(f"CUDA error: {error_text(error)}")


def error_text(error: int) -> str:
    """CUDA's text of an error number."""
    return _ERROR_TEXTS.get(error, f"error {error}")


def take_report() -> str:
    """Findings and launches since the last call, as abi.h's JSON text."""
    report: bytes = runtime().library.musahost_take_report()
    return report.decode()


def moved_to_the_device() -> int:
    """Bytes that were copied, since the start, to be out of the reach of host code."""
    device = runtime().device
    return 0 if device is None else device.moved


def guard_copy(tensor: torch.Tensor, name: str = "") -> torch.Tensor:
    """The same values, sizes and strides in memory with red zones; `name` appears in reports."""
    copy = bridge_memory.guarded_copy(tensor)
    if name:
        runtime().registry.name(copy, name)
    return copy


def fresh(tensor: torch.Tensor) -> torch.Tensor:
    """Uninitialised memory as a kernel should meet it: poisoned, and guarded in checked runs."""
    if _runtime is not None and _runtime.registry.enabled and type(tensor) is torch.Tensor:
        return bridge_memory.guarded_like(tensor)
    bridge_memory.poison(tensor)
    return tensor


def data_pointer(tensor: torch.Tensor) -> int:
    """Tensor.data_ptr for candidates: an address that Python saw may go into a kernel."""
    if _runtime is not None and _runtime.registry.enabled:
        _runtime.registry.hold(tensor)
    if _runtime is not None and type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return _runtime.address(tensor)
    return bridge_memory.data_pointer(tensor)


def allow_host_pointers() -> None:
    """Tensors that C++ is given are not in memory of ours."""
    loaded = runtime()
    if loaded.guards:
        loaded.library.musahost_refuse_host_pointers(0)


def leave(tensor: torch.Tensor) -> None:
    """Its memory has another address already that must stay valid."""
    if _runtime is not None and _runtime.device is not None:
        _runtime.device.leave(tensor)


def storage_pointer(storage: torch.UntypedStorage) -> int:
    """UntypedStorage.data_ptr for candidates."""
    if _runtime is not None and _runtime.device is not None:
        return _runtime.device.storage_address(storage)
    return bridge_memory.storage_pointer(storage)


_ERROR_TEXTS = {
    1: "invalid argument",
    2: "out of memory",
    9: "invalid configuration argument",
    13: "invalid device symbol",
    98: "invalid device function",
    700: "an illegal memory access was encountered",
    701: "too many resources requested for launch",
    702: "the launch timed out and was terminated",
    710: "device-side assert triggered",
    716: "misaligned address",
    717: "operation not supported on global/shared address space",
    719: "unspecified launch failure",
    720: "too many blocks in cooperative launch",
    801: "operation not supported",
}
