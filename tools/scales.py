"""Choose smaller sizes for a task, so that a CPU can run it: the stated rule, as a search.

The rule: constants are divided in steps of about two, the largest first and the batch before the
rest, until the budget is met. A step keeps what divided the size before (powers of two up to 32,
groups, heads, patches) and keeps odd sizes odd. Equal sizes stay equal and different ones different
where the budget allows. Sizes below 16, heads and layers change only if nothing else helps. A
choice counts only if the task still runs and is still the same op (`musaagent.tools.meaning`).
"""

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from musaagent.tools.scaling import SMALL, Role, SizeConstant

_BATCH_WEIGHT = 8
_MOST_MEASURES = 30
_NEARLY = 8
"""A search that ends this near the budget is not tried again another way."""


@dataclass(frozen=True)
class Budget:
    flops: int
    elements: int
    """Elements of inputs, parameters and outputs together."""
    batch_weight: int = _BATCH_WEIGHT
    """How much sooner than an equal feature size the batch is reduced."""

    def times(self, factor: int) -> "Budget":
        return replace(self, flops=self.flops * factor, elements=self.elements * factor)


RUN = Budget(flops=40_000_000, elements=2_000_000)
"""About a second of one core on the host target, which does some 1e8 inner-loop steps a second."""
CHECK = Budget(flops=1_500_000, elements=60_000)
"""The watched run is 10 to 100 times slower."""
LARGE = Budget(flops=600_000_000, elements=20_000_000, batch_weight=1 << 20)
"""For what is wrong at reduced sizes: the batch alone is reduced, where that will do."""
GPU = Budget(flops=2_000_000_000_000, elements=4 << 20, batch_weight=1 << 20)
"""For runs on a card whose values travel through sockets: 16 MiB of float32."""
PROBE = Budget(flops=300_000_000, elements=3_000_000, batch_weight=1 << 20)
"""For questions to the reference alone, run by torch: features as large as can be."""


@dataclass(frozen=True)
class Footprint:
    flops: int
    elements: int

    def within(self, budget: Budget) -> bool:
        return self.flops <= budget.flops and self.elements <= budget.elements


Measure = Callable[[Mapping[str, int]], Footprint | None]
"""What the task takes with these overrides; None where it does not run or is another op."""


@dataclass(frozen=True)
class Scale:
    """A choice of sizes; empty `overrides` are the task's own."""

    overrides: dict[str, int]
    footprint: Footprint
    reached: bool
    """Whether the budget is met; otherwise this is the smallest that was found."""


def choose(
    constants: Sequence[SizeConstant],
    own: Footprint,
    measure: Measure,
    budget: Budget,
    cpu_seconds: float = 20.0,
) -> Scale:
    """The least reduced sizes within the budget, or the smallest that were found in time."""
    if own.within(budget):
        return Scale({}, own, True)
    deadline = time.process_time() + cpu_seconds
    found = _Search(constants, own, measure, budget, deadline).scale()
    batches = {c.value for c in constants if c.role is Role.BATCH}
    if (
        found.reached
        or found.footprint.within(budget.times(_NEARLY))
        or not batches & {c.value for c in constants if c.role is Role.SIZE}
    ):
        return found
    # Some ops need the batch to be as long as another size.
    tied = [replace(c, role=Role.SIZE) if c.role is Role.BATCH else c for c in constants]
    again = _Search(tied, own, measure, budget, deadline).scale()
    return min(found, again, key=lambda s: (not s.reached, s.footprint.flops))


@dataclass(frozen=True)
class _Group:
    """Constants that change together."""

    names: tuple[str, ...]
    own: int
    divisor: int
    weight: int

    def step(self, value: int) -> int | None:
        return next_size(value, self.own, self.divisor)

    def ladder(self) -> list[int]:
        sizes = [self.own]
        while (smaller := self.step(sizes[-1])) is not None:
            sizes.append(smaller)
        return sizes


@dataclass(frozen=True)
class _Stage:
    groups: tuple[_Group, ...]
    floor: int


_State = dict[str, int]


