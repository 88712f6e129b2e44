"""Compare a candidate's outputs with the expected ones, in numpy, in the trusted parent."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from musaagent.tools.compare_large import LARGE, near
from musaagent.tools.patterns import describe_pattern
from musaagent.tools.results import ErrorSample, MismatchKind, OutputError
from musaagent.tools.tolerance import ToleranceRule

_SAMPLES = 5


@dataclass(frozen=True)
class Sample:
    """Which elements of a large tensor a Value holds, and what is known of the whole."""

    places: np.ndarray
    """Flat (row-major) indices, one for each element."""
    shape: tuple[int, ...]
    rms: float
    """Root mean square of the whole expected output."""
    own: float
    """The reference's own largest error in the whole."""

    def index(self, position: int) -> tuple[int, ...]:
        """Where an element of the sample lies in the whole."""
        return tuple(int(i) for i in np.unravel_index(int(self.places[position]), self.shape))


@dataclass(frozen=True)
class Value:
    """One tensor as numbers: `array` holds the values, `dtype` is torch's name for its type.

    numpy has no bfloat16, so such values are held as float32.
    """

    name: str
    dtype: str
    array: np.ndarray
    sample: Sample | None = None
    """Of an expected output that is only looked at in places: `array` is flat then."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    def place(self, index: Sequence[int]) -> tuple[int, ...]:
        """The element's index in the whole output."""
        return self.sample.index(int(index[0])) if self.sample else tuple(int(i) for i in index)


@dataclass(frozen=True)
class Comparison:
    """The first thing wrong over all outputs, and every output's error."""

    kind: MismatchKind | None
    message: str
    errors: tuple[OutputError, ...]
    worst: float
    """Largest |error| / allowed error; below or at 1 passes."""


def compare_all(
    got: Sequence[Value],
    native: Sequence[Value],
    exact: Sequence[np.ndarray | None],
    rule: ToleranceRule,
) -> Comparison:
    """Compare output by output; `exact` holds the float64 values where there are some."""
    if len(got) != len(native):
        message = f"{len(got)} outputs, the reference returns {len(native)}"
        return Comparison(MismatchKind.SHAPE, message, (), float("inf"))
    kind: MismatchKind | None = None
    message = ""
    errors: list[OutputError] = []
    worst = 0.0
    for have, want, wide in zip(got, native, exact, strict=True):
        one_kind, one_message, error, ratio = _compare_one(have, want, wide, rule)
        worst = max(worst, ratio)
        if error is not None:
            errors.append(error)
        if kind is None and one_kind is not None:
            kind, message = one_kind, one_message
    return Comparison(kind, message, tuple(errors), worst)


_One = tuple[MismatchKind | None, str, OutputError | None, float]


def _compare_one(got: Value, native: Value, exact: np.ndarray | None, rule: ToleranceRule) -> _One:
    infinite = float("inf")
    if got.shape != native.shape:
        message = f"{native.name}: shape {list(got.shape)}, expected {list(native.shape)}"
        return MismatchKind.SHAPE, message, None, infinite
    if got.dtype != native.dtype:
        message = f"{native.name}: dtype {got.dtype}, expected {native.dtype}"
        return MismatchKind.DTYPE, message, None, infinite
    if got.array.size == 0:
        return None, "", None, 0.0
    if not _is_inexact(native):
        return _compare_exact(got, native, exact)
    if quick := _near(got, native, exact, rule):
        error, ratio = quick
        return None, "", error, ratio
    expected = _wide(native.array)
    have = _wide(got.array)
    finite = np.isfinite(expected)
    if exact is not None and exact.shape == expected.shape:
        truth = np.where(finite & np.isfinite(exact), exact, expected)
    else:
        truth = expected
    difference = _nonfinite_difference(have, expected, native.place)
    if difference is not None:
        message = f"{native.name}: {difference}"
        bad = np.isfinite(have) != finite
        error = _error(native, have, truth, np.full(expected.shape, infinite), bad)
        return MismatchKind.NONFINITE, message, error, infinite
    with np.errstate(invalid="ignore", over="ignore"):
        own = np.where(finite, np.abs(expected - truth), 0.0)
        if exact is None:  # nothing is known of the reference's own error in a part
            rms = native.sample.rms if native.sample else None
            allowed = rule.allowed(native.dtype, truth, 0.0, rms)
        else:
            whole = (native.sample.own, native.sample.rms) if native.sample else None
            allowed = rule.allowed_by_parts(native.dtype, truth, own, whole)
        absolute = np.where(finite, np.abs(have - truth), 0.0)
        over = absolute > allowed
        bad = np.where(finite, over, False)
    ratio = _ratio(absolute, allowed, finite)
    if not bad.any():
        return None, "", _error(native, have, truth, allowed, bad), ratio
    error = _error(native, have, truth, allowed, bad)
    message = (
        f"{native.name}: {int(bad.sum())} of {bad.size} values are wrong"
        f" (worst |error| {error.max_abs:.3g}, {error.tolerance_abs:.3g} allowed)"
    )
    if error.pattern:
        message += f"; {error.pattern}"
    return MismatchKind.NUMERIC, message, error, max(ratio, 1.0 + 1e-9)


