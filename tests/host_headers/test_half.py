"""half and bfloat16 round once, to nearest even: against numpy, and against exact arithmetic."""

import ctypes
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

# The infinities and NaNs that numpy warns of are the point here.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SEED = 20240607
ALL = np.arange(65536, dtype=np.uint16)


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def apply(
    function: Callable[..., object], *arrays: np.ndarray, dtype: type = np.uint16
) -> np.ndarray:
    out = np.empty(arrays[0].shape, dtype)
    function(*map(pointer, arrays), pointer(out), len(out))
    return out


def decoded(bits: np.ndarray, name: str) -> np.ndarray:
    if name == "half":
        return bits.view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << 16).view(np.float32)


def same(got: np.ndarray, expected: np.ndarray, name: str) -> None:
    """Equal bits, where every NaN equals every other."""
    a, b = decoded(got, name), decoded(expected, name)
    wrong = (got != expected) & ~(np.isnan(a) & np.isnan(b))
    assert not wrong.any(), (SEED, int(wrong.sum()), got[wrong][:4], expected[wrong][:4])


def bfloat16_of(values: np.ndarray) -> np.ndarray:
    """Nearest bfloat16 of doubles by comparing with the exact midpoints of its neighbours."""
    down = values.astype(np.float64).astype(np.float32)
    bits = down.view(np.uint32) >> 16
    # Truncation of a float that itself was rounded up may be one too high: walk at most one step.
    size = np.abs(values.astype(np.float64))
    low = bits & 0x7FFF

    def value(pattern: np.ndarray) -> np.ndarray:
        exponent, digits = (pattern >> 7).astype(np.int64), (pattern & 127).astype(np.float64)
        normal = np.ldexp(1 + digits / 128, exponent - 127)
        return np.where(exponent == 0, np.ldexp(digits / 128, -126), normal)

    low = np.where(value(low) > size, low - 1, low)
    middle = (value(low) + value(low + 1)) / 2
    up = (size > middle) | ((size == middle) & (low % 2 == 1))
    rounded = np.where(np.isfinite(size), np.minimum(low + up, 0x7F80), 0x7F80)
    result = (rounded | (bits & 0x8000)).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FFF), result)


def half_of(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float16).view(np.uint16)


ROUND = {"half": half_of, "bfloat16": bfloat16_of}


def hard_floats(name: str) -> np.ndarray:
    """All values, all midpoints of neighbours, a last place to both sides, and random ones."""
    values = decoded(ALL, name)
    values = np.sort(values[np.isfinite(values)])
    middles = ((values[1:].astype(np.float64) + values[:-1]) / 2).astype(np.float32)
    points = np.concatenate([values, middles])
    random = np.random.default_rng(SEED).integers(0, 2**32, 300_000, dtype=np.uint32)
    near = [np.nextafter(points, np.float32(np.inf)), np.nextafter(points, np.float32(-np.inf))]
    return np.concatenate([points, *near, random.view(np.float32)]).astype(np.float32)


@pytest.mark.parametrize("name", ["half", "bfloat16"])
def test_every_pattern_is_decoded(numbers: ctypes.CDLL, name: str) -> None:
    got = apply(getattr(numbers, f"{name}_decode"), ALL, dtype=np.float32)
    expected = decoded(ALL, name)
    nan = np.isnan(expected)
    assert (np.isnan(got) == nan).all()
    assert (got.view(np.uint32) == expected.view(np.uint32))[~nan].all()


@pytest.mark.parametrize("name", ["half", "bfloat16"])
def test_floats_round_to_nearest_even(numbers: ctypes.CDLL, name: str) -> None:
    values = hard_floats(name)
    same(apply(getattr(numbers, f"{name}_from_float"), values), ROUND[name](values), name)


@pytest.mark.parametrize("name", ["half", "bfloat16"])
def test_doubles_round_once(numbers: ctypes.CDLL, name: str) -> None:
    """A double just beside a midpoint would go wrong by way of float."""
    points = hard_floats(name).astype(np.float64)
    points = points[np.isfinite(points)]
    near = np.concatenate([points, np.nextafter(points, np.inf), np.nextafter(points, -np.inf)])
    same(apply(getattr(numbers, f"{name}_from_double"), near), ROUND[name](near), name)


@pytest.mark.parametrize("name", ["half", "bfloat16"])
def test_integers_round_once(numbers: ctypes.CDLL, name: str) -> None:
    digits = 11 if name == "half" else 8
    random = np.random.default_rng(SEED)
    got_from = getattr(numbers, f"{name}_from_long")
    values = random.integers(-(2**63), 2**63, 2000) >> random.integers(0, 63, 2000)
    top = random.integers(2 ** (digits - 1), 2**digits, 2000)
    halfway = ((2 * top + 1) << random.integers(0, 62 - digits, 2000)) + random.integers(
        -1, 2, 2000
    )
    values = np.concatenate([values, halfway])
    got = decoded(apply(got_from, values), name)
    limit = 65520 if name == "half" else 2**200
    for value, result in zip(values.tolist(), got.tolist(), strict=True):
        if abs(value) >= limit:
            assert result == (np.inf if value > 0 else -np.inf)
            continue
        shift = max(abs(value).bit_length() - digits, 0)
        whole, rest = divmod(abs(value), 2**shift)
        twice = 2 * rest
        whole += twice > 2**shift or (twice == 2**shift and whole % 2)
        assert result == (whole << shift) * (1 if value >= 0 else -1), value


