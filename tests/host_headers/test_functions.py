"""Mathematical functions, rounded arithmetic, casts and integer intrinsics, against Python."""

import ctypes
import math
import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

SEED = 77
DOWN, UP, ZERO = 1, 2, 3


def double_function(numbers: ctypes.CDLL, name: str) -> Callable[[float], float]:
    function = getattr(numbers, f"d_{name}")
    function.argtypes, function.restype = [ctypes.c_double], ctypes.c_double
    return function


def float_function(numbers: ctypes.CDLL, name: str) -> Callable[[float], float]:
    function = getattr(numbers, f"f_{name}")
    function.argtypes, function.restype = [ctypes.c_float], ctypes.c_float
    return function


SPREAD = [-3.7, -1.25, -0.4, -1e-3, 1e-9, 0.3, 0.9, 2.5, 6.0]
DIRECT = [
    ("rsqrt", lambda x: 1 / math.sqrt(x), [1e-9, 0.3, 2.0, 1e12]),
    ("rcbrt", lambda x: 1 / math.copysign(abs(x) ** (1 / 3), x), SPREAD),
    ("sinpi", lambda x: math.sin(math.pi * math.fmod(x, 2)), SPREAD),
    ("cospi", lambda x: math.cos(math.pi * math.fmod(x, 2)), SPREAD),
    ("normcdf", lambda x: 0.5 * math.erfc(-x / math.sqrt(2)), SPREAD),
    ("erfcx", lambda x: math.exp(x * x) * math.erfc(x), [-2.0, 0.0, 1.0, 5.0, 15.0]),
    ("exp10", lambda x: 10.0**x, SPREAD),
]


@pytest.mark.parametrize(("name", "expected", "points"), DIRECT, ids=[d[0] for d in DIRECT])
def test_function_against_its_formula(
    numbers: ctypes.CDLL, name: str, expected: Callable[[float], float], points: list[float]
) -> None:
    function = double_function(numbers, name)
    for x in points:
        assert function(x) == pytest.approx(expected(x), rel=1e-13, abs=1e-15), x


@pytest.mark.parametrize(
    ("inverse", "forward", "points"),
    [
        ("erfinv", math.erf, [-0.999999, -0.7, -1e-8, 0.2, 0.49, 0.5, 0.999]),
        ("erfcinv", math.erfc, [1e-300, 1e-20, 0.01, 0.7, 1.0, 1.3, 1.99]),
        ("normcdfinv", lambda z: 0.5 * math.erfc(-z / math.sqrt(2)), [1e-200, 1e-5, 0.3, 0.5, 0.9]),
    ],
)
def test_inverse_undoes_its_function(
    numbers: ctypes.CDLL, inverse: str, forward: Callable[[float], float], points: list[float]
) -> None:
    function = double_function(numbers, inverse)
    for y in points:
        # The relative error of y grows by the condition of the forward function.
        x = function(y)
        assert forward(x) == pytest.approx(y, rel=1e-13 * (2 + 2 * x * x)), y


def test_inverses_at_the_ends(numbers: ctypes.CDLL) -> None:
    assert double_function(numbers, "erfinv")(1.0) == math.inf
    assert double_function(numbers, "erfinv")(-1.0) == -math.inf
    assert math.isnan(double_function(numbers, "erfinv")(1.5))
    assert double_function(numbers, "erfcinv")(0.0) == math.inf
    assert double_function(numbers, "erfcinv")(2.0) == -math.inf
    assert double_function(numbers, "normcdfinv")(0.0) == -math.inf
    assert double_function(numbers, "sinpi")(1e15) == 0.0
    assert double_function(numbers, "cospi")(0.5) == 0.0


def test_modified_bessel_functions_against_their_integral(numbers: ctypes.CDLL) -> None:
    angles = (np.arange(2000) + 0.5) * math.pi / 2000
    for x in (0.0, 0.5, 2.0, 20.0):
        weight = np.exp(x * np.cos(angles))
        i0, i1 = weight.mean(), (weight * np.cos(angles)).mean()
        assert double_function(numbers, "cyl_bessel_i0")(x) == pytest.approx(i0, rel=1e-12)
        assert double_function(numbers, "cyl_bessel_i1")(x) == pytest.approx(i1, rel=1e-12)


