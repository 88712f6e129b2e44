"""Python arguments to C++ parameters, by pybind11's rules of what converts to what."""

import ctypes
import operator
from collections.abc import Callable
from typing import Any, Protocol

import torch

from musaagent.tools.host.bridge_values import (
    CUDA,
    DTYPE_NUMBERS,
    MEMORY_FORMATS,
    Tag,
    Value,
    set_text,
    set_values,
)


class Boxer(Protocol):
    """Gives a tensor to C++."""

    def lend(self, value: Value, tensor: torch.Tensor, name: str, keep: list[Any]) -> None: ...


Converter = Callable[[Boxer, Value, Any, str, list[Any]], bool]
"""Writes an object into a Value; False where the parameter does not take it."""

_INTEGER_RANGES = {
    "b": (-(1 << 7), (1 << 7) - 1),
    "B": (0, (1 << 8) - 1),
    "h": (-(1 << 15), (1 << 15) - 1),
    "H": (0, (1 << 16) - 1),
    "i": (-(1 << 31), (1 << 31) - 1),
    "I": (0, (1 << 32) - 1),
    "q": (-(1 << 63), (1 << 63) - 1),
    "Q": (0, (1 << 64) - 1),
}


def _tensor(boxer: Boxer, value: Value, item: Any, name: str, keep: list[Any]) -> bool:
    if not isinstance(item, torch.Tensor):
        return False
    boxer.lend(value, item, name, keep)
    return True


def _integer(code: str) -> Converter:
    low, high = _INTEGER_RANGES[code]

    def convert(boxer: Boxer, value: Value, item: Any, name: str, keep: list[Any]) -> bool:
        if isinstance(item, float):
            return False
        try:
            number = operator.index(item)
        except TypeError:
            if not hasattr(item, "__int__"):
                return False
            try:
                number = int(item)
            except (TypeError, ValueError, RuntimeError):
                return False
        if not low <= number <= high:
            return False
        value.tag, value.integer = Tag.INTEGER, ctypes.c_int64(number).value
        return True

    return convert


def _real(boxer: Boxer, value: Value, item: Any, name: str, keep: list[Any]) -> bool:
    if isinstance(item, str | bytes):
        return False
    try:
        value.real = float(item)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return False
    value.tag = Tag.REAL
    return True


def _boolean(boxer: Boxer, value: Value, item: Any, name: str, keep: list[Any]) -> bool:
    if item is not None and not hasattr(type(item), "__bool__"):
        return False
    value.tag, value.integer = Tag.BOOLEAN, bool(item)
    return True


def _text(boxer: Boxer, value: Value, item: Any, name: str, keep: list[Any]) -> bool:
    if isinstance(item, bytes):
        item = item.decode()
    if not isinstance(item, str):
        return False
    set_text(value, item, keep)
    return True


def _scalar(boxer: Boxer, value: Value, item: Any, name: str, keep: list[Any]) -> bool:
    if isinstance(item, torch.Tensor) and item.numel() == 1:
        item = item.item()
    if isinstance(item, bool):
        value.tag, value.integer = Tag.BOOLEAN, item
    elif isinstance(item, int):
        value.tag, value.integer = Tag.INTEGER, item
    elif isinstance(item, complex) and not isinstance(item, float):
        value.tag, value.real, value.imaginary = Tag.COMPLEX, item.real, item.imag
    else:
        return _real(boxer, value, item, name, keep)
    return True


def _dtype(boxer: Boxer, value: Value, item: Any, name: str, keep: list[Any]) -> bool:
    if not isinstance(item, torch.dtype) or item not in DTYPE_NUMBERS:
        return False
    value.tag, value.integer = Tag.DTYPE, DTYPE_NUMBERS[item]
    return True


def _device(boxer: Boxer, value: Value, item: Any, name: str, keep: list[Any]) -> bool:
    if isinstance(item, str):
        item = torch.device(item)
    if not isinstance(item, torch.device):
        return False
    value.tag, value.integer = Tag.DEVICE, 0 if item.type == "cpu" else CUDA
    value.extra = -1 if item.index is None else item.index
    return True


def _layout(boxer: Boxer, value: Value, item: Any, name: str, keep: list[Any]) -> bool:
    value.tag, value.integer = Tag.LAYOUT, 0
    return isinstance(item, torch.layout)


