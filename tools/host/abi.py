"""The functions of the runtime library that the verifier's side calls, and whom they are for."""

import ctypes
from pathlib import Path
from typing import Any

_Signature = tuple[Any, list[Any]]
_FOR_LIBRARIES = frozenset(
    f"musahost_{name}"
    for name in ("thin_drop", "register", "unregister", "last_error", "note_host_bytes")
)
"""What our headers call from within a candidate's library too."""


def opened(path: Path, value: Any, *, guards: bool) -> ctypes.CDLL:
    """The library, with the types of its functions.

    `value` is the pointer type of a boxed value. `guards`: it can close device memory to host code.
    Raises OSError or AttributeError.
    """
    # Our thin tensors have the names of torch's own (at::empty, at::Tensor::~Tensor): seen by all,
    # they would be taken for them by modules built against torch's headers, and by torch's own
    # libraries that are loaded late. Modules of the thin levels name this library themselves.
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL)
    functions = _functions(value) | (_guard_functions() if guards else {})
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def control_functions() -> frozenset[str]:
    """For the verifier alone: no library of a candidate's has an honest use for them."""
    return frozenset(_functions(None) | _guard_functions()) - _FOR_LIBRARIES


def _functions(value: Any) -> dict[str, _Signature]:
    pointer, integer, text = ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p
    size, number = ctypes.c_size_t, ctypes.c_int
    return {
        "musahost_thin_bind": (None, [pointer, pointer]),
        "musahost_thin_tensor": (pointer, [integer, pointer, pointer, pointer]),
        "musahost_thin_refresh": (None, [pointer, pointer, pointer, pointer]),
        "musahost_thin_drop": (None, [pointer]),
        "musahost_thin_define": (number, [pointer, pointer, value]),
        "musahost_thin_describe": (text, [pointer]),
        "musahost_thin_function": (pointer, [pointer, integer]),
        "musahost_thin_default": (value, [pointer, integer]),
        "musahost_thin_call": (number, [pointer, pointer, integer, value]),
        "musahost_thin_finish": (None, []),
        "musahost_register": (None, [pointer, size, text]),
        "musahost_unregister": (None, [pointer]),
        "musahost_last_error": (number, [number]),
        "musahost_take_report": (text, []),
        "musahost_configure": (None, [number, ctypes.c_uint] + [number] * 3),
        "musahost_set_dry": (None, [number]),
    }


def _guard_functions() -> dict[str, _Signature]:
    pointer, text, size, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int
    return {
        "musahost_set_guard": (None, [number]),
        "musahost_device_map": (pointer, [number, size, text, number]),
        "musahost_refuse_host_pointers": (None, [number]),
        "musahost_device_give": (None, [pointer, number]),
        "musahost_device_unmap": (None, [pointer]),
        "musahost_device_alias": (pointer, [pointer]),
        "musahost_set_hiding": (None, [number]),
        "musahost_device_hide": (None, [pointer, size, pointer]),
        "musahost_device_show": (None, [pointer]),
        "musahost_device_lend": (number, [pointer, number]),
        "musahost_note_host_bytes": (None, [size]),
        "musahost_take_host_bytes": (size, []),
        "musahost_thread_count": (number, [number]),
        "musahost_expect_threads": (None, [number]),
        "musahost_take_threads_beside": (number, []),
    }
