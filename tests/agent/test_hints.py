"""Known patterns of wrong values and known run-time errors are told with their cause."""

import numpy as np
import pytest

from musaagent.tools.cuda_errors import cuda_error_meaning
from musaagent.tools.hints import mismatch_hint
from musaagent.tools.opgraph import Trap
from musaagent.tools.patterns import describe_pattern
from musaagent.tools.results import (
    Finding,
    FindingKind,
    MismatchKind,
    OutputError,
    Status,
    Trial,
    Verdict,
)


def verdict(expected: np.ndarray, got: np.ndarray, *kinds: FindingKind) -> Verdict:
    bad = ~np.isclose(expected, got, equal_nan=False)
    error = OutputError(
        output="output 0",
        max_abs=1.0,
        max_rel=1.0,
        mean_abs=1.0,
        tolerance_abs=1e-4,
        bad_fraction=float(bad.mean()),
        pattern=describe_pattern(bad, got, expected),
    )
    return Verdict(
        status=Status.MISMATCH,
        kind=MismatchKind.NUMERIC,
        target="host",
        errors=(error,),
        trials=(Trial(name="seed", passed=False),),
        findings=tuple(Finding(kind=kind, kernel="k", message="m") for kind in kinds),
    )


RIGHT = np.random.default_rng(0).normal(size=(8, 16)) + 3.0


def changed(rows: slice, columns: slice, value: object) -> np.ndarray:
    got = RIGHT.copy()
    got[rows, columns] = value
    return got


@pytest.mark.parametrize(
    ("got", "cause"),
    [
        (changed(slice(5, 8), slice(None), np.nan), "the tail is not handled"),
        (changed(slice(5, 8), slice(None), 0.0), "the tail is not handled"),
        (changed(slice(None), slice(13, 16), 7.0), "the tail is not handled"),
        (changed(slice(2, 4), slice(None), 0.0), "never written"),
        (np.ascontiguousarray(RIGHT.reshape(16, 8).T), "an axis or a stride"),
        (RIGHT * 0.5, "a factor is wrong"),
        (RIGHT + 0.25, "a constant is added"),
    ],
)
def test_causes_by_pattern(got: np.ndarray, cause: str) -> None:
    assert cause in mismatch_hint(verdict(RIGHT, got))


def test_findings_and_traps_come_first() -> None:
    got = RIGHT * 0.5
    assert "race" in mismatch_hint(verdict(RIGHT, got, FindingKind.RACE))
    trap = Trap(name="train_mode_batchnorm", message="")
    assert "TRAIN mode" in mismatch_hint(verdict(RIGHT, got), [trap])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CUDA error: an illegal memory access was encountered", "outside its buffers"),
        ("MUSA error: misaligned address", "not a multiple of its size"),
        ("CUDA error: invalid configuration argument", "more than 1024 threads"),
        ("too many resources requested for launch", "__launch_bounds__"),
        ("expected scalar type Float but found Half", "another type than the tensor's"),
        ("run(): incompatible function arguments.", "C++ signature"),
        ("the process died of SIGSEGV when it was to run forward", "far outside its buffers"),
        ("all is well", ""),
    ],
)
def test_meanings(text: str, said: str) -> None:
    meaning = cuda_error_meaning(text)
    assert said in meaning
    assert bool(meaning) == bool(said)
