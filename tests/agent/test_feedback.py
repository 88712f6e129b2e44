"""One critical thing first, with its place."""

import pytest

from musaagent.tools.feedback import optimise_feedback, repair_feedback
from musaagent.tools.opgraph import Trap
from musaagent.tools.results import (
    Build,
    Diagnostic,
    ErrorSample,
    Finding,
    FindingKind,
    Launch,
    MismatchKind,
    OutputError,
    Profile,
    Status,
    Trial,
    Verdict,
)


def error(message: str, line: int, construct: str | None = None) -> Diagnostic:
    return Diagnostic(
        tool="g++",
        severity="error",
        message=message,
        source="cuda_sources[0]",
        line=line,
        text=f"  line {line};",
        construct=construct,
    )


def refused(*diagnostics: Diagnostic) -> Verdict:
    build = Build(ok=False, diagnostics=diagnostics, log_tail="collect2: ld returned 1")
    return Verdict(status=Status.COMPILE_ERROR, target="host", message="no", build=build)


def test_first_compile_error_leads_with_its_source_line() -> None:
    warning = error("unused", 1).model_copy(update={"severity": "warning"})
    text = repair_feedback(refused(warning, error("'idx' undeclared", 7), error("later", 9)))
    lines = text.split("\n")
    assert lines[1:3] == ["cuda_sources[0]:7: error: 'idx' undeclared", "    line 7;"]
    assert "unused" not in text
    assert "cuda_sources[0]:9: error: later" in text


def test_unsupported_construct_comes_before_other_errors() -> None:
    text = repair_feedback(refused(error("follow-up", 3), error("asm", 9, construct="inline PTX")))
    assert text.startswith("The host target cannot run inline PTX; write it without:")
    assert text.split("\n")[1] == "cuda_sources[0]:9: error: asm"


def test_many_errors_are_counted_not_listed() -> None:
    text = repair_feedback(refused(*(error(f"e{n}", n) for n in range(1, 200))))
    assert "198" in text
    assert len(text) < 2000


def test_link_error_without_diagnostics_shows_the_log() -> None:
    assert "collect2: ld returned 1" in repair_feedback(refused())


def test_mismatch_shows_samples_pattern_and_the_trap_that_fits() -> None:
    wrong = OutputError(
        output="output 0",
        max_abs=3.0,
        max_rel=1.0,
        mean_abs=1.0,
        tolerance_abs=1e-4,
        bad_fraction=0.25,
        samples=(ErrorSample(index=(0, 3), expected=1.5, got=float("nan")),),
        pattern="only the last column",
    )
    verdict = Verdict(
        status=Status.MISMATCH,
        target="host",
        kind=MismatchKind.NUMERIC,
        message="output 0 differs",
        errors=(wrong,),
        trials=(Trial(name="1", passed=True), Trial(name="2", passed=False)),
        shapes=("float32[4, 4]",),
    )
    traps = [
        Trap(name="train_mode_batchnorm", message="statistics of the batch are used"),
        Trap(name="too_small_to_time", message="not relevant"),
    ]
    text = repair_feedback(verdict, traps)
    assert text.startswith("The numeric is wrong: output 0 differs")
    assert "where: only the last column" in text
    assert "[0, 3]: expected 1.5, got nan" in text
    assert "Trials passed: 1 of 2." in text
    assert "statistics of the batch" in text
    assert "not relevant" not in text


def test_finding_leads_with_kernel_thread_and_line() -> None:
    remark = Finding(kind=FindingKind.PARTIAL_WARP, kernel="k", message="lanes missing")
    fault = Finding(
        kind=FindingKind.OUT_OF_BOUNDS,
        kernel="softmax",
        message="read at 4096 of a buffer of 4096 bytes",
        block=(1, 0, 0),
        thread=(255, 0, 0),
        source="cuda_sources[0]",
        line=12,
    )
    verdict = Verdict(
        status=Status.RUNTIME_ERROR, target="host", message="fault", findings=(remark, fault)
    )
    first, rule, *_ = repair_feedback(verdict).split("\n")
    place = "out_of_bounds in softmax, block (1, 0, 0), thread (255, 0, 0), cuda_sources[0]:12"
    assert place in first
    assert rule == "Guard the index, or size the buffer for it."


@pytest.mark.parametrize(
    "status", [s for s in Status if s not in (Status.PASSED, Status.MISMATCH, Status.COMPILE_ERROR)]
)
def test_every_failure_has_a_text(status: Status) -> None:
    details = "a\nwhat happened\nb"
    verdict = Verdict(status=status, target="host", message="what happened", details=details)
    text = repair_feedback(verdict)
    assert "what happened" in text.split("\n")[0]
    assert text.endswith("a\nb")


def test_every_finding_has_a_rule() -> None:
    for kind in set(FindingKind) - {FindingKind.PARTIAL_WARP}:
        finding = Finding(kind=kind, kernel="k", message="m")
        verdict = Verdict(
            status=Status.RUNTIME_ERROR, target="host", message="m", findings=(finding,)
        )
        assert len(repair_feedback(verdict).split("\n")) == 2


def test_passed_needs_no_repair() -> None:
    verdict = Verdict(status=Status.PASSED, target="host", trials=(Trial(name="1", passed=True),))
    with pytest.raises(ValueError, match="needs no repair"):
        repair_feedback(verdict)


def test_optimise_names_the_bottleneck_first() -> None:
    launch = Launch(
        kernel="mm", grid=(4, 1, 1), block=(256, 1, 1), shared_bytes=0, global_read_bytes=4096
    )
    profile = Profile(
        target="host", engine="checked run", launches=(launch,), bound="memory", suggestion="tile"
    )
    lines = optimise_feedback(profile).split("\n")
    assert lines[1] == "tile"
    assert "memory" in lines[2]
    assert "mm<<<(4, 1, 1), (256, 1, 1), 0 B>>> x1: reads 4096 B" in lines[3]