def test_float_functions(numbers: ctypes.CDLL) -> None:
    assert float_function(numbers, "__saturatef")(math.nan) == 0.0
    assert float_function(numbers, "__saturatef")(2.0) == 1.0
    assert float_function(numbers, "__saturatef")(-1.0) == 0.0
    for x in (0.1, 3.0, 1e30, 1e-30):
        x32 = float(np.float32(x))
        assert float_function(numbers, "__frsqrt_rn")(x) == np.float32(1 / math.sqrt(x32))
        assert float_function(numbers, "__fsqrt_rn")(x) == np.sqrt(np.float32(x))
        assert float_function(numbers, "__frcp_rn")(x) == np.float32(1) / np.float32(x)


EXACT = {
    "__fadd": lambda a, b: a + b,
    "__fsub": lambda a, b: a - b,
    "__fmul": lambda a, b: a * b,
    "__fdiv": lambda a, b: a / b,
}


@pytest.mark.parametrize("name", EXACT)
def test_directed_rounding_of_arithmetic(numbers: ctypes.CDLL, name: str) -> None:
    function = getattr(numbers, f"{name}_mode")
    function.argtypes = [ctypes.c_float, ctypes.c_float, ctypes.c_int]
    function.restype = ctypes.c_float
    rng = random.Random(SEED)
    for _ in range(300):
        a, b = (float(np.float32(rng.uniform(-10, 10) * 2.0 ** rng.randint(-20, 20))) for _ in "ab")
        exact = EXACT[name](Fraction(a), Fraction(b))
        down, up, zero = (Fraction(function(a, b, mode)) for mode in (DOWN, UP, ZERO))
        assert down <= exact <= up, (SEED, a, b)
        assert zero == (down if exact > 0 else up)
        if down != up:
            assert Fraction(float(np.nextafter(np.float32(float(down)), np.float32(np.inf)))) == up
        assert Fraction(function(a, b, 0)) in (down, up)


def test_products_with_named_rounding_do_not_fuse(numbers: ctypes.CDLL) -> None:
    function = numbers.difference_of_products
    function.argtypes, function.restype = [ctypes.c_float] * 4, ctypes.c_float
    rng = random.Random(SEED)
    for _ in range(50):
        a, b = rng.uniform(1, 2), rng.uniform(1, 2)
        assert function(a, b, a, b) == 0.0, (SEED, a, b)


@pytest.mark.parametrize(
    ("name", "kind", "low", "high", "nan"),
    [
        ("float2int", ctypes.c_float, -(2**31), 2**31 - 1, 0),
        ("float2uint", ctypes.c_float, 0, 2**32 - 1, 0),
        ("double2int", ctypes.c_double, -(2**31), 2**31 - 1, -(2**31)),
        ("double2ll", ctypes.c_double, -(2**63), 2**63 - 1, -(2**63)),
    ],
)
def test_casts_round_and_saturate(
    numbers: ctypes.CDLL, name: str, kind: type, low: int, high: int, nan: int
) -> None:
    function = getattr(numbers, f"{name}_mode")
    function.argtypes, function.restype = [kind, ctypes.c_int], ctypes.c_longlong
    rules = {0: round, DOWN: math.floor, UP: math.ceil, ZERO: math.trunc}
    for mode, rule in rules.items():
        for x in (-2.5, -1.5, -0.5, -0.25, 0.0, 0.5, 1.5, 2.5, 1e6 + 0.5, 3e9, -3e9, 1e19, -1e19):
            wanted = min(max(rule(kind(x).value), low), high)
            assert function(x, mode) == wanted, (mode, x)
        assert function(math.inf, mode) == high
        assert function(-math.inf, mode) == low
        assert function(math.nan, mode) == nan


def test_integers_become_floats_by_direction(numbers: ctypes.CDLL) -> None:
    function = numbers.int2float_mode
    function.restype = ctypes.c_float
    value = 2**24 + 1
    assert [function(value, mode) for mode in (0, DOWN, UP, ZERO)] == [
        2**24, 2**24, 2**24 + 2, 2**24,
    ]  # fmt: skip
    assert function(-value, DOWN) == -(2**24 + 2)


