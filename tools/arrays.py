"""Tensors off the wire as numpy arrays, so that the trusted parent needs no torch."""

from typing import Any

import numpy as np

from musaagent.tools.compare import Value

_NUMPY = {
    "float64": np.float64,
    "float32": np.float32,
    "float16": np.float16,
    "int64": np.int64,
    "int32": np.int32,
    "int16": np.int16,
    "int8": np.int8,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "bool": np.bool_,
    "complex64": np.complex64,
    "complex128": np.complex128,
}


def value_from_wire(name: str, meta: dict[str, Any], blob: bytes) -> Value:
    """One tensor as `tools.wire.encode_tensors` sent it. Raises ValueError on nonsense."""
    dtype, shape = str(meta["dtype"]), tuple(int(n) for n in meta["shape"])
    if dtype == "bfloat16":
        flat = (np.frombuffer(blob, np.uint16).astype(np.uint32) << 16).view(np.float32)
    elif dtype in _NUMPY:
        flat = np.frombuffer(blob, _NUMPY[dtype])
    else:
        raise ValueError(f"{name}: dtype {dtype} cannot be compared")
    return Value(name, dtype, _shaped(flat, shape, meta.get("stride")))


def _shaped(flat: np.ndarray, shape: tuple[int, ...], stride: Any) -> np.ndarray:
    """The storage span seen through shape and stride (in elements), copied."""
    if any(n < 0 for n in shape):
        raise ValueError("negative size")
    count = int(np.prod(shape, dtype=np.int64))
    if stride is None or count == 0:
        return flat[:count].reshape(shape)
    steps = tuple(int(s) for s in stride)
    if len(steps) != len(shape) or any(s < 0 for s in steps):
        raise ValueError("stride does not fit the shape")
    span = 1 + sum((n - 1) * s for n, s in zip(shape, steps, strict=True))
    if span > flat.size:
        raise ValueError("shape and stride reach past the data")
    view = np.lib.stride_tricks.as_strided(
        flat, shape, tuple(s * flat.itemsize for s in steps), writeable=False
    )
    return np.ascontiguousarray(view).reshape(shape)
