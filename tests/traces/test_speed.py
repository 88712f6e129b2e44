"""A measured speed-up goes into the report, the human output, the reward and the choice of the best."""

from pathlib import Path

import pytest

from musaagent.display import show_verdict
from musaagent.ranking import sort_key
from musaagent.tools.results import (
    Latency,
    Launch,
    Profile,
    Speedup,
    Status,
    Timing,
    Trial,
    Verdict,
)
from musaagent.traces.report import render_report
from musaagent.traces.rewards import measured_speedup, score
from musaagent.traces.schema import ProfileTaken, RunFinished, VerdictReached, parse_event
from musaagent.traces.speed import ratio_text
from musaagent.traces.store import Trajectory, read_trajectory

GOLDEN = read_trajectory(Path(__file__).with_name("golden_v1.jsonl"))
SHAPES = ("float32[4096, 16384]",)


def timing(ms: float = 0.5, *, too_fast: bool = False) -> Timing:
    return Timing(
        device="NVIDIA H200",
        candidate=Latency(median_ms=ms, low_ms=0.98 * ms, high_ms=1.05 * ms, count=80),
        baselines={
            "eager": Latency(median_ms=1.0, low_ms=0.9, high_ms=1.1, count=80, host_ms=0.02),
            "graph": Latency(median_ms=0.52, low_ms=0.5, high_ms=0.55, count=80),
        },
        speedups=(
            Speedup(baseline="eager", ratio=1.0 / ms, low=0.95 / ms, high=1.04 / ms),
            Speedup(baseline="graph", ratio=0.52 / ms, low=0.5 / ms, high=0.55 / ms),
        ),
        missing={"compile": "RuntimeError: no triton"},
        precision="float32 products in float32 (TF32 off) on both sides",
        floor_ms=0.25,
        flags=("work went on after its stream's end",),
        too_fast=too_fast,
        shapes=SHAPES,
    )


def verdict(found: Timing | None) -> Verdict:
    trials = (Trial(name="seed 1", passed=True),)
    return Verdict(status=Status.PASSED, target="cuda", trials=trials, timing=found, shapes=SHAPES)


@pytest.mark.parametrize(
    ("ratio", "word"),
    [(1.11, "faster"), (1.09, "about equal"), (0.95, "about equal"), (0.5, "slower")],
)
def test_faster_means_more_than_a_tenth(ratio: float, word: str) -> None:
    found = Speedup(baseline="eager", ratio=ratio, low=0.9 * ratio, high=1.2 * ratio)
    assert found.faster is (ratio > 1.1)
    assert ratio_text(found).endswith(word)
    assert f"({0.9 * ratio:.2f} to {1.2 * ratio:.2f})" in ratio_text(found)


def test_the_human_output_has_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    show_verdict(verdict(timing()))
    out = capsys.readouterr().out
    assert "time 0.5 ms (0.49 to 0.525, 80 runs) on NVIDIA H200" in out
    assert "PyTorch eager: 1 ms (0.9 to 1.1, 80 runs); 2.00x (1.90 to 2.08), faster" in out
    assert "CUDA graph of eager: 0.52 ms (0.5 to 0.55, 80 runs); 1.04x" in out
    assert "no time of torch.compile: RuntimeError: no triton" in out
    assert "TF32 off" in out
    assert "2.00 times that" in out
    assert "flag: work went on after its stream's end" in out


def on_gpu(found: Timing | None) -> Trajectory:
    """The golden run with the verdict of its best turn as a GPU would give it."""
    best = GOLDEN.last(RunFinished)
    assert best is not None
    profile = Profile(
        target="cuda", engine="torch profiler; ncu", bound="memory", counters={"dram_pct": 71.0}
    )
    events = []
    for event in GOLDEN.events:
        if event.turn == best.best_turn and isinstance(event, VerdictReached):
            event = event.model_copy(update={"verdict": verdict(found)})
        if event.turn == best.best_turn and isinstance(event, ProfileTaken):
            event = event.model_copy(update={"profile": profile})
        if event.kind == "run_started":
            settings = event.settings.model_copy(update={"target": "cuda"})
            event = event.model_copy(update={"settings": settings})
        # What was recorded is read again as it was.
        events.append(parse_event(event.model_dump_json()))
    return Trajectory(tuple(events))


def test_the_report_has_a_table_of_times() -> None:
    report = render_report(on_gpu(timing()))
    speed = report.split("## Speed\n")[1].split("\n## ")[0]
    assert "Device times on NVIDIA H200, taken in turns at float32[4096, 16384]" in speed
    assert "| candidate | 0.5 ms | 0.49 to 0.525 | 80 | 0 ms |  |" in speed
    assert (
        "| PyTorch eager | 1 ms | 0.9 to 1.1 | 80 | 0.02 ms | 2.00x (1.90 to 2.08), faster |"
        in speed
    )
    assert "- No time of torch.compile: RuntimeError: no triton" in speed
    assert "more than 1.1 times" in speed
    assert "0.5 ms, 2.00x eager" in report.split("## Turns\n")[1]
    assert "Bound by memory (torch profiler; ncu): dram_pct 71" in report
    assert "no speed-up is claimed" not in report
    bare = render_report(on_gpu(None))
    assert "## Speed" not in bare
    assert "nothing was timed, and no speed-up is claimed" in bare


def test_the_reward_counts_the_speed_up_over_eager() -> None:
    terms = score(verdict(timing(0.5)))
    assert terms is not None
    assert (terms.speedup, terms.score) == (2.0, 2.0)
    slow = score(verdict(timing(2.0)))
    assert slow is not None
    assert (slow.speedup, slow.score) == (0.5, 1.0)
    none = score(verdict(None))
    assert none is not None
    assert (none.speedup, none.score) == (None, 1.0)


def test_what_cannot_be_true_earns_nothing() -> None:
    assert measured_speedup(verdict(timing(0.01, too_fast=True))) is None


def test_the_fastest_of_those_that_passed_is_the_best() -> None:
    moved = Profile(
        target="cuda",
        engine="",
        launches=(
            Launch(
                kernel="k", grid=(1, 1, 1), block=(1, 1, 1), shared_bytes=0, global_read_bytes=4
            ),
        ),
    )
    keys = [sort_key(verdict(t), moved) for t in (timing(0.4), timing(0.5), None)]
    assert keys == sorted(keys)
    # The profile of a GPU counts no bytes.
    bare = Profile(
        target="cuda",
        engine="",
        launches=(moved.launches[0].model_copy(update={"global_read_bytes": 0}),),
    )
    assert sort_key(verdict(None), bare) > keys[1]
    assert sort_key(verdict(timing(0.001, too_fast=True)), None) > keys[0]
