"""Medians, percentiles and ratios of measured times."""

import statistics
from collections.abc import Sequence

from musaagent.tools.results import Latency, Speedup


def percentile(values: Sequence[float], share: float) -> float:
    """By linear interpolation between the ordered values."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def latency(times_ms: Sequence[float], host_s: float) -> Latency:
    return Latency(
        median_ms=statistics.median(times_ms),
        low_ms=percentile(times_ms, 0.1),
        high_ms=percentile(times_ms, 0.9),
        count=len(times_ms),
        host_ms=host_s * 1e3,
    )


def speedup(
    name: str, baseline: Sequence[Sequence[float]], candidate: Sequence[Sequence[float]]
) -> Speedup:
    """Ratio of the medians; the interval is over the rounds, in which both took turns."""
    ratios = [
        statistics.median(b) / statistics.median(c)
        for b, c in zip(baseline, candidate, strict=True)
    ]
    whole = [t for r in baseline for t in r], [t for r in candidate for t in r]
    return Speedup(
        baseline=name,
        ratio=statistics.median(whole[0]) / statistics.median(whole[1]),
        low=percentile(ratios, 0.1),
        high=percentile(ratios, 0.9),
    )
