"""The boxed values of the thin torch headers (`musahost_thin/value.h`), seen from Python."""

import ctypes
from enum import IntEnum
from typing import Any

import torch


class Tag(IntEnum):
    """What a Value holds; the order is that of the C++ enum."""

    NONE = 0
    TENSOR = 1
    INTEGER = 2
    REAL = 3
    BOOLEAN = 4
    TEXT = 5
    INTEGERS = 6
    REALS = 7
    LIST = 8
    TUPLE = 9
    DTYPE = 10
    DEVICE = 11
    LAYOUT = 12
    MEMORY_FORMAT = 13
    COMPLEX = 14
    DEFAULT = 15
    DICT = 16
    SLICE = 17
    ELLIPSIS = 18
    TENSORS = 19


class _First(ctypes.Union):
    _fields_ = (
        ("integer", ctypes.c_int64),
        ("real", ctypes.c_double),
        ("pointer", ctypes.c_void_p),
    )


class _Second(ctypes.Union):
    _fields_ = (("length", ctypes.c_int64), ("imaginary", ctypes.c_double))


class Value(ctypes.Structure):
    _anonymous_ = ("first", "second")
    _fields_ = (
        ("tag", ctypes.c_int32),
        ("extra", ctypes.c_int32),
        ("first", _First),
        ("second", _Second),
    )


ValuePointer = ctypes.POINTER(Value)

DTYPES: dict[int, torch.dtype] = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    8: torch.complex32,
    9: torch.complex64,
    10: torch.complex128,
    11: torch.bool,
    15: torch.bfloat16,
    23: torch.float8_e5m2,
    24: torch.float8_e4m3fn,
    27: torch.uint16,
    28: torch.uint32,
    29: torch.uint64,
}
DTYPE_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}

MEMORY_FORMATS = (
    torch.contiguous_format,
    torch.preserve_format,
    torch.channels_last,
    torch.channels_last_3d,
)

CPU = 0
CUDA = 1
_REAL_CPU = torch.device("cpu")


class DeviceRequest:
    """A device that C++ asks for. Memory is the host's either way; `cuda` is what it passes for."""

    __slots__ = ("cuda",)

    def __init__(self, cuda: bool) -> None:
        self.cuda = cuda


ON_CPU, ON_CUDA = DeviceRequest(False), DeviceRequest(True)


def values_at(pointer: int | None, count: int) -> Any:
    """`count` values as a ctypes array that borrows the memory."""
    return (Value * count).from_address(pointer) if count and pointer else ()


def text_of(value: Value) -> str:
    if not value.length or not value.pointer:
        return ""
    return ctypes.string_at(value.pointer, value.length).decode(errors="replace")


def set_text(value: Value, text: str, keep: list[Any]) -> None:
    """`keep` must live as long as the value is read."""
    raw = text.encode()
    buffer = ctypes.create_string_buffer(raw, len(raw) + 1)
    keep.append(buffer)
    value.tag = Tag.TEXT
    value.pointer = ctypes.addressof(buffer)
    value.length = len(raw)


def set_values(value: Value, tag: Tag, count: int, keep: list[Any]) -> Any:
    """Makes `value` a sequence of `count` values and returns them."""
    items = (Value * max(count, 1))()
    keep.append(items)
    value.tag = tag
    value.pointer = ctypes.addressof(items)
    value.length = count
    return items


def tensor_fields(tensor: torch.Tensor, on_cpu: bool, address: int) -> tuple[Any, Any, Any]:
    """Fields, sizes and strides for musahost_thin_tensor."""
    number = DTYPE_NUMBERS.get(tensor.dtype)
    if number is None or tensor.layout is not torch.strided:
        raise TypeError(f"{tensor.dtype} tensors with layout {tensor.layout} cannot go to C++")
    dim = tensor.dim()
    fields = (ctypes.c_int64 * 7)(
        address,
        number,
        CPU if on_cpu else CUDA,
        tensor.requires_grad,
        int(tensor.storage_offset()),
        int(tensor.untyped_storage().nbytes()),
        dim,
    )
    shape = ctypes.c_int64 * dim
    return fields, shape(*tensor.shape), shape(*tensor.stride())
