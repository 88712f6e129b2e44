"""What Moore Perf Compute (mcu) and Moore Perf System (msys) print, read.

Moore Threads' pages and programs that call the tools do not agree on their forms, so both that
were seen are taken: mcu's tables with the unit before the value (version 1.3) and lines with the
value before the unit; msys' csv with any of the column names that were seen.
"""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_KERNEL = re.compile(
    r"^\s*(?P<name>\S.*?)\s+\((?P<grid>\d+, *\d+, *\d+)\)x\((?P<block>\d+, *\d+, *\d+)\)"
)
_UNITS = (
    r"%|ns|us|ms|s|nsecond|usecond|byte|Kbyte|Mbyte|Gbyte|Gbyte/s|Mbyte/s|cycle|cycle/\S+|\S*/\S+"
)
_UNIT_FIRST = re.compile(
    rf"^\s*(?P<name>\S.*?)\s{{2,}}(?P<unit>{_UNITS})?\s+(?P<value>[-\d.,]+)\s*$"
)
_VALUE_FIRST = re.compile(
    rf"^\s*(?P<name>\S.*?)\s{{2,}}(?P<value>[-\d.,]+)\s*(?P<unit>{_UNITS})?\s*$"
)
_REFUSED = re.compile(r"==ERROR==\s*(?P<text>.*)|(?P<none>No kernels were profiled.*)")
# mcu's names, as the counters of `cuda.bound`.
_NAMES = {
    ("compute(mp) throughput", "%"): "sm_pct",
    ("memory throughput", "%"): "dram_pct",
    ("waves per mp", ""): "waves",
    ("registers per thread", "register/thread"): "registers",
    ("achieved occupancy", "%"): "warps_pct",
    ("l2 hit rate", "%"): "l2_hit_pct",
}
_TO_NS = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "s": 1e9}


@dataclass
class KernelMetrics:
    """One measured launch."""

    kernel: str
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    counters: dict[str, float] = field(default_factory=dict)


def mcu_command(mcu: str, report: str, sections: Sequence[str] = ()) -> list[str]:
    """mcu in front of a program: every kernel, details on stdout, the report replaced."""
    line = [mcu, "-f", "-o", report, "--page", "details"]
    return [*line, *(word for name in sections for word in ("--section", name))]


def parse_mcu(text: str) -> list[KernelMetrics]:
    """Every launch with what of its metrics is known; empty where there is none."""
    found: list[KernelMetrics] = []
    for line in text.splitlines():
        if match := _KERNEL.match(line):
            found.append(
                KernelMetrics(match["name"], _triple(match["grid"]), _triple(match["block"]))
            )
            continue
        metric = _metric(line)
        if metric is None:
            continue
        if not found:
            found.append(KernelMetrics(""))
        name, unit, value = metric
        if name == "duration" and unit in _TO_NS:
            found[-1].counters.setdefault("time_ns", value * _TO_NS[unit])
        elif counter := _NAMES.get((name, unit)):
            found[-1].counters.setdefault(counter, value)
    return [kernel for kernel in found if kernel.counters]


def _metric(line: str) -> tuple[str, str, float] | None:
    match = _UNIT_FIRST.match(line) or _VALUE_FIRST.match(line)
    if match is None:
        return None
    try:
        value = float(match["value"].replace(",", ""))
    except ValueError:
        return None
    name = re.sub(r"\s*\(", "(", match["name"].strip().lower())
    return name, match["unit"] or "", value


def mcu_refusal(text: str) -> str:
    """Why mcu measured nothing, in its own words."""
    match = _REFUSED.search(text)
    if match is not None:
        return (match["text"] or match["none"] or "").strip()
    return text.strip().rpartition("\n")[2][:200] or "it printed nothing"


def weighted(kernels: Sequence[KernelMetrics]) -> dict[str, float]:
    """Times added up; the other counters as means weighted by time."""
    total = sum(k.counters.get("time_ns", 0.0) for k in kernels)
    found = {"time_ns": total} if total else {}
    for name in sorted({n for k in kernels for n in k.counters} - {"time_ns"}):
        parts = [
            (k.counters[name], k.counters.get("time_ns", 0.0) if total else 1.0)
            for k in kernels
            if name in k.counters
        ]
        weight = sum(share for _, share in parts)
        if weight:
            found[name] = sum(value * share for value, share in parts) / weight
    return found


def msys_commands(msys: str, report: str) -> tuple[list[str], list[str]]:
    """The line before a program, and the one that reads its report into csv files."""
    profile = [msys, "profile", "--trace=musa", "-o", report]
    stats = [msys, "stats", "--format", "csv", "--report", "musa_gpu_kern_sum"]
    return profile, [*stats, "--output", report, f"{report}.msys-rep"]


def parse_msys_kernels(text: str) -> list[tuple[str, int, float]]:
    """Name, count and total nanoseconds of each kernel in a `musa_gpu_kern_sum` csv."""
    lines = text.splitlines()
    start = next(
        (i for i, line in enumerate(lines) if "name" in line.lower() and "," in line), None
    )
    if start is None:
        return []
    rows = list(csv.reader(io.StringIO("\n".join(lines[start:]))))
    columns = [re.sub(r"\s+", " ", c.strip().lower()) for c in rows[0]]
    name = _column(columns, ("name", "kernel name", "kernel"))
    count = _column(columns, ("instances", "calls", "count", "num calls"))
    total = _column(columns, ("total time (ns)", "total time", "total (ns)", "total"))
    mean = _column(columns, ("avg (ns)", "avg", "average", "mean"))
    found = []
    for row in rows[1:]:
        if name is None or len(row) != len(columns):
            continue
        number = int(_number(row, count) or 0)
        time_ns = _number(row, total)
        if time_ns is None and mean is not None:
            time_ns = (_number(row, mean) or 0.0) * number
        found.append((row[name], number, time_ns or 0.0))
    return found


def _column(columns: Sequence[str], names: Sequence[str]) -> int | None:
    return next((columns.index(n) for n in names if n in columns), None)


def _number(row: Sequence[str], column: int | None) -> float | None:
    if column is None:
        return None
    match = re.match(r"[-\d.,]+", row[column].strip())
    return float(match[0].replace(",", "")) if match else None


def _triple(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.split(","))
