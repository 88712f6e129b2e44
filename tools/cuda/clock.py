"""Takes the time of one callable on the GPU, inside the process that runs it.

Each repetition: a short wait on the device so that the CPU gets ahead, fresh values into the same
input buffers, the L2 cache emptied, then event, call, event. Nothing but the call comes between the
emptied cache and the end, so that no other thread finds time to fill it. A second end event after a
device-wide synchronisation catches work on other streams.

What times are taken by is bound before any candidate is imported: a replaced torch.cuda.Event or
time.perf_counter changes nothing here (and `watch.Identities` tells of it). That of torch.cuda is
bound when this module is imported, that of another vendor's card by `bind`.
"""

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from musaagent.tools.cuda import device_api

_FLUSH_FACTOR = 2
_SLEEP_CYCLES_PER_S = 1.5e9
_LONGEST_SLEEP_S = 0.02
_SHORTEST_SLEEP_S = 0.0002
_ENQUEUE_S = 0.00005
"""What the CPU takes to enqueue one copy, flush or event, at worst."""

_perf_counter = time.perf_counter
_synchronize: Callable[[], Any] = getattr(torch._C, "_cuda_synchronize", torch.cuda.synchronize)
_sleep: Callable[[int], Any] = getattr(torch._C, "_cuda_sleep", torch.cuda._sleep)
_current_stream = torch.cuda.current_stream
_Event: Any = torch.cuda.Event
# Of the type in C, which cannot be changed.
_Base: Any = getattr(torch._C, "_CudaEventBase", torch.cuda.Event)
_record, _elapsed = _Base.record, _Base.elapsed_time
_new_event: Callable[..., Any] = _Base.__new__
_HEAP_TYPE = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: set for all classes that are written in Python."""


def bind() -> None:
    """Times are taken by `device_api`'s card from here on; comes before a candidate's import."""
    global _synchronize, _sleep, _current_stream, _Event, _record, _elapsed, _new_event
    if device_api.device() == "cuda":
        return
    card = device_api.api()
    _synchronize, _current_stream, _Event = card.synchronize, card.current_stream, card.Event
    _sleep = getattr(card, "_sleep", lambda cycles: None)  # not every torch has such a kernel
    in_c = (kind for kind in _Event.__mro__ if not kind.__flags__ & _HEAP_TYPE)
    base = next((kind for kind in in_c if hasattr(kind, "record")), None)
    _record, _elapsed = (base or _Event).record, (base or _Event).elapsed_time
    _new_event = base.__new__ if base else lambda kind, **options: kind(**options)


class Flusher:
    """Writes twice the L2's size, and lets go of lines that were made to persist."""

    def __init__(self) -> None:
        size = int(
            getattr(device_api.api().get_device_properties(0), "L2_cache_size", 0) or 64 << 20
        )
        self._buffer = torch.empty(
            _FLUSH_FACTOR * size // 4, dtype=torch.int32, device=device_api.device()
        )
        self._reset = _reset_function()

    def release(self) -> None:
        """Persisting lines become ordinary ones; on the CPU's time, not on a stream's."""
        if self._reset is not None:
            self._reset()

    def __call__(self) -> None:
        self._buffer.zero_()


def _reset_function() -> Callable[[], Any] | None:
    if device_api.device() != "cuda":
        return None
    for name in ("libcudart.so.13", "libcudart.so.12", "libcudart.so"):
        try:
            library = ctypes.CDLL(name, mode=ctypes.RTLD_LOCAL)
            function: Callable[[], Any] = library.cudaCtxResetPersistingL2Cache
        except (OSError, AttributeError):
            continue
        return function
    return None


def refresh(buffers: Sequence[Any], masters: Sequence[Any]) -> None:
    """New values at the old addresses."""
    for buffer, master in zip(buffers, masters, strict=True):
        buffer.copy_(master)


def measure(
    call: Callable[[], Any],
    buffers: Sequence[torch.Tensor],
    sets: Sequence[Sequence[torch.Tensor]],
    *,
    count: int,
    first: int,
    host_s: float,
    flusher: Flusher,
    keep: int = -1,
) -> dict[str, Any]:
    """`count` repetitions; the input set rotates, starting with `first`.

    Returns milliseconds by the stream's events and by device-wide ones, and the result of
    repetition `keep` (cloned), None for -1.
    """
    pause = max(2.0 * host_s + (len(buffers) + 6) * _ENQUEUE_S, _SHORTEST_SLEEP_S)
    cycles = int(min(pause, _LONGEST_SLEEP_S) * _SLEEP_CYCLES_PER_S)
    stream_ms, device_ms, kept = [], [], None
    for index in range(count):
        start, end, after = (_new_event(_Event, enable_timing=True) for _ in range(3))
        stream = _current_stream()
        flusher.release()
        for buffer in buffers:
            buffer.zero_()  # who reads its inputs ahead of its turn reads wrong ones
        _synchronize()
        _sleep(cycles)
        refresh(buffers, sets[(first + index) % len(sets)])
        flusher()
        _record(start, stream)
        result = call()
        _record(end, stream)
        _synchronize()
        _record(after, stream)
        _synchronize()
        stream_ms.append(_elapsed(start, end))
        device_ms.append(_elapsed(start, after))
        if index == keep:
            kept = clone_tree(result)
        del result
    return {"stream_ms": stream_ms, "device_ms": device_ms, "kept": kept}


def host_seconds(call: Callable[[], Any], count: int = 5) -> float:
    """How long the CPU is busy with one call, with the device idle before it: the median."""
    found = []
    for _ in range(count):
        _synchronize()
        start = _perf_counter()
        call()
        found.append(_perf_counter() - start)
    _synchronize()
    return sorted(found)[count // 2]


def clone_tree(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, list | tuple):
        return type(value)(clone_tree(item) for item in value)
    if isinstance(value, dict):
        return {key: clone_tree(item) for key, item in value.items()}
    return value
