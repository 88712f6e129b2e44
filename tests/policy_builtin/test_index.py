"""The index algebra against brute force: whatever it simplifies must keep its value."""

import itertools
import math
import random

import pytest

from musaagent.policies.builtin.index import Index, coordinates, index, linear, variable
from musaagent.policies.builtin.sizes import ONE, Num, Refusal, Symbols, num, product, strides_of


def evaluate(text: str, values: dict[str, int]) -> int:
    return int(eval(text.replace("/", "//"), {}, values))


def literal(n: Num) -> str:
    return f"({n.own})"


def shape_of(random_: random.Random, numel: int) -> tuple[int, ...]:
    """A random shape with that many elements, with dims of 1 mixed in."""
    dims = []
    while numel > 1 and random_.random() < 0.8:
        divisor = random_.choice([d for d in range(1, numel + 1) if numel % d == 0])
        dims.append(divisor)
        numel //= divisor
    dims.append(numel)
    random_.shuffle(dims)
    return tuple(dims)


@pytest.mark.parametrize("seed", range(20))
def test_reshapes_permutes_and_flips_keep_their_value(seed: int) -> None:
    print("seed", seed)
    random_ = random.Random(seed)
    numel = random_.choice([24, 36, 60, 72])
    start = shape_of(random_, numel)
    shape = tuple(map(num, start))
    names = [f"i{k}" for k in range(len(start))]
    at = tuple(variable(n, s) for n, s in zip(names, shape, strict=True))
    plain: list[list[int]] = [list(p) for p in itertools.product(*map(range, start))]
    where, now = plain, start
    for _ in range(6):
        step = random_.choice(["reshape", "permute", "flip"])
        if step == "reshape":
            to = shape_of(random_, numel)
            at = coordinates(linear(at, tuple(map(num, now))), tuple(map(num, to)))
            where = [split(join(w, now), to) for w in where]
            now = to
        elif step == "permute":
            order = random_.sample(range(len(now)), len(now))
            at, now = tuple(at[k] for k in order), tuple(now[k] for k in order)
            where = [[w[k] for k in order] for w in where]
        else:
            d = random_.randrange(len(now))
            at = (*at[:d], index(now[d] - 1) - at[d], *at[d + 1 :])
            where = [[*w[:d], now[d] - 1 - w[d], *w[d + 1 :]] for w in where]
    texts = [i.text(literal) for i in at]
    for values, expected in zip(plain, where, strict=True):
        known = dict(zip(names, values, strict=True))
        assert [evaluate(t, known) for t in texts] == expected, texts


def join(at: list[int], shape: tuple[int, ...]) -> int:
    return sum(i * math.prod(shape[k + 1 :]) for k, i in enumerate(at))


def split(position: int, shape: tuple[int, ...]) -> list[int]:
    return [position // math.prod(shape[k + 1 :]) % n for k, n in enumerate(shape)]


def test_a_position_split_and_joined_is_itself_at_both_scales() -> None:
    shape = (Num.of((64, 4), "n"), num(16), Num.of((32, 8), "h"), Num.of((30, 6), "w"))
    i = variable("i", product(shape))
    assert linear(coordinates(i, shape), shape) == i
    other = (Num.of((64 * 16, 4 * 16), "a"), Num.of((32 * 30, 8 * 6), "b"))
    through = coordinates(linear(coordinates(i, other), other), shape)
    assert linear(through, shape) == i


def test_what_holds_at_one_scale_only_is_not_simplified() -> None:
    n = Num.of((8, 6), "n")
    i = variable("i", n * 3)
    assert (i % 4 // 1).text(literal) == "(i % (4))"
    assert (variable("j", Num.of((4, 9), "m")) % 4) != variable("j", Num.of((4, 9), "m"))


def test_group_rows_are_found_in_the_channels() -> None:
    n, groups, inside, pixels = Num.of((7, 3), "n"), num(4), num(5), Num.of((50, 6), "p")
    full, grouped = (n, groups * inside, pixels), (n, groups, inside * pixels)
    o, r = variable("o", n * groups), variable("r", inside * pixels, 1)
    at = coordinates(linear((o, r), (n * groups, inside * pixels)), full)
    kept = coordinates(linear(at, full), grouped)[:2]
    assert linear(kept, (n, groups)) == o


def test_dims_of_one_have_coordinate_zero() -> None:
    assert coordinates(variable("i", 6), (num(2), ONE, num(3)))[1] == index(0)
    assert isinstance(variable("i", 1), Index)
    assert variable("i", 1).is_zero


def test_strides_are_row_major() -> None:
    assert [s.own for s in strides_of((num(2), num(3), num(4)))] == [12, 4, 1]


@pytest.mark.parametrize(
    ("own", "scaled", "value_at"),
    [
        (64, 4, lambda n, m: n),
        (64 * 100, 4 * 30, lambda n, m: n * m),
        (63, 3, lambda n, m: n - 1),
        (32, 2, lambda n, m: n // 2),
        (128, 8, lambda n, m: 2 * n),
        (51, 16, lambda n, m: m // 2 + 1),
        (17, 17, lambda n, m: 17),
    ],
)
def test_symbols_find_an_expression_for_both_scales(
    own: int, scaled: int, value_at: object
) -> None:
    symbols = Symbols({"x.size(0)": (64, 4), "x.size(1)": (100, 30)})
    expr = symbols.integer((own, scaled)).host.replace("/", "//")
    for n, m in ((64, 100), (4, 30)):
        x = type("x", (), {"size": lambda self, d, n=n, m=m: (n, m)[d]})()
        assert eval(expr, {"x": x}) == value_at(n, m)  # type: ignore[operator]
        assert eval(f"3 * {expr} * 5", {"x": x}) == 15 * value_at(n, m)  # type: ignore[operator]


def test_symbols_refuse_what_fits_nothing() -> None:
    symbols = Symbols({"x.size(0)": (64, 4)})
    with pytest.raises(Refusal, match="is 1000 at the task's shapes and 7"):
        symbols.integer((1000, 7), "a stride")


@pytest.mark.parametrize(
    ("own", "scaled", "text"),
    [(1 / 64, 1 / 4, "1.0 / double("), (8.0, 2.0, "sqrt("), (0.125, 0.5, "1.0 / sqrt(")],
)
def test_real_constants_follow_a_dimension(own: float, scaled: float, text: str) -> None:
    real = Symbols({"x.size(0)": (64, 4)}).real((own, scaled))
    assert not isinstance(real, float)
    assert text in real.expr
