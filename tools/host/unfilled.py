"""Tensors of any size that cost nothing: reserved, never filled."""

import math
import mmap
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from musaagent.tools.recorders import QuietMode

_NO_RESERVE = 0x4000
"""MAP_NORESERVE of Linux, which Python's mmap does not name in all versions."""
_FILLS = frozenset(
    f"aten.{name}"
    for name in (
        *("uniform_", "normal_", "random_", "bernoulli_", "exponential_", "log_normal_"),
        *("geometric_", "cauchy_", "fill_", "zero_", "copy_", "mul_", "add_", "sub_", "div_"),
        *("clamp_", "erfinv_"),
    )
)
_MAKERS = {
    **dict.fromkeys(("aten.rand", "aten.randn", "aten.zeros", "aten.ones", "aten.full"), 0),
    **dict.fromkeys(("aten.randint", "aten.new_zeros", "aten.new_ones", "aten.new_full"), 1),
}
"""Functions that make filled tensors, with the place of the size among their arguments."""
_LIKE = frozenset(f"aten.{n}_like" for n in ("zeros", "ones", "full", "rand", "randn", "randint"))


class _Unfilled(QuietMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, _, overload = str(func).rpartition(".")
        kwargs = kwargs or {}
        if name in _FILLS:
            return args[0]
        if name in _MAKERS:
            place = _MAKERS[name] + (name == "aten.randint" and overload == "low")
            dtype = kwargs.get("dtype") or (
                args[0].dtype
                if "new_" in name
                else torch.int64
                if name == "aten.randint"
                else torch.get_default_dtype()
            )
            return _reserved(math.prod(args[place]), dtype).view(args[place])
        if name in _LIKE:
            dtype = kwargs.get("dtype") or args[0].dtype
            return _reserved(args[0].numel(), dtype).view(args[0].shape)
        return func(*args, **kwargs)


def _reserved(count: int, dtype: torch.dtype) -> torch.Tensor:
    """A flat tensor of zeros in pages that come when they are touched."""
    if not count:
        return torch.empty(0, dtype=dtype)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    return torch.frombuffer(mmap.mmap(-1, count * dtype.itemsize, flags=flags), dtype=dtype)


def unfilled() -> AbstractContextManager[Any]:
    """Within it nothing is drawn or written: modules of any size are made at once."""
    return _Unfilled()  # type: ignore[no-untyped-call,unused-ignore]


def zeros(metas: Sequence[Mapping[str, Any]]) -> list[torch.Tensor]:
    """Zeros by `dtype`, `shape` and `stride`, in memory that the system has not handed out."""
    made = []
    for meta in metas:
        shape, stride = meta["shape"], meta["stride"]
        span = 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) if all(shape) else 0
        flat = _reserved(span, getattr(torch, meta["dtype"]))
        made.append(flat.as_strided(shape, stride))
    return made
