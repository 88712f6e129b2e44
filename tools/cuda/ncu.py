"""Nsight Compute: a small fixed set of counters for the candidate's own kernels."""

import csv
import io
import re
from collections.abc import Sequence

METRICS = {
    "time_ns": "gpu__time_duration.sum",
    "dram_bytes": "dram__bytes.sum",
    "dram_pct": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm_pct": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "warps_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "waves": "launch__waves_per_multiprocessor",
    "registers": "launch__registers_per_thread",
}
_REFUSED = re.compile(r"==ERROR== (?P<text>.*)")


def command(ncu: str, kernels: Sequence[str], *, skip: int, count: int) -> list[str]:
    """Clocks stay as they are; only kernels of these names are measured."""
    pattern = "|".join(re.escape(name) for name in kernels)
    return [
        *(ncu, "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"),
        *("--metrics", ",".join(METRICS.values()), "--kernel-name-base", "function"),
        *("--kernel-name", f"regex:^({pattern})$"),
        *("--launch-skip", str(skip), "--launch-count", str(count), "--target-processes", "all"),
    ]


def parse(text: str) -> list[dict[str, float | str]]:
    """One entry a measured launch: `kernel` and the keys of METRICS that are there."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    rows = list(csv.reader(io.StringIO("\n".join(lines[start:]))))
    header, found = rows[0], []
    columns = {short: header.index(name) for short, name in METRICS.items() if name in header}
    name_column = header.index("Kernel Name")
    for row in rows[1:]:
        if len(row) != len(header) or not row[0].strip().isdigit():
            continue  # the row of units, or what the program printed
        entry: dict[str, float | str] = {"kernel": row[name_column]}
        for short, column in columns.items():
            try:
                entry[short] = float(row[column].replace(",", ""))
            except ValueError:
                continue
        found.append(entry)
    return found


def refusal(text: str) -> str:
    """Why ncu measured nothing, in its own words."""
    match = _REFUSED.search(text)
    if match is not None:
        return match["text"].strip()
    last = text.strip().rpartition("\n")[2]
    return last[:200] or "it printed nothing"


def weighted(entries: Sequence[dict[str, float | str]]) -> dict[str, float]:
    """Sums of time and bytes; the other counters as means weighted by time."""
    total = sum(float(e.get("time_ns", 0.0)) for e in entries)
    found = {"time_ns": total, "dram_bytes": sum(float(e.get("dram_bytes", 0.0)) for e in entries)}
    for name in ("dram_pct", "sm_pct", "warps_pct", "waves", "registers"):
        parts = [(float(e[name]), float(e.get("time_ns", 0.0))) for e in entries if name in e]
        if parts and total:
            found[name] = sum(value * share for value, share in parts) / total
    return found
