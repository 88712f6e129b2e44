"""Takes the time of one callable on the GPU, inside the process that runs it.

Each repetition: fresh values into the same input buffers, the L2 cache emptied, a short wait on the
device so that the CPU gets ahead, then event, call, event. A second end event after a device-wide
synchronisation catches work on other streams.
"""

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

_FLUSH_FACTOR = 2
_SLEEP_CYCLES_PER_S = 1.5e9
_LONGEST_SLEEP_S = 0.02
_SHORTEST_SLEEP_S = 0.0002


class Flusher:
    """Writes twice the L2's size, and lets go of lines that were made to persist."""

    def __init__(self) -> None:
        size = int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0) or 64 << 20)
        self._buffer = torch.empty(_FLUSH_FACTOR * size // 4, dtype=torch.int32, device="cuda")
        self._reset = _reset_function()

    def __call__(self) -> None:
        if self._reset is not None:
            self._reset()
        self._buffer.zero_()


def _reset_function() -> Callable[[], Any] | None:
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
    pause = min(max(2.0 * host_s, _SHORTEST_SLEEP_S), _LONGEST_SLEEP_S)
    stream_ms, device_ms, kept = [], [], None
    for index in range(count):
        refresh(buffers, sets[(first + index) % len(sets)])
        flusher()
        torch.cuda.synchronize()
        start, end, after = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        torch.cuda._sleep(int(pause * _SLEEP_CYCLES_PER_S))  # type: ignore[no-untyped-call,unused-ignore]
        start.record()
        result = call()
        end.record()
        torch.cuda.synchronize()
        after.record()
        torch.cuda.synchronize()
        stream_ms.append(start.elapsed_time(end))
        device_ms.append(start.elapsed_time(after))
        if index == keep:
            kept = clone_tree(result)
        del result
    return {"stream_ms": stream_ms, "device_ms": device_ms, "kept": kept}


def host_seconds(call: Callable[[], Any], count: int = 5) -> float:
    """How long the CPU is busy with one call, with the device idle before it: the median."""
    found = []
    for _ in range(count):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return sorted(found)[count // 2]


def clone_tree(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, list | tuple):
        return type(value)(clone_tree(item) for item in value)
    if isinstance(value, dict):
        return {key: clone_tree(item) for key, item in value.items()}
    return value