def _near(
    got: Value, native: Value, exact: np.ndarray | None, rule: ToleranceRule
) -> tuple[OutputError, float] | None:
    """What most large outputs need."""
    real = native.array.dtype.kind == "f" and got.array.dtype.kind == "f"
    if not real or native.array.size < LARGE or native.sample is not None:
        return None
    if exact is None or exact.shape != native.shape:
        return None
    return near(native.name, native.dtype, got.array, native.array, exact, rule)


def _compare_exact(got: Value, native: Value, exact: np.ndarray | None) -> _One:
    same = got.array == native.array
    if exact is not None and exact.shape == native.array.shape:
        # An index that the float64 run chose is as right as the one the native run chose. Of one
        # type they are compared as they are: float64 holds no integer beyond 2**53.
        alike = exact.dtype == got.array.dtype
        wide = (got.array, exact) if alike else (_wide(got.array), _wide(exact))
        same = same | (wide[0] == wide[1])
    if same.all():
        return None, "", None, 0.0
    bad = ~same
    have, truth = got.array.astype(np.float64), native.array.astype(np.float64)
    error = _error(native, have, truth, np.zeros(bad.shape), bad)
    message = f"{native.name}: {int(bad.sum())} of {bad.size} values differ, exact ones expected"
    if error.pattern:
        message += f"; {error.pattern}"
    return MismatchKind.NUMERIC, message, error, float("inf")


def _is_inexact(value: Value) -> bool:
    return value.array.dtype.kind in "fc"


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _nonfinite_difference(
    have: np.ndarray, expected: np.ndarray, place: Callable[[Sequence[int]], tuple[int, ...]]
) -> str | None:
    """NaN must meet NaN and an infinity the same infinity; None when all do."""
    if have.dtype.kind == "c":
        for part, name in ((np.real, "real"), (np.imag, "imaginary")):
            difference = _nonfinite_difference(part(have), part(expected), place)
            if difference is not None:
                return f"{name} part: {difference}"
        return None
    for test, name in (
        (np.isnan, "NaN"),
        (np.isposinf, "+inf"),
        (np.isneginf, "-inf"),
    ):
        unexpected = test(have) & ~test(expected)
        missing = test(expected) & ~test(have)
        if unexpected.any():
            where = list(place(_first(unexpected)))
            return f"{int(unexpected.sum())} of {have.size} values are {name}, first at {where}"
        if missing.any():
            where = list(place(_first(missing)))
            return f"{int(missing.sum())} values should be {name}, first at {where}"
    return None


def _first(mask: np.ndarray) -> list[int]:
    return [int(i) for i in np.argwhere(mask)[0]]


def _ratio(absolute: np.ndarray, allowed: np.ndarray, finite: np.ndarray) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(absolute == 0, 0.0, absolute / np.maximum(allowed, 1e-300))
    ratios = ratios[finite]
    return float(ratios.max()) if ratios.size else 0.0


def _error(
    native: Value, have: np.ndarray, truth: np.ndarray, allowed: np.ndarray, bad: np.ndarray
) -> OutputError:
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        absolute = np.abs(have - truth)
        absolute = np.where(np.isnan(absolute), np.inf, absolute)
        absolute = np.where(have == truth, 0.0, absolute)
        relative = absolute / np.maximum(np.abs(truth), 1e-30)
        finite = absolute[np.isfinite(absolute)]
        excess = np.where(bad, absolute - np.where(np.isfinite(allowed), allowed, 0.0), -np.inf)
        mean = float(finite.mean()) if finite.size else float("inf")
        whole = native.sample is None
        pattern = describe_pattern(bad, have, truth) if whole and bad.any() else ""
    worst = np.unravel_index(int(np.argmax(excess if bad.any() else absolute)), absolute.shape)
    picked = _pick_samples(bad, worst)
    return OutputError(
        output=native.name,
        max_abs=float(absolute.max()),
        max_rel=float(relative.max()),
        mean_abs=mean,
        tolerance_abs=float(allowed[worst]),
        bad_fraction=float(bad.mean()),
        samples=tuple(
            ErrorSample(
                index=native.place(index),
                expected=float(np.real(truth[index])),
                got=float(np.real(have[index])),
            )
            for index in picked
        ),
        pattern=pattern,
    )


def _pick_samples(bad: np.ndarray, worst: tuple[np.intp, ...]) -> list[tuple[int, ...]]:
    """The first wrong elements and the worst one."""
    if not bad.any():
        return []
    first = [tuple(int(i) for i in row) for row in np.argwhere(bad)[: _SAMPLES - 1]]
    peak = tuple(int(i) for i in worst)
    return first if peak in first else [*first, peak]
