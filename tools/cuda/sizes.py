"""At which sizes a task runs on a card: in trials, whose values travel, and while it is timed."""

import math
import re
from typing import TYPE_CHECKING

from musaagent.tools.opgraph import Plan

if TYPE_CHECKING:
    from musaagent.tools.cuda.target import CudaTarget
    from musaagent.tools.task import Task

TRIAL_BYTES = 16 << 20
"""Trials are at the task's own sizes up to here: outputs cross sockets in each of them."""
CROWDING_BYTES = 1 << 30
"""Of larger tasks one at a time is on a card while it is timed."""
_COPIES = 8
"""Of inputs, weights and outputs, on a card at once: two processes hold input sets and buffers, the
baselines and the candidate their outputs, and the judge its float64 copies."""
_FOR_OTHERS = 8
"""The part of a card that is left to those who are on it meanwhile."""
_UNKNOWN_CARD_BYTES = 10 << 30
_SHAPE = re.compile(r"([a-z0-9_]+)\[([\d, ]*)\]")
_BITS = re.compile(r"\d+")


def plan_bytes(plan: Plan) -> int:
    """Inputs, weights and outputs; of a task that was not traced, what the shapes tell."""
    if plan.least_bytes:
        return plan.least_bytes
    return sum(_bytes_of(text) for text in (*plan.input_shapes, *plan.output_shapes))


def _bytes_of(text: str) -> int:
    found = _SHAPE.search(text)
    if found is None:
        return 0
    bits = _BITS.search(found[1])
    each = max(int(bits[0]) // 8, 1) if bits else 1
    return each * math.prod(int(n) for n in found[2].split(",") if n.strip())


def trial_sizes(target: "CudaTarget", task: "Task") -> dict[str, int] | None:
    """Size constants that are other in trials; empty for the task's own."""
    plan = target.plan_or_none(task)
    if plan is None or plan_bytes(plan) <= TRIAL_BYTES:
        return {}
    return target.plain_reference(task, "run").scaling("gpu")


def sizes_for(target: "CudaTarget", task: "Task", name: str) -> dict[str, int] | None:
    """Size constants that scale `check` or a lane changes: found by a CPU's reference, once.

    So a run at other sizes takes no more memory and time on a card than a CPU could give it.
    """
    if not target.tries_sizes:
        return None
    home = target.plain_reference(task, "run")
    find = home.scaling if name == "check" else home.lane
    return target.lane_sizes.get((task.hash, name), lambda: find(name))


def fits_card(plan: Plan | None, memory_mb: int) -> bool:
    """Whether the task can be timed at its own sizes; of a card of unknown size little is asked."""
    room = memory_mb << 20 or _UNKNOWN_CARD_BYTES
    return plan is not None and _COPIES * plan_bytes(plan) <= room - room // _FOR_OTHERS
