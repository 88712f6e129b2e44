"""The search for smaller sizes, on cost models whose right answer is known."""

import math
from collections.abc import Callable, Mapping

import pytest

from musaagent.tools.scales import RUN, Budget, Footprint, Scale, choose, next_size
from musaagent.tools.scaling import Role, SizeConstant

Sizes = dict[str, int]


def _choose(
    sizes: Mapping[str, tuple[int, Role]],
    cost: Callable[[Sizes], Footprint | None],
    budget: Budget = RUN,
) -> tuple[Sizes, Scale]:
    own = {name: value for name, (value, _) in sizes.items()}
    constants = [
        SizeConstant(name, value, role, line, 0, 0)
        for line, (name, (value, role)) in enumerate(sizes.items(), 1)
    ]
    first = cost(own)
    assert first is not None
    scale = choose(constants, first, lambda changed: cost(own | dict(changed)), budget)
    return own | scale.overrides, scale


def _matmul(s: Sizes) -> Footprint:
    m, n, k = s["M"], s["N"], s["K"]
    return Footprint(2 * m * n * k, m * k + k * n + m * n)


@pytest.mark.parametrize(
    ("value", "own", "divisor", "smaller"),
    [
        (4096, 4096, 1, 2048),
        (64, 4096, 1, 32),
        (32, 4096, 1, 16),
        (4095, 4095, 1, 2047),
        (1000, 1000, 1, 496),  # stays a multiple of 8, and no multiple of 32
        (768, 768, 12, 384),
        (96, 768, 12, 48),
        (8192, 8192, 512, 4096),
        (512, 8192, 512, None),
        (10, 10, 1, 4),
        (3, 3, 1, None),
        (2, 2, 1, None),
    ],
)
def test_a_step_keeps_the_structure(
    value: int, own: int, divisor: int, smaller: int | None
) -> None:
    assert next_size(value, own, divisor) == smaller


def test_odd_sizes_stay_odd_all_the_way() -> None:
    for own in (8205, 65535, 131, 4095, 2949):
        value: int | None = own
        while value is not None:
            assert value % 2 == 1
            value = next_size(value, own)


def test_own_sizes_stay_when_they_fit() -> None:
    sizes = {"M": (64, Role.SIZE), "N": (64, Role.SIZE), "K": (64, Role.SIZE)}
    _, scale = _choose(sizes, _matmul)
    assert scale == Scale({}, _matmul({"M": 64, "N": 64, "K": 64}), True)


def test_a_product_is_brought_within_the_budget_and_not_far_below() -> None:
    sizes = {"M": (4096, Role.SIZE), "N": (4096, Role.SIZE), "K": (4096, Role.SIZE)}
    got, scale = _choose(sizes, _matmul)
    assert scale.reached
    assert got["M"] == got["N"] == got["K"] == 256
    assert RUN.flops / 8 < scale.footprint.flops <= RUN.flops


def test_different_sizes_stay_different() -> None:
    sizes = {"M": (2048, Role.SIZE), "N": (4096, Role.SIZE), "K": (524288, Role.SIZE)}
    got, scale = _choose(sizes, _matmul)
    assert scale.reached
    assert len(set(got.values())) == 3
    assert got["K"] == max(got.values())


def test_the_batch_goes_first() -> None:
    sizes = {"batch": (256, Role.BATCH), "dim": (256, Role.SIZE), "out": (512, Role.SIZE)}

    def cost(s: Sizes) -> Footprint:
        return Footprint(s["batch"] * s["dim"] * s["out"] * 8, 0)

    got, _ = _choose(sizes, cost)
    assert got["dim"] == 256
    assert got["batch"] < 256


def test_what_the_op_does_not_survive_is_left_alone() -> None:
    sizes = {"batch": (64, Role.BATCH), "image": (224, Role.SIZE), "width": (512, Role.SIZE)}

    def cost(s: Sizes) -> Footprint | None:
        if s["image"] != 224:
            return None
        return Footprint(s["batch"] * s["image"] ** 2 * s["width"], 0)

    got, scale = _choose(sizes, cost)
    assert scale.reached
    assert got["image"] == 224


def test_a_batch_that_must_equal_a_feature_moves_with_it() -> None:
    sizes = {"batch": (32768, Role.BATCH), "dim": (32768, Role.SIZE)}

    def cost(s: Sizes) -> Footprint | None:
        return Footprint(0, s["batch"] * s["dim"]) if s["batch"] == s["dim"] else None

    got, scale = _choose(sizes, cost)
    assert scale.reached
    assert got == {"batch": 1024, "dim": 1024}


def test_groups_keep_their_divisibility() -> None:
    sizes = {"hidden": (8192, Role.SIZE), "groups": (512, Role.STRUCTURE)}

    def cost(s: Sizes) -> Footprint | None:
        if s["hidden"] % s["groups"] or s["groups"] != 512:
            return None
        return Footprint(s["hidden"] ** 2 * 8, 0)

    got, scale = _choose(sizes, cost)
    assert scale.reached
    assert got["hidden"] % 512 == 0


def test_operation_constants_never_change() -> None:
    sizes = {"n": (1 << 20, Role.SIZE), "kernel": (31, Role.OPERATION)}
    seen: list[int] = []

    def cost(s: Sizes) -> Footprint:
        seen.append(s["kernel"])
        return Footprint(s["n"] * s["kernel"] * 100, 0)

    _, scale = _choose(sizes, cost)
    assert scale.reached
    assert set(seen) == {31}


def test_small_sizes_change_only_when_nothing_else_helps() -> None:
    sizes = {"n": (64, Role.SIZE), "depth": (12, Role.STRUCTURE)}
    got, _ = _choose(sizes, lambda s: Footprint(s["n"] ** 2 * s["depth"] * 4000, 0))
    assert got["depth"] == 12
    got, scale = _choose(sizes, lambda s: Footprint(s["depth"] ** 2 * 1_000_000, 0))
    assert scale.reached
    assert got["depth"] < 12


def test_the_smallest_is_taken_and_said_when_no_choice_fits() -> None:
    sizes = {"batch": (64, Role.BATCH)}
    got, scale = _choose(sizes, lambda s: Footprint(10**10 + s["batch"], 0))
    assert not scale.reached
    assert got["batch"] == 2


def test_few_measurements() -> None:
    count = 0

    def cost(s: Sizes) -> Footprint:
        nonlocal count
        count += 1
        return Footprint(math.prod(s.values()), 0)

    sizes = {f"d{i}": (1 << 10 + i, Role.SIZE) for i in range(5)}
    _, scale = _choose(sizes, cost)
    assert scale.reached
    assert count < 16
