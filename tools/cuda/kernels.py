"""Which kernels ran on the device, by torch's profiler (CUPTI), in the process that ran them."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from musaagent.tools.cuda import device_api


def record_kernels(call: Callable[[], Any]) -> tuple[Any, list[dict[str, Any]], str]:
    """Run `call`; its result, the kernels (merged by launch), and why there is no list, or ''."""
    from torch.profiler import profile

    result, ran = None, False
    try:
        with profile(activities=[device_api.profiler_activity()]) as profiler:
            result = call()
            ran = True
            device_api.api().synchronize()
        return result, _merged(profiler), ""
    except RuntimeError as error:
        if not ran:
            raise
        device_api.api().synchronize()  # a fault of the candidate shows here again
        return result, [], f"{type(error).__name__}: {error}".splitlines()[0]


def _merged(profiler: Any) -> list[dict[str, Any]]:
    """The trace file is the one form that has grid and block in every version of torch."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8", errors="replace"))["traceEvents"]
    return merge_events(events)


def merge_events(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry a kernel and launch shape, with count and nanoseconds; copies and fills of the
    driver's have no shape.
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for event in events:
        kind, name = event.get("cat"), event.get("name")
        if kind not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        shape: dict[str, Any] = {}
        if kind == "kernel":
            given = event.get("args", {})
            shape = {k: tuple(given.get(k) or (0, 0, 0)) for k in ("grid", "block")}
            shape["shared_bytes"] = int(given.get("shared memory") or 0)
        key = (name, *shape.values())
        entry = found.setdefault(key, {"kernel": name, **shape, "count": 0, "ns": 0})
        entry["count"] += 1
        entry["ns"] += int(float(event.get("dur", 0)) * 1000)
    return list(found.values())
