"""Measured times in words: the same for the report, `show` and `verify`."""

from musaagent.tools.results import FASTER, Latency, Speedup, Timing

NAMES = {
    "eager": "PyTorch eager",
    "compile": "torch.compile",
    "graph": "CUDA graph of eager",
}


def speed_lines(timing: Timing) -> list[str]:
    """Plain text: the candidate, a line for each baseline, what is missing, what is odd."""
    lines = [f"time {_latency(timing.candidate)} on {timing.device}"]
    for name, latency in timing.baselines.items():
        found = timing.over(name)
        said = f"; {ratio_text(found)}" if found else ""
        lines.append(f"    {NAMES.get(name, name)}: {_latency(latency)}{said}")
    lines += [f"    no time of {NAMES.get(n, n)}: {why}" for n, why in timing.missing.items()]
    lines += [f"    {line}" for line in _remarks(timing)]
    return lines


def speed_table(timing: Timing) -> list[str]:
    """The same as Markdown."""
    lines = [
        f"Device times on {timing.device}, taken in turns"
        + (f" at {', '.join(timing.shapes)}" if timing.shapes else "")
        + ":",
        "",
        "| what | median | 10 % to 90 % | runs | CPU for a call | speed-up of the candidate |",
        "| --- | --- | --- | --- | --- | --- |",
        _row("candidate", timing.candidate, ""),
    ]
    for name, latency in timing.baselines.items():
        found = timing.over(name)
        lines.append(_row(NAMES.get(name, name), latency, ratio_text(found) if found else ""))
    lines.append("")
    lines += [f"- No time of {NAMES.get(n, n)}: {why}" for n, why in timing.missing.items()]
    lines += [f"- {line}" for line in _remarks(timing)]
    lines.append(
        f"- Faster means more than {FASTER:g} times; the interval is that of the rounds in which "
        "both took turns (10 % to 90 %)"
    )
    return lines


def ratio_text(found: Speedup) -> str:
    """`2.31x (2.28 to 2.35), faster`; between 1/1.1 and 1.1 neither word is used."""
    word = "faster" if found.faster else "slower" if found.ratio < 1 / FASTER else "about equal"
    return f"{found.ratio:.2f}x ({found.low:.2f} to {found.high:.2f}), {word}"


def _latency(latency: Latency) -> str:
    return (
        f"{latency.median_ms:.4g} ms ({latency.low_ms:.4g} to {latency.high_ms:.4g}, "
        f"{latency.count} runs)"
    )


def _row(name: str, latency: Latency, ratio: str) -> str:
    return (
        f"| {name} | {latency.median_ms:.4g} ms | {latency.low_ms:.4g} to {latency.high_ms:.4g} | "
        f"{latency.count} | {latency.host_ms:.4g} ms | {ratio} |"
    )


def _remarks(timing: Timing) -> list[str]:
    lines = [line for line in (timing.precision, timing.card) if line]
    if timing.floor_ms is not None:
        lines.append(
            f"by the card's data sheet no kernel takes less than {timing.floor_ms:.4g} ms here: "
            f"the candidate takes {timing.candidate.median_ms / timing.floor_ms:.2f} times that"
        )
    return lines + [f"flag: {flag}" for flag in timing.flags]
