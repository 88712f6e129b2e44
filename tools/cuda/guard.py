"""Whether a candidate replaced what it is judged and timed by, in the process that it shares.

The originals are noted when this module is imported, in the parent of all workers. It stops what is
written against stock benchmarks, not code that was written against this file.
"""

import inspect
import time
from typing import Any

import torch
import torch._dynamo  # wraps torch.manual_seed, which is to be the original from here on
import torch.profiler

from musaagent.tools import trees, wire
from musaagent.tools.cuda import clock, kernels

_NAMES: tuple[tuple[str, Any, str], ...] = (
    ("time", time, "perf_counter perf_counter_ns monotonic monotonic_ns time time_ns"),
    ("torch", torch, "equal allclose isclose manual_seed empty empty_like"),
    ("torch.Tensor", torch.Tensor, "copy_ clone zero_ cuda cpu detach contiguous view equal"),
    ("torch.cuda", torch.cuda, "Event Stream synchronize current_stream default_stream _sleep"),
    ("torch.cuda.Event", torch.cuda.Event, "__new__ record elapsed_time synchronize query wait"),
    ("torch.cuda.Stream", torch.cuda.Stream, "__new__ synchronize wait_stream record_event"),
    ("torch.profiler", torch.profiler, "profile"),
    ("clock", clock, "measure refresh host_seconds clone_tree Flusher"),
    ("kernels", kernels, "record_kernels merge_events"),
    ("trees", trees, "flatten unflatten"),
    ("wire", wire, "encode_tensors decode_tensors"),
)


def _noted() -> dict[tuple[str, str], Any]:
    return {
        (label, name): inspect.getattr_static(owner, name, None)
        for label, owner, names in _NAMES
        for name in names.split()
    }


_ORIGINALS = _noted()


def replaced() -> list[str]:
    """`torch.cuda.Event.elapsed_time`, and what else is no longer the original."""
    now = _noted()
    return [".".join(key) for key, original in _ORIGINALS.items() if now[key] is not original]