@pytest.mark.parametrize("name", ["half", "bfloat16"])
@pytest.mark.parametrize(("mode", "side"), [(1, "down"), (2, "up"), (3, "zero")])
def test_directed_rounding_brackets_the_value(
    numbers: ctypes.CDLL, name: str, mode: int, side: str
) -> None:
    values = hard_floats(name)
    values = values[np.isfinite(values)]
    out = np.empty(values.shape, np.uint16)
    getattr(numbers, f"{name}_directed")(pointer(values), pointer(out), len(out), mode)
    got = decoded(out, name).astype(np.float64)
    nearest = decoded(ROUND[name](values), name)
    towards = {"down": got <= values, "up": got >= values, "zero": np.abs(got) <= np.abs(values)}
    assert towards[side].all()
    held = nearest == values
    assert (got[held] == values[held]).all()
    patterns = out.astype(np.int64) & 0x7FFF
    largest = 0x7C00 if name == "half" else 0x7F80
    assert (np.abs(patterns - (ROUND[name](values).astype(np.int64) & 0x7FFF)) <= 1).all()
    assert (patterns <= largest).all()


def exact(pattern: int, name: str) -> Fraction:
    return Fraction(float(decoded(np.array([pattern], np.uint16), name)[0]))


OPERATIONS = [np.add, np.subtract, np.multiply, np.divide]


@pytest.mark.parametrize("name", ["half", "bfloat16"])
@pytest.mark.parametrize("op", range(4))
def test_arithmetic_rounds_once(numbers: ctypes.CDLL, name: str, op: int) -> None:
    random = np.random.default_rng(SEED + op)
    a, b = (random.integers(0, 65536, 200_000).astype(np.uint16) for _ in range(2))
    out = np.empty(a.shape, np.uint16)
    getattr(numbers, f"{name}_binary")(pointer(a), pointer(b), pointer(out), len(out), op)
    # A float has over twice the digits, so that rounding it again is harmless.
    same(out, ROUND[name](OPERATIONS[op](decoded(a, name), decoded(b, name))), name)


@pytest.mark.parametrize("name", ["half", "bfloat16"])
def test_fused_multiply_add_is_exact(numbers: ctypes.CDLL, name: str) -> None:
    random = np.random.default_rng(SEED)
    a, b, c = (random.integers(0, 65536, 3000).astype(np.uint16) for _ in range(3))
    # Half the cases cancel nearly: c is close to -a*b, where a sum in double loses what decides.
    product = decoded(a, name).astype(np.float64) * decoded(b, name)
    c[::2] = ROUND[name](-product)[::2]
    out = np.empty(a.shape, np.uint16)
    getattr(numbers, f"{name}_fma")(*map(pointer, (a, b, c, out)), len(out))
    finite = np.logical_and.reduce([np.isfinite(decoded(v, name)) for v in (a, b, c)])
    checked = 0
    for x, y, z, r in np.stack([a, b, c, out], axis=1)[finite].tolist():
        total = exact(x, name) * exact(y, name) + exact(z, name)
        if abs(total) > 65504 or (name == "bfloat16" and abs(total) < Fraction(1, 2**120)):
            continue
        size = r & 0x7FFF
        got, below, above = (exact(v, name) for v in (size, max(size - 1, 0), size + 1))
        error = abs(got - abs(total))
        gaps = abs(abs(total) - below), abs(abs(total) - above)
        assert error <= min(gaps), (x, y, z, r)
        if error and error in gaps:
            assert r % 2 == 0, (x, y, z, r)
        if total and got:
            assert (r >> 15) == (total < 0), (x, y, z, r)
        checked += 1
    assert checked > 500


@pytest.mark.parametrize("name", ["half", "bfloat16"])
@pytest.mark.parametrize(("op", "function"), [(0, np.sqrt), (1, np.exp), (2, np.log), (3, np.rint)])
def test_functions_are_rounded_from_exact_values(
    numbers: ctypes.CDLL, name: str, op: int, function: Callable[..., np.ndarray]
) -> None:
    out = np.empty(ALL.shape, np.uint16)
    getattr(numbers, f"{name}_unary")(pointer(ALL), pointer(out), len(out), op)
    same(out, ROUND[name](function(decoded(ALL, name).astype(np.float64))), name)


@pytest.mark.parametrize("name", ["half", "bfloat16"])
def test_a_nan_loses_against_a_number(numbers: ctypes.CDLL, name: str) -> None:
    one, nan, minus_zero = (0x3C00, 0x7E00, 0x8000) if name == "half" else (0x3F80, 0x7FC0, 0x8000)
    a = np.array([nan, one, nan, minus_zero, 0], np.uint16)
    b = np.array([one, nan, nan, 0, minus_zero], np.uint16)
    for op, zero in ((4, 0), (5, minus_zero)):
        out = np.empty(a.shape, np.uint16)
        getattr(numbers, f"{name}_binary")(pointer(a), pointer(b), pointer(out), len(out), op)
        assert out[:2].tolist() == [one, one]
        assert np.isnan(decoded(out[2:3], name))[0]
        assert out[3:].tolist() == [zero, zero]
