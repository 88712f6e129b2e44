"""The report says what was proven, and says what was not."""

from pathlib import Path

import pytest

from musaagent.tools.results import Status
from musaagent.traces.report import render_report
from musaagent.traces.schema import (
    BuildDone,
    PlanMade,
    ProfileTaken,
    RewardGiven,
    RunFinished,
    RunStatus,
    VerdictReached,
)
from musaagent.traces.store import Trajectory, read_trajectory

GOLDEN = read_trajectory(Path(__file__).with_name("golden_v1.jsonl"))


def changed(kind: type, **fields: object) -> Trajectory:
    """The golden run with fields of its last event of that kind replaced."""
    events = list(GOLDEN.events)
    index = max(i for i, event in enumerate(events) if isinstance(event, kind))
    events[index] = events[index].model_copy(update=fields)
    return Trajectory(tuple(events))


def section(report: str, title: str) -> str:
    assert f"## {title}\n" in report, report
    return report.split(f"## {title}\n")[1].split("\n## ")[0]


def test_head_and_request() -> None:
    report = render_report(GOLDEN)
    assert report.startswith("# softmax: solved\n\n`candidate.py` (hash ")
    assert "turn 4 of 4" in report
    asked = section(report, "What was asked")
    for fact in ("host, warps of 32 lanes", "builtin", "seed: 7"):
        assert fact in asked
    assert "335,544,320 FLOPs; at least 536,870,912 bytes" in asked
    assert "float32[16384, 4096]" in asked


def test_proof_names_shapes_scaling_tolerance_margin_and_check() -> None:
    proven = section(render_report(GOLDEN), "What was proven, and how")
    assert "2 of 2 trials agreed" in proven
    assert "Shapes that ran: float32[64, 4096]" in proven
    assert "ROWS: 16384 -> 64" in proven
    assert "Compared with: float64" in proven
    assert "Tolerance for float32: atol 0.0001, rtol 0.0001" in proven
    assert "2.00% of what was allowed" in proven
    assert "every load and store was watched, on small shapes; nothing was found" in proven
    assert "candidates in namespaces" in proven
    assert "Real compile: nvcc 13.0, sm_90" in proven


def test_kernels_have_their_real_figures() -> None:
    kernels = section(render_report(GOLDEN), "Kernels")
    assert "| `softmax_rows` | 64 x 1 x 1 | 256 x 1 x 1 | 128 B | 1 | 3,145,728 B |" in kernels
    assert "| `softmax_rows` | sm_90 | 28 | 0/0 B | 128 B | 0 B |" in kernels
    assert "Still to try (checked run): read each row once" in kernels


def test_not_proven_is_said() -> None:
    said = section(render_report(GOLDEN), "What was not proven")
    assert "no speed-up is claimed" in said
    assert "own shapes (float32[16384, 4096]) were not run" in said
    assert "Warps of 128 lanes: only 32 were run." in said
    assert "GPU compiler" not in said
    assert "out of bounds" not in said


def test_missing_check_and_real_compile_are_said() -> None:
    verdict = GOLDEN.all(VerdictReached)[-1].verdict
    assert verdict.build is not None
    build = verdict.build.model_copy(update={"resources": (), "real_compile": "no nvcc here"})
    bare = verdict.model_copy(update={"checked": False, "build": build})
    report = render_report(changed(VerdictReached, verdict=bare))
    said = section(report, "What was not proven")
    assert "no checked run ended" in said
    assert "no real compile (no nvcc here)" in said
    assert "Checked run: none" in section(report, "What was proven, and how")


def test_unscaled_run_does_not_speak_of_scaling() -> None:
    plan = GOLDEN.all(PlanMade)[0].plan.model_copy(update={"scaling": {}})
    report = render_report(changed(PlanMade, plan=plan))
    assert "Scaled" not in report
    assert "were not run;" not in report


def test_failed_run_warns_of_its_attempt() -> None:
    verdict = GOLDEN.all(VerdictReached)[2].verdict
    events = tuple(
        event
        for event in changed(RunFinished, status=RunStatus.NOT_SOLVED, best_turn=3).events
        if event.turn != 4
    )
    report = render_report(Trajectory(events))
    assert verdict.status is Status.MISMATCH
    assert report.startswith("# softmax: not solved")
    assert "**Do not use it as it is.**" in report
    found = section(report, "What was found")
    assert "[0, 4095]: expected 0.1, got nan" in found
    assert "only the last column" in found
    assert "That any candidate is right." in section(report, "What was not proven")


def test_turns_list_every_answer() -> None:
    turns = section(render_report(GOLDEN), "Turns").strip().split("\n")
    assert len(turns) == 2 + 4
    assert "extraction_error" in turns[2]
    assert "cuda_sources[0]:12: 'idx' was not declared" in turns[3]
    assert "| 4 | repair | passed |" in turns[5]


def test_traps_and_flags_are_listed() -> None:
    verdict = GOLDEN.all(VerdictReached)[-1].verdict.model_copy(update={"flags": ("odd | flag",)})
    report = render_report(changed(VerdictReached, verdict=verdict))
    assert "too_small_to_time" in section(report, "Traps")
    assert "odd | flag" in section(report, "Flags")


def test_message_cannot_break_the_table() -> None:
    evil = GOLDEN.all(VerdictReached)[0].verdict.model_copy(update={"message": "a|b\n| c |"})
    events = [
        event.model_copy(update={"verdict": evil})
        if isinstance(event, VerdictReached) and event.turn == 1
        else event
        for event in GOLDEN.events
    ]
    turns = section(render_report(Trajectory(tuple(events))), "Turns").strip().split("\n")
    assert len(turns) == 6
    assert "a\\|b \\| c \\|" in turns[2]


@pytest.mark.parametrize("kinds", [(RunFinished,), (RunFinished, ProfileTaken, RewardGiven)])
def test_unfinished_run_has_a_report_too(kinds: tuple[type, ...]) -> None:
    events = tuple(event for event in GOLDEN.events if not isinstance(event, kinds))
    assert "The run is not finished." in render_report(Trajectory(events))


def test_every_build_time_is_shown() -> None:
    built = GOLDEN.all(BuildDone)[-1].build.model_copy(update={"cached": True})
    turns = section(render_report(changed(BuildDone, build=built)), "Turns")
    assert turns.strip().split("\n")[-1].endswith("| cached |")
