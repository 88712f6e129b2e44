"""Where the wrong elements lie, and what they look like, in words that point at a cause."""

import numpy as np


def describe_pattern(bad: np.ndarray, got: np.ndarray, expected: np.ndarray) -> str:
    """What stands out, most telling first; empty where nothing does."""
    values, tail = _value_pattern(bad, got, expected), _flat_tail(bad)
    if values and tail:
        return f"{values}; {tail}"
    return values or tail or _place_pattern(bad)


def _flat_tail(bad: np.ndarray) -> str:
    """Everything after a point in memory order: a grid that is too small, a tail that is cut."""
    flat = bad.ravel()
    first = int(np.argmax(flat))
    if bad.ndim < 2 or first == 0 or not flat[first:].all():
        return ""
    return (
        f"all elements from number {first} of {flat.size} in memory order on, none before (a tail)"
    )


def _value_pattern(bad: np.ndarray, got: np.ndarray, expected: np.ndarray) -> str:
    have, want = got[bad], expected[bad]
    if np.isnan(have).all():
        return "every wrong value is NaN: memory that was never written, or 0/0"
    if (have == 0).all():
        return "every wrong value is 0: not written, or a sum that never ran"
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = have / want
    ratio = ratio[np.isfinite(ratio)]
    if ratio.size >= 8 and bad.mean() > 0.5:
        middle = float(np.real(np.median(np.real(ratio))))
        if np.allclose(np.real(ratio), middle, rtol=1e-3) and abs(middle - 1) > 1e-3:
            return f"every wrong value is {middle:.4g} times the expected one"
    if have.size >= 8:
        shift = np.real(have - want)
        shift = shift[np.isfinite(shift)]
        if shift.size and np.allclose(shift, np.median(shift), rtol=1e-3):
            return f"every wrong value is off by {float(np.median(shift)):.4g}"
    if bad.mean() > 0.5 and have.size >= 4 and _same_values(got, expected):
        return "the values are the expected ones in another order (axis, transpose or layout)"
    return ""


def _same_values(have: np.ndarray, want: np.ndarray) -> bool:
    left, right = np.sort(np.real(have).ravel()), np.sort(np.real(want).ravel())
    return bool(np.allclose(left, right, rtol=1e-4, atol=1e-6))


def _place_pattern(bad: np.ndarray) -> str:
    if bad.all():
        return "all values are wrong"
    for axis in range(bad.ndim):
        other = tuple(a for a in range(bad.ndim) if a != axis)
        hit = np.asarray(bad.any(axis=other))
        if hit.all() or bad.shape[axis] < 2:
            continue
        full = np.asarray(bad.all(axis=other))
        phrase = _span(hit, axis)
        if phrase:
            return phrase + (" (all of their values)" if (full == hit).all() else "")
    return ""


def _span(hit: np.ndarray, axis: int) -> str:
    """`hit` marks the indices of one axis that hold a wrong value."""
    where = np.flatnonzero(hit)
    size, first, last = hit.size, int(where[0]), int(where[-1])
    if where.size == last - first + 1:
        if last == size - 1:
            return f"only the last {where.size} of {size} along axis {axis} (a tail)"
        if first == 0:
            return f"only the first {where.size} of {size} along axis {axis}"
        return f"only {first}..{last} of {size} along axis {axis}"
    steps = np.diff(where)
    if where.size > 2 and (steps == steps[0]).all():
        return f"every {int(steps[0])}. index along axis {axis}, from {first}"
    return f"{where.size} of {size} indices along axis {axis}"
