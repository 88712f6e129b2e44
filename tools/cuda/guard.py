"""Whether a candidate replaced what it is judged and timed by, in the process that it shares.

The originals are noted when this module is imported, in the parent of all workers (those of another
vendor's card by `bind`). It stops what is written against stock benchmarks, not code that was
written against this file.
"""

import inspect
import time
from typing import Any

import torch
import torch._dynamo  # wraps torch.manual_seed, which is to be the original from here on
import torch.profiler

from musaagent.tools import trees, wire
from musaagent.tools.cuda import clock, device_api, kernels

_Names = tuple[tuple[str, Any, str], ...]
_NAMES: _Names = (
    ("time", time, "perf_counter perf_counter_ns monotonic monotonic_ns time time_ns"),
    ("torch", torch, "equal allclose isclose manual_seed empty empty_like"),
    ("torch.Tensor", torch.Tensor, "copy_ clone zero_ cuda cpu detach contiguous view equal"),
    ("torch.profiler", torch.profiler, "profile"),
    ("clock", clock, "measure refresh host_seconds clone_tree Flusher"),
    ("kernels", kernels, "record_kernels merge_events"),
    ("trees", trees, "flatten unflatten"),
    ("wire", wire, "encode_tensors decode_tensors"),
)


def _of_card() -> _Names:
    """torch.cuda's, or torch.musa's alone: torchada puts the latter's parts into torch.cuda."""
    label, card = f"torch.{device_api.device()}", device_api.api()
    return (
        (label, card, "Event Stream synchronize current_stream default_stream _sleep"),
        (f"{label}.Event", card.Event, "__new__ record elapsed_time synchronize query wait"),
        (f"{label}.Stream", card.Stream, "__new__ synchronize wait_stream record_event"),
    )


def _noted() -> dict[tuple[str, str], Any]:
    return {
        (label, name): inspect.getattr_static(owner, name, None)
        for label, owner, names in _watched
        for name in names.split()
    }


_watched: _Names = (*_NAMES, *_of_card())
_originals = _noted()


def bind() -> None:
    """Watches `device_api`'s card from here on; comes before a candidate's import."""
    global _watched, _originals
    if device_api.device() == "cuda":
        return
    _watched = (*_NAMES, *_of_card())
    _originals = _noted()


def replaced() -> list[str]:
    """`torch.cuda.Event.elapsed_time`, and what else is no longer the original."""
    now = _noted()
    return [".".join(key) for key, original in _originals.items() if now[key] is not original]