def _memory_format(boxer: Boxer, value: Value, item: Any, name: str, keep: list[Any]) -> bool:
    if not isinstance(item, torch.memory_format):
        return False
    value.tag, value.integer = Tag.MEMORY_FORMAT, MEMORY_FORMATS.index(item)
    return True


def _nothing(boxer: Boxer, value: Value, item: Any, name: str, keep: list[Any]) -> bool:
    return item is None


def _optional(inner: Converter) -> Converter:
    def convert(boxer: Boxer, value: Value, item: Any, name: str, keep: list[Any]) -> bool:
        if item is None:
            value.tag = Tag.NONE
            return True
        return inner(boxer, value, item, name, keep)

    return convert


def _is_sequence(item: Any) -> bool:
    return (
        hasattr(item, "__getitem__")
        and hasattr(item, "__len__")
        and not isinstance(item, str | bytes | dict)
    )


def _sequence(inner: Converter, length: int | None = None) -> Converter:
    def convert(boxer: Boxer, value: Value, item: Any, name: str, keep: list[Any]) -> bool:
        if not _is_sequence(item):
            return False
        entries = list(item)
        if length is not None and len(entries) != length:
            return False
        slots = set_values(value, Tag.LIST, len(entries), keep)
        return all(
            inner(boxer, slots[i], entry, f"{name}[{i}]", keep) for i, entry in enumerate(entries)
        )

    return convert


def _tuple(inner: list[Converter]) -> Converter:
    def convert(boxer: Boxer, value: Value, item: Any, name: str, keep: list[Any]) -> bool:
        if not _is_sequence(item) or len(item) != len(inner):
            return False
        slots = set_values(value, Tag.TUPLE, len(inner), keep)
        return all(
            cast(boxer, slots[i], item[i], f"{name}[{i}]", keep) for i, cast in enumerate(inner)
        )

    return convert


def _mapping(key: Converter, entry: Converter) -> Converter:
    def convert(boxer: Boxer, value: Value, item: Any, name: str, keep: list[Any]) -> bool:
        if not hasattr(item, "items"):
            return False
        pairs = list(item.items())
        slots = set_values(value, Tag.DICT, 2 * len(pairs), keep)
        return all(
            key(boxer, slots[2 * i], k, name, keep)
            and entry(boxer, slots[2 * i + 1], v, f"{name}[{k!r}]", keep)
            for i, (k, v) in enumerate(pairs)
        )

    return convert


_PLAIN: dict[str, tuple[Converter, str]] = {
    "T": (_tensor, "torch.Tensor"),
    "?": (_boolean, "bool"),
    "d": (_real, "float"),
    "s": (_text, "str"),
    "S": (_scalar, "Union[int, float, bool, complex]"),
    "D": (_dtype, "torch.dtype"),
    "V": (_device, "torch.device"),
    "L": (_layout, "torch.layout"),
    "M": (_memory_format, "torch.memory_format"),
    "N": (_nothing, "None"),
    **{code: (_integer(code), "int") for code in _INTEGER_RANGES},
}


def parse_code(code: str) -> tuple[list[tuple[Converter, str]], str]:
    """The parameters (converter, type as pybind11 writes it) and the result type of a code."""
    parameters: list[tuple[Converter, str]] = []
    position = 0
    while code[position] != ">":
        converter, text, position = _parse(code, position)
        parameters.append((converter, text))
    return parameters, _parse(code, position + 1)[1]


def _parse(code: str, position: int) -> tuple[Converter, str, int]:
    letter = code[position]
    if letter in _PLAIN:
        return (*_PLAIN[letter], position + 1)
    if letter == "O":
        inner, text, position = _parse(code, position + 1)
        return _optional(inner), f"Optional[{text}]", position
    if letter == "A":
        end = code.index(";", position)
        count = int(code[position + 1 : end])
        inner, text, position = _parse(code, end + 1)
        return _sequence(inner, count), f"Annotated[list[{text}], FixedSize({count})]", position
    if letter == "[":
        inner, text, position = _parse(code, position + 1)
        return _sequence(inner), f"list[{text}]", position + 1
    inners, texts = [], []
    position += 1
    while code[position] not in ")}":
        inner, text, position = _parse(code, position)
        inners.append(inner)
        texts.append(text)
    if letter == "(":
        return _tuple(inners), f"tuple[{', '.join(texts)}]", position + 1
    return _mapping(*inners), f"dict[{', '.join(texts)}]", position + 1