def signed(x: int) -> int:
    return x - 2**32 if x >= 2**31 else x


def lanes(x: int, bits: int, sign: bool) -> list[int]:
    values = [(x >> i) & (2**bits - 1) for i in range(0, 32, bits)]
    return [v - 2**bits if sign and v >= 2 ** (bits - 1) else v for v in values]


def packed(
    bits: int, sign: bool, operation: Callable[[int, int], int]
) -> Callable[[int, int, int], int]:
    def apply(a: int, b: int, _: int) -> int:
        values = map(operation, lanes(a, bits, sign), lanes(b, bits, sign))
        return sum((v & (2**bits - 1)) << (i * bits) for i, v in enumerate(values))

    return apply


def byte_perm(a: int, b: int, selector: int) -> int:
    pool = (b << 32 | a).to_bytes(8, "little")
    result = []
    for i in range(4):
        pick = selector >> (4 * i) & 15
        byte = pool[pick & 7]
        result.append((0xFF if byte & 0x80 else 0) if pick & 8 else byte)
    return int.from_bytes(bytes(result), "little")


def low24(x: int) -> int:
    return signed((x & 0xFFFFFF) << 8) >> 8


INTEGERS = {
    "__popc": lambda a, b, c: a.bit_count(),
    "__clz": lambda a, b, c: 32 - a.bit_length(),
    "__ffs": lambda a, b, c: (a & -a).bit_length(),
    "__brev": lambda a, b, c: int(f"{a:032b}"[::-1], 2),
    "__byte_perm": byte_perm,
    "__funnelshift_l": lambda a, b, c: (b << 32 | a) << (c & 31) >> 32,
    "__funnelshift_r": lambda a, b, c: (b << 32 | a) >> (c & 31),
    "__funnelshift_lc": lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32,
    "__funnelshift_rc": lambda a, b, c: (b << 32 | a) >> min(c, 32),
    "__umulhi": lambda a, b, c: a * b >> 32,
    "__mulhi": lambda a, b, c: signed(a) * signed(b) >> 32,
    "__mul24": lambda a, b, c: low24(a) * low24(b),
    "__umul24": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "__sad": lambda a, b, c: abs(signed(a) - signed(b)) + c,
    "__usad": lambda a, b, c: abs(a - b) + c,
    "__dp4a": lambda a, b, c: c + dot(a, b, True),
    "__dp4a_u": lambda a, b, c: c + dot(a, b, False),
    "__vadd4": packed(8, False, lambda x, y: x + y),
    "__vsub2": packed(16, False, lambda x, y: x - y),
    "__vmaxs4": packed(8, True, max),
    "__vminu2": packed(16, False, min),
    "__vabsdiffu4": packed(8, False, lambda x, y: abs(x - y)),
    "__vcmpgtu4": packed(8, False, lambda x, y: 0xFF if x > y else 0),
    "__vaddss2": packed(16, True, lambda x, y: min(max(x + y, -(2**15)), 2**15 - 1)),
}


def dot(a: int, b: int, sign: bool) -> int:
    return sum(x * y for x, y in zip(lanes(a, 8, sign), lanes(b, 8, sign), strict=True))


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_intrinsics(numbers: ctypes.CDLL, name: str) -> None:
    function = numbers.integer
    function.argtypes = [ctypes.c_char_p, *[ctypes.c_uint] * 3]
    function.restype = ctypes.c_uint
    rng = random.Random(SEED)
    special = [0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 31, 32, 33]
    cases = [(a, b, c) for a in special for b in special for c in (0, 1, 31, 32, 40)]
    cases += [tuple(rng.getrandbits(32) for _ in "abc") for _ in range(200)]
    for a, b, c in cases:
        wanted = INTEGERS[name](a, b, c) & 0xFFFFFFFF
        assert function(name.encode(), a, b, c) == wanted, (SEED, hex(a), hex(b), hex(c))
