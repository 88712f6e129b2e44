"""Sizes that a task is also tried at: odd ones, and its own in one dimension at a time.

Runs in the reference's worker, on top of the search for smaller sizes (`musaagent.tools.scales`).
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from musaagent.tools import scales
from musaagent.tools.scaling import Role, SizeConstant

if TYPE_CHECKING:
    from musaagent.tools.plan import TaskScales

ODD = "odd"
OWN = ("own 1", "own 2")
LANES = (ODD, *OWN)

LONG = 1024
"""Loops and blocks that stop here, or further on, are common: a longer dimension that was reduced
is tried at its own size."""
_LEAST_ODD = 5
_MOST_TRIES = 6
_FEW = 2


def lane_sizes(task: "TaskScales", lane: str) -> dict[str, int] | None:
    """Overrides of the task's size constants; None where the lane has nothing to show."""
    if lane == ODD:
        return _odd(task)
    found = list(_one_dimension_each(task))
    index = OWN.index(lane)
    return found[index] if index < len(found) else None


def _sizes(task: "TaskScales") -> list[SizeConstant]:
    return [c for c in task.constants if c.role in (Role.BATCH, Role.SIZE)]


def _odd(task: "TaskScales") -> dict[str, int] | None:
    """The sizes of the checked run, each one less where it is even: all, or as many as can be."""
    base = task.scale(scales.CHECK).overrides
    now = {c.name: base.get(c.name, c.value) for c in _sizes(task)}
    groups: dict[int, dict[str, int]] = {}
    for name, size in now.items():
        if size % 2 == 0 and size > _LEAST_ODD:
            groups.setdefault(size, {})[name] = size - 1
    every = {name: size for group in groups.values() for name, size in group.items()}
    if not every:
        return None
    if _runs(task, base | every):
        return base | every
    kept: dict[str, int] = {}
    for group in list(groups.values())[:_MOST_TRIES]:
        if len(groups) > 1 and _runs(task, base | kept | group):
            kept |= group
    return base | kept if kept else None


def _one_dimension_each(task: "TaskScales") -> Iterator[dict[str, int]]:
    """For each long dimension that was reduced: its own size, the rest small."""
    run, check = (task.scale(b).overrides for b in (scales.RUN, scales.CHECK))
    sizes = _sizes(task)
    long = {
        (c.value, c.role): [n.name for n in sizes if (n.value, n.role) == (c.value, c.role)]
        for c in sorted(sizes, key=lambda c: -c.value)
        if c.value > LONG and run.get(c.name, c.value) < c.value
    }
    for names in list(long.values())[: len(OWN)]:
        rest = {n: v for n, v in check.items() if n not in names}
        batch = {c.name: _FEW for c in sizes if c.role is Role.BATCH and c.name not in names}
        for overrides in (rest, rest | batch):
            if _runs(task, overrides):
                yield overrides
                break


def _runs(task: "TaskScales", overrides: Mapping[str, int]) -> bool:
    """Whether it is the same op there, and small enough."""
    found = task.measure(overrides)
    return found is not None and found.within(scales.RUN)
