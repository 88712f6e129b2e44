"""Numbers, shapes and patterns: what passes, what does not, and what is said of it."""

import numpy as np
import pytest

from musaagent.tools.compare import Comparison, Value, compare_all
from musaagent.tools.results import MismatchKind
from musaagent.tools.tolerance import ToleranceRule

RULE = ToleranceRule()


def value(array: np.ndarray, dtype: str | None = None) -> Value:
    return Value("output 0", dtype or array.dtype.name, array)


def compare(got: np.ndarray, native: np.ndarray, exact: np.ndarray | None = None) -> Comparison:
    return compare_all([value(got)], [value(native)], [exact], RULE)


@pytest.fixture
def draw() -> np.random.Generator:
    print("seed 7")
    return np.random.default_rng(7)


def test_equal_values_pass(draw: np.random.Generator) -> None:
    x = draw.standard_normal((33, 17)).astype(np.float32)
    result = compare(x, x, x.astype(np.float64))
    assert result.kind is None
    assert result.worst == 0


def test_zeros_do_not_pass_for_small_outputs(draw: np.random.Generator) -> None:
    """A softmax over 10,000 classes is all below KernelBench's absolute tolerance."""
    x = draw.standard_normal((4, 10_000))
    p = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    result = compare(np.zeros_like(p, np.float32), p.astype(np.float32), p)
    assert result.kind is MismatchKind.NUMERIC
    assert "every wrong value is 0" in result.message


def test_rounding_of_the_reference_is_granted(draw: np.random.Generator) -> None:
    exact = draw.standard_normal((64, 64))
    native = (exact + draw.standard_normal((64, 64)) * 1e-3).astype(np.float32)
    assert compare(exact.astype(np.float32), native, exact).kind is None


@pytest.mark.parametrize(
    ("dtype", "error", "passes"),
    [
        (np.float32, 2e-5, True),
        (np.float32, 1e-2, False),
        (np.float16, 2e-3, True),
        (np.float16, 1e-1, False),
        (np.float64, 1e-9, True),
        (np.float64, 1e-5, False),
    ],
)
def test_tolerance_follows_the_dtype(
    draw: np.random.Generator, dtype: type, error: float, passes: bool
) -> None:
    x = draw.standard_normal((128,)).astype(dtype)
    got = (x.astype(np.float64) * (1 + error)).astype(dtype)
    assert (compare(got, x).kind is None) is passes


def test_a_small_part_of_an_output_is_judged_by_itself(draw: np.random.Generator) -> None:
    """A tolerance made for a few large values would let most of the output be zeros."""
    exact = draw.standard_normal((64, 1000))
    exact[:, 10:] *= 1e-5
    native = exact.astype(np.float32)
    assert compare(native, native, exact).kind is None
    lazy = native.copy()
    lazy[:, 10:] = 0
    assert compare(lazy, native, exact).kind is MismatchKind.NUMERIC
    rounded = native + np.float32(1e-8) * draw.choice([-1, 1], native.shape).astype(np.float32)
    assert compare(rounded, native, exact).kind is None  # a rounding of the large values
    noisy = (exact + 1e-6 * draw.standard_normal(exact.shape)).astype(np.float32)
    assert compare(native, noisy, exact).kind is None  # the reference is no better


def test_sums_that_happen_to_be_near_zero_are_no_part(draw: np.random.Generator) -> None:
    exact = draw.standard_normal((64, 1000))
    got = (exact + 5e-5).astype(np.float32)
    assert compare(got, exact.astype(np.float32), exact).kind is None


def test_asked_tolerance_is_taken_as_it_is() -> None:
    rule = ToleranceRule(atol=0.5, rtol=0.0)
    result = compare_all(
        [value(np.full(4, 0.4, np.float32))], [value(np.zeros(4, np.float32))], [None], rule
    )
    assert result.kind is None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_nonfinite_value_must_be_expected(bad: float) -> None:
    x = np.ones((3, 4), np.float32)
    got = x.copy()
    got[1, 2] = bad
    result = compare(got, x)
    assert result.kind is MismatchKind.NONFINITE
    assert "first at [1, 2]" in result.message
    assert compare(x, got).kind is MismatchKind.NONFINITE
    assert compare(got, got).kind is None


def test_infinities_of_the_wrong_sign_differ() -> None:
    assert compare(np.array([np.inf], "f4"), np.array([-np.inf], "f4")).kind is not None


def test_shape_and_dtype_are_their_own_kinds() -> None:
    x = np.ones((2, 3), np.float32)
    assert compare(x.T.copy(), x).kind is MismatchKind.SHAPE
    assert compare(x.astype(np.float64), x).kind is MismatchKind.DTYPE
    assert compare_all([], [value(x)], [None], RULE).kind is MismatchKind.SHAPE


