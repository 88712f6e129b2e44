"""Large outputs that are right, compared in pieces that stay in the CPU's cache.

Whole arrays of float64, one for each step, cost ten times as much: most of it goes to fresh pages.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from musaagent.tools.results import OutputError
from musaagent.tools.tolerance import ToleranceRule, far_counts

LARGE = 1 << 18
"""From so many elements on it is worth it."""
_PIECE = 1 << 15

Array = np.ndarray


@dataclass(frozen=True)
class Sizes:
    """What the tolerance asks of a whole output, all of whose values are finite."""

    own: float
    """The reference's own largest error."""
    rms: float
    nonzero: int
    rms_of_nonzero: float
    peak: float = 0.0


def pieces(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """The same stretch of each, flat and in float64."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, _PIECE):
        yield tuple(f[start : start + _PIECE].astype(np.float64) for f in flat)


def sizes_of(native: Array, exact: Array) -> Sizes | None:
    """None where a value is not finite."""
    peak = own = 0.0
    nonzero = 0
    with np.errstate(invalid="ignore", over="ignore"):
        for wanted, truth in pieces(native, exact):
            error, size = float(np.abs(wanted - truth).max()), float(np.abs(truth).max())
            if not (np.isfinite(error) and np.isfinite(size)):
                return None
            own, peak = max(own, error), max(peak, size)
            nonzero += int(np.count_nonzero(truth))
    if not peak:
        return Sizes(own, 0.0, 0, 0.0)
    squares = sum(float(np.square(truth / peak).sum()) for (truth,) in pieces(exact))
    rms = peak * float(np.sqrt(squares / exact.size))
    return Sizes(own, rms, nonzero, peak * float(np.sqrt(squares / nonzero)), peak)


def near(
    name: str, dtype: str, got: Array, native: Array, exact: Array, rule: ToleranceRule
) -> tuple[OutputError, float] | None:
    """The error and the largest |error| / allowed error of real outputs of one shape.

    None where it takes the whole arrays to tell: a value is wrong or not finite, or parts of the
    output have a tolerance of their own.
    """
    sizes = sizes_of(native, exact)
    if sizes is None:
        return None
    limit = rule.part_limit(dtype, sizes.rms_of_nonzero)
    worst = total = relative = ratio = tolerance = 0.0
    small = 0
    far = np.zeros(3, np.int64)
    with np.errstate(invalid="ignore", over="ignore"):
        for have, truth in pieces(got, exact):
            error, size = np.abs(have - truth), np.abs(truth)
            allowed = rule.allowed(dtype, truth, sizes.own, sizes.rms)
            if not (error <= allowed).all():
                return None
            far += far_counts(size, sizes.peak)
            small += int(np.count_nonzero((size < limit) & (size > 0)))
            place = int(error.argmax())
            if error[place] > worst or not tolerance:
                worst, tolerance = float(error[place]), float(allowed[place])
            total += float(error.sum())
            relative = max(relative, float((error / np.maximum(size, 1e-30)).max()))
            ratio = max(ratio, float((error / np.maximum(allowed, 1e-300)).max()))
    if small >= rule.least_part(sizes.nonzero) or rule.has_far(*far.tolist()):
        return None
    error_of_all = OutputError(
        output=name,
        max_abs=worst,
        max_rel=relative,
        mean_abs=total / exact.size,
        tolerance_abs=tolerance,
        bad_fraction=0.0,
        samples=(),
        pattern="",
    )
    return error_of_all, ratio
