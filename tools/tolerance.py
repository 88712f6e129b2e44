"""How close is close enough: per dtype, relative to the output's own size.

An absolute tolerance alone lets an all-zero answer pass wherever outputs are small (a softmax over
10,000 classes), and refuses every kernel where they are large. So the absolute part follows the
root mean square of the expected output: it is KernelBench's where that is between 0.1 and 1, grows
with it above, and shrinks with it below. The reference's own rounding error, seen against its
float64 run, is added: no candidate can be asked to be closer to the truth than the reference is by
luck.
"""

from dataclasses import dataclass

import numpy as np

from musaagent.tools.results import Tolerance

# KernelBench's figures: 1e-4 for float32, 1e-2 for half precision. bfloat16 has 8 bits of mantissa,
# one rounding of the result alone costs up to 3.9e-3. For float64 it is so close that work which is
# done in float32 shows.
_BASE = {
    "float64": 1e-9,
    "complex128": 1e-9,
    "float32": 1e-4,
    "complex64": 1e-4,
    "float16": 1e-2,
    "bfloat16": 2e-2,
}

SMALL = 0.1
"""Outputs with a smaller root mean square get a smaller absolute tolerance than the table's."""

REFERENCE_ERROR_FACTOR = 4.0
"""How many times the reference's own largest error is granted on top."""

NOISE = 0.01
NOISE_FACTOR = 64.0
"""Where the reference's own error is this share of the output (a mean of what was normalised), the
output is rounding noise that depends on the order of a sum, and so many times it is granted."""

_ROUNDING = {
    "float64": 2.3e-16,
    "complex128": 2.3e-16,
    "float32": 1.2e-7,
    "complex64": 1.2e-7,
    "float16": 9.8e-4,
    "bfloat16": 7.9e-3,
}
_PART_SIZE, _PART_SHARE, _PART_LEAST = 0.01, 0.1, 16
"""A part: so much below the root mean square, this share of what is not zero, and so many. Sums
that happen to be near zero are about a hundredth of an output."""
_PART_ROUNDINGS = 4.0
_FAR, _FAR_LIKE = 1e3, 0.999
"""What stands for nothing (the -1e9 of a mask) is alike, and so many times larger than the rest."""


@dataclass(frozen=True)
class ToleranceRule:
    """What the user asked for; None keeps the table."""

    atol: float | None = None
    rtol: float | None = None

    def for_dtype(self, dtype: str) -> Tolerance:
        """The tolerance in force for outputs of `dtype`; exact for integers and bool."""
        base = _BASE.get(dtype, 0.0)
        if base == 0.0:
            return Tolerance(dtype=dtype, atol=0.0, rtol=0.0, rule="exact")
        absolute = base if self.atol is None else self.atol
        relative = base if self.rtol is None else self.rtol
        if self.atol is not None:
            rule = "|got - expected| <= atol + rtol * |expected|"
        else:
            rule = (
                f"|got - expected| <= atol * size + rtol * |expected|, size = max(rms(expected),"
                f" min(1, rms(expected) / {SMALL:g})),"
                f" + {REFERENCE_ERROR_FACTOR:g} * the reference's own largest error"
            )
        return Tolerance(dtype=dtype, atol=absolute, rtol=relative, rule=rule)

    def allowed(
        self, dtype: str, expected: np.ndarray, own_error: float, rms: float | None = None
    ) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
        """Largest error that passes, for each element of `expected` (float64 or complex128).

        `rms` is that of the whole output where `expected` is a part of it.
        """
        tolerance = self.for_dtype(dtype)
        size = np.abs(expected).astype(np.float64)
        finite = size[np.isfinite(size)]
        if tolerance.rule == "exact" or self.atol is not None:
            scale, floor = 1.0, 0.0
        else:
            rms = root_mean_square(finite) if rms is None else rms
            scale = max(rms, min(1.0, rms / SMALL))
            noisy = own_error > NOISE * rms
            floor = (NOISE_FACTOR if noisy else REFERENCE_ERROR_FACTOR) * own_error
        return np.asarray(tolerance.atol * scale + floor + tolerance.rtol * size)

    def part_limit(self, dtype: str, rms: float) -> float:
        """Below it elements may be a part; 0 where the rule knows no parts."""
        return _PART_SIZE * rms if self.atol is None and dtype in _ROUNDING else 0.0

    def least_part(self, nonzero: int) -> int:
        """Fewer elements are no part; `nonzero` is how many are not zero at all."""
        return max(_PART_LEAST, int(_PART_SHARE * nonzero))

    def has_far(self, far: int, rest: int, between: int) -> bool:
        """Whether an output is made of a far value and of others, by how many elements there are:
        near the largest, far below it but not zero, and in between.
        """
        return self.atol is None and far > 1 and rest >= _PART_LEAST and not between

    def allowed_by_parts(
        self,
        dtype: str,
        expected: np.ndarray,
        own: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]",
        whole: tuple[float, float] | None = None,
    ) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
        """As `allowed`, `own` the reference's error for each element, but small parts get less.

        Where many elements are far below the root mean square (a product that decays, one column
        that outweighs the rest), a tolerance made for the large ones eats them whole. They are
        judged as an output of their own, never closer than a few roundings of the whole; beside a
        value that stands for nothing they are one without it, as no sum has both. `whole`:
        largest own error and root mean square, where `expected` is a sample of an output.
        """
        largest, rms_of_whole = whole or (float(own.max()) if own.size else 0.0, None)
        allowed = self.allowed(dtype, expected, largest, rms_of_whole)
        size = np.abs(expected).astype(np.float64)
        peak = float(size.max(initial=0.0, where=np.isfinite(size)))
        counts = far_counts(size, peak)
        if peak and dtype in _ROUNDING and self.has_far(*counts):
            rest = size <= peak / _FAR
            alone = self.allowed_by_parts(dtype, expected[rest], own[rest])
            allowed[rest] = np.minimum(allowed[rest], alone)
            return allowed
        part = np.isfinite(size) & (size > 0)
        least = self.least_part(int(part.sum()))
        if int(part.sum()) < least:
            return allowed
        rms = root_mean_square(size[part])
        floor = _PART_ROUNDINGS * _ROUNDING.get(dtype, 0.0) * rms
        while (limit := self.part_limit(dtype, rms)) > floor:
            part &= size < limit
            if int(part.sum()) < least:
                break
            rms = root_mean_square(size[part])
            inside = self.allowed(dtype, expected[part], float(own[part].max()))
            allowed[part] = np.minimum(allowed[part], inside + floor)
        return allowed


def far_counts(size: np.ndarray, peak: float) -> tuple[int, int, int]:
    """Of absolute values, finite ones: near the peak, far below it but not zero, in between."""
    finite = int(np.isfinite(size).sum())
    far = int(((size >= _FAR_LIKE * peak) & np.isfinite(size)).sum())
    low = int((size <= peak / _FAR).sum())
    return far, low - int((size == 0).sum()), finite - far - low


def root_mean_square(values: np.ndarray) -> float:
    """Of absolute values, without overflow near the end of the range; 0 for none."""
    peak = float(values.max()) if values.size else 0.0
    return peak * float(np.sqrt(np.mean((values / peak) ** 2))) if peak > 0 else 0.0