def test_integers_are_exact_and_either_argmax_of_a_tie_is_right() -> None:
    native = np.array([3, 5, 7], np.int64)
    assert compare(np.array([3, 5, 8]), native).kind is MismatchKind.NUMERIC
    assert compare(np.array([3, 5, 8]), native, np.array([3, 5, 8])).kind is None


def test_integers_that_float64_does_not_hold_are_exact_beside_a_float_output() -> None:
    """The reference runs in float64 where any output is a float, and gives integers as they are."""
    wanted = np.array([2**53 + 1, 2**62 + 3])
    got = wanted.astype(np.float64).astype(np.int64)
    native, own = Value("output 0", "int64", wanted), Value("output 0", "int64", got)
    assert compare_all([native], [native], [wanted], ToleranceRule()).kind is None
    assert compare_all([own], [native], [wanted], ToleranceRule()).kind == MismatchKind.NUMERIC


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("count", "masked"), [(600, 200), (1 << 18, 1 << 17), (1 << 18, 258_000)])
def test_beside_a_mask_s_value_the_rest_is_judged_alone(
    draw: np.random.Generator, dtype: str, count: int, masked: int
) -> None:
    exact = draw.standard_normal(count)
    exact[:masked] = -6e4
    native = exact.astype(dtype)
    half = native.copy()
    half[-100:] = 0
    values = [Value("output 0", dtype, array) for array in (native, half)]
    judged = [compare_all([v], values[:1], [exact], ToleranceRule()).kind for v in values]
    assert judged == [None, MismatchKind.NUMERIC]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda y: y.__setitem__((slice(None), slice(-3, None)), 9), "last 3 of 40 along axis 1"),
        (lambda y: y.__setitem__((slice(0, 2),), 9), "first 2 of 30 along axis 0"),
        (lambda y: y.__imul__(2), "2 times the expected"),
        (lambda y: y.__setitem__(slice(None), y[::-1].copy()), "in another order"),
        (lambda y: y.__setitem__((slice(None), 4), np.nan), "are NaN"),
    ],
)
def test_the_message_says_where(draw: np.random.Generator, spoil: object, words: str) -> None:
    x = draw.uniform(1, 2, (30, 40)).astype(np.float32)
    got = x.copy()
    spoil(got)  # type: ignore[operator]
    assert words in compare(got, x).message


def test_values_near_the_end_of_the_range_are_compared_without_a_warning() -> None:
    native = np.full((4, 3), 1.7e308)
    assert compare(native, native, np.full((4, 3), -1e308)).kind is None
    assert compare(-native, native, native).kind is MismatchKind.NUMERIC


def test_empty_outputs_agree() -> None:
    empty = np.empty((0, 4), np.float32)
    assert compare(empty, empty).kind is None


def _spoiled(how: str, x: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    got = x.copy()
    place = int(draw.integers(x.size))
    match how:
        case "one":
            got.flat[place] += 0.1
        case "NaN" | "inf":
            got.flat[place] = float(how)
        case "zeros":
            got[:] = 0
        case "the last":
            got.flat[-1] += 0.1
        case "small ones":
            got[np.abs(got) < 1e-3] = 0
    return got


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("shape", ["normal", "decaying", "half zeros", "all zeros", "with inf"])
@pytest.mark.parametrize("how", ["", "one", "NaN", "inf", "zeros", "the last", "small ones"])
@pytest.mark.parametrize("asked", [None, 1e-3])
def test_large_outputs_are_judged_as_small_ones_are(
    dtype: str,
    shape: str,
    how: str,
    asked: float | None,
    draw: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In pieces, or as whole arrays: the same verdict, message and figures."""
    exact = draw.standard_normal((24, 8192))
    match shape:
        case "decaying":
            exact *= np.logspace(0, -3, 24)[:, None]
        case "half zeros":
            exact[12:] = 0
        case "all zeros":
            exact[:] = 0
        case "with inf":
            exact[3, 5] = np.inf
    native = exact.astype(dtype)
    got = _spoiled(how, native, draw)
    if dtype != "float64":
        got *= np.asarray(1, dtype) + np.finfo(dtype).eps
    rule = ToleranceRule(asked, asked)
    found = []
    for least in (1, 1 << 60):
        monkeypatch.setattr("musaagent.tools.compare.LARGE", least)
        found.append(compare_all([value(got)], [value(native)], [exact], rule))
    pieces, whole = found
    assert (pieces.kind, pieces.message) == (whole.kind, whole.message)
    assert pieces.worst == pytest.approx(whole.worst, rel=1e-6)
    for one, other in zip(pieces.errors, whole.errors, strict=True):
        for figure in ("max_abs", "max_rel", "mean_abs", "tolerance_abs", "bad_fraction"):
            expected = pytest.approx(getattr(other, figure), rel=1e-6, nan_ok=True)
            assert getattr(one, figure) == expected, figure
        assert one.pattern == other.pattern
