"""What holds a candidate back, from its counters: one class, the numbers that decided, one hint."""

from collections.abc import Mapping
from typing import Literal

Bound = Literal["memory", "compute", "latency", "launch", "tail", "unknown"]

_BUSY_PCT = 60.0
_LAUNCH_SHARE = 0.5
_FEW_WAVES = 1.0


def classify(counters: Mapping[str, float]) -> Bound:
    """The first rule that holds; `counters` as `profile` gathers them."""
    share = counters.get("kernel_share")
    if share is not None and share < _LAUNCH_SHARE:
        return "launch"
    dram, compute = counters.get("dram_pct"), counters.get("sm_pct")
    if dram is None or compute is None:
        return _by_roofline(counters)
    if max(dram, compute) >= _BUSY_PCT:
        return "memory" if dram >= compute else "compute"
    if counters.get("waves", _FEW_WAVES) < _FEW_WAVES:
        return "tail"
    return "latency"


def _by_roofline(counters: Mapping[str, float]) -> Bound:
    bandwidth = counters.get("bandwidth_share")
    arithmetic = counters.get("flops_share")
    if bandwidth is None or arithmetic is None:
        return "unknown"
    if max(bandwidth, arithmetic) < _BUSY_PCT / 100:
        return "latency"
    return "memory" if bandwidth >= arithmetic else "compute"


def suggest(bound: Bound, counters: Mapping[str, float]) -> str:
    """One thing to try next."""
    if counters.get("spill_bytes"):
        return "registers spill to memory: give each thread less work or smaller tiles"
    moved, least = counters.get("dram_bytes", 0.0), counters.get("least_bytes", 0.0)
    match bound:
        case "memory":
            if least and moved > 1.5 * least:
                return (
                    f"kernels move {moved / least:.1f} times the least bytes: fuse passes, or reuse"
                    " data through shared memory or registers"
                )
            return "memory-bound near its traffic floor: only fewer or narrower bytes help"
        case "compute":
            return "arithmetic-bound: use the matrix units, or fewer instructions for each element"
        case "tail":
            return "too few blocks to fill the card: split the work into more blocks"
        case "launch":
            return "most of the time no kernel runs: merge kernels, and drop temporary tensors"
        case "latency":
            if counters.get("warps_pct", 100.0) < 40:
                return "few warps in flight: lower registers or shared memory for each block"
            return "warps wait: wider loads (float4), more independent work for each thread"
    return ""