class _Search:
    def __init__(
        self,
        constants: Sequence[SizeConstant],
        own: Footprint,
        measure: Measure,
        budget: Budget,
        deadline: float,
    ) -> None:
        self.own: _State = {c.name: c.value for c in constants}
        self.measure = measure
        self.budget = budget
        self.deadline = deadline
        self.seen: dict[frozenset[tuple[str, int]], Footprint | None] = {}
        self.seen[frozenset(self.own.items())] = own
        self.stages = list(_stages(constants, budget))

    def footprint(self, state: _State) -> Footprint | None:
        key = frozenset(state.items())
        if key not in self.seen:
            if time.process_time() > self.deadline:
                return None
            changed = {n: v for n, v in state.items() if v != self.own[n]}
            self.seen[key] = self.measure(changed)
        return self.seen[key]

    def fits(self, state: _State) -> bool:
        found = self.footprint(state)
        return found is not None and found.within(self.budget)

    def scale(self) -> Scale:
        state = self.spread(self.bisect())
        footprint = self.seen.get(frozenset(state.items()))
        if footprint is None or not footprint.within(self.budget):
            state, footprint = self._smallest()
        overrides = {name: value for name, value in state.items() if value != self.own[name]}
        return Scale(overrides, footprint, footprint.within(self.budget))

    def _smallest(self) -> tuple[_State, Footprint]:
        valid = [(f, key) for key, f in self.seen.items() if f is not None]
        footprint, key = min(valid, key=lambda v: (v[0].flops, v[0].elements))
        return dict(key), footprint

    def bisect(self) -> _State:
        """The first state on the way down that fits. Costs fall along it; validity may not."""
        path = [self.own, *self._path()]
        low, high = 0, len(path)
        while high - low > 1:
            middle = (low + high) // 2
            found = self.footprint(path[middle])
            if found is not None and not found.within(self.budget):
                low = middle
            else:
                high = middle
        if high < len(path) and self.fits(path[high]):
            return path[high]
        return path[low] if high == len(path) else self._walk(path[low])

    def _path(self) -> Iterator[_State]:
        state = dict(self.own)
        for stage in self.stages:
            while moves := _moves(stage, state):
                state = moves[0][1]
                yield state

    def _walk(self, state: _State) -> _State:
        """Step by step from a valid state, leaving out what the task does not survive."""
        for stage in self.stages:
            stuck: set[tuple[str, ...]] = set()
            while not self.fits(state) and len(self.seen) < _MOST_MEASURES:
                moves = [(g, s) for g, s in _moves(stage, state) if g.names not in stuck]
                if not moves:
                    break
                group, changed = moves[0]
                if self.footprint(changed) is None:
                    stuck.add(group.names)
                else:
                    state = changed
        return state

    def spread(self, state: _State) -> _State:
        """Draw apart sizes that differed and met on the way down, their order kept if it can be."""
        groups = sorted(self.stages[0].groups, key=lambda g: -g.own)
        for larger, smaller in itertools.combinations(groups, 2):
            if larger.own == smaller.own or _size(larger, state) != _size(smaller, state):
                continue
            moves = [(larger, -1), (smaller, 1), (smaller, -1), (larger, 1)]
            for group, direction in moves:
                changed = _moved(group, state, direction)
                if changed is not None and not self._meets(group, changed) and self.fits(changed):
                    state = changed
                    break
        return state

    def _meets(self, group: _Group, state: _State) -> bool:
        """Whether the group now has the size of one that the task keeps different."""
        size = _size(group, state)
        return any(v == size and self.own[n] != group.own for n, v in state.items() if v >= SMALL)


def _size(group: _Group, state: _State) -> int | None:
    """The group's size; None where its members went apart or are small enough to coincide."""
    sizes = {state[name] for name in group.names}
    size = sizes.pop()
    return None if sizes or size < SMALL // 2 else size


def _moved(group: _Group, state: _State, direction: int) -> _State | None:
    """The state with one group a step up (-1) or down (1) its ladder."""
    ladder = group.ladder()
    value = state[group.names[0]]
    place = ladder.index(value) + direction if value in ladder else -1
    if not 0 <= place < len(ladder) or ladder[place] < SMALL // 2:
        return None
    return state | dict.fromkeys(group.names, ladder[place])


def _moves(stage: _Stage, state: _State) -> list[tuple[_Group, _State]]:
    """States one step below, the step of the largest size first."""
    steps: list[tuple[int, _Group, _State]] = []
    for group in stage.groups:
        value = state[group.names[0]]
        smaller = group.step(value)
        if smaller is not None and smaller >= (2 if group.weight > 1 else stage.floor):
            changed = state | dict.fromkeys(group.names, smaller)
            steps.append((value * group.weight, group, changed))
    return [(group, changed) for _, group, changed in sorted(steps, key=lambda s: -s[0])]


def _stages(constants: Sequence[SizeConstant], budget: Budget) -> Iterator[_Stage]:
    kept = [c.value for c in constants if c.role in (Role.OPERATION, Role.STRUCTURE)]
    sizes = [c for c in constants if c.role in (Role.BATCH, Role.SIZE)]
    rest = [c for c in constants if c.role is Role.STRUCTURE]
    tied: dict[tuple[int, Role], list[SizeConstant]] = {}
    for constant in sizes:
        tied.setdefault((constant.value, constant.role), []).append(constant)
    single = [[c] for c in sizes]

    def grouped(parts: Sequence[Sequence[SizeConstant]], kept: list[int]) -> tuple[_Group, ...]:
        return tuple(_group(part, kept, budget) for part in parts)

    yield _Stage(grouped(list(tied.values()), kept), SMALL)
    yield _Stage(grouped(single, kept), SMALL)
    every = [*single, *([c] for c in rest)]
    yield _Stage(grouped(every, kept), SMALL // 2)
    yield _Stage(grouped(every, []), 4)
    yield _Stage(grouped(every, []), 2)


def _group(part: Sequence[SizeConstant], kept: Sequence[int], budget: Budget) -> _Group:
    own = part[0].value
    if part[0].role is Role.BATCH:
        return _Group(tuple(c.name for c in part), own, 1, budget.batch_weight)
    divisor = math.lcm(1, *(k for k in kept if k >= 2 and own % k == 0 and k <= own // 2))
    divisor = divisor if divisor <= own // 2 else 1
    return _Group(tuple(c.name for c in part), own, divisor, 1)


def next_size(value: int, own: int, divisor: int = 1) -> int | None:
    """About half of `value`, with the structure of `own`: see the module's rule.

    None where nothing smaller has it.
    """
    target = value // 2
    power = min(own & -own, 32)
    while power > 1 and math.lcm(power, divisor) > target:
        power //= 2
    unit = math.lcm(power, divisor)
    smaller = target // unit * unit
    if own % 2 and smaller % 2 == 0:
        smaller += 1 if divisor == 1 else divisor % 2
    elif own % 32 and smaller % 32 == 0 and smaller > unit:
        smaller -= unit
    return smaller if 2 <= smaller < value else None
