"""Sets of inputs for timing, drawn by the reference's process and brought to the candidate's.

Through card memory that both map, where the driver lets them; else through host memory that both
map, else through sockets, up to a size.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from musaagent.errors import InfraError
from musaagent.tools.cuda.reference import MOST_SENT_BYTES, GpuReference, PassedOn
from musaagent.tools.cuda.session import CudaSession

_SETS = 3
_LARGE_SET_BYTES = 1 << 30


class TooLarge(InfraError):
    """The inputs can be neither shared nor sent; str() says why."""


@dataclass(frozen=True)
class SentSets:
    """What the candidate's process has now."""

    count: int
    host_s: float
    """How long the CPU is busy with one call of the candidate's."""
    ways: tuple[str, ...]
    """What is left of the ways to share."""
    why_not: str = ""
    """Why the first way, card memory, was not used; and which one was."""


def send_sets(
    session: CudaSession,
    reference: GpuReference,
    draw: random.Random,
    *,
    ways: Sequence[str],
    warm_up: int,
) -> SentSets:
    """Three sets, two of over 1 GiB, one of over 8 GiB. Raises CandidateFailure or TooLarge."""
    number, index, left = _SETS, 0, list(ways)
    reasons = [] if left else ["not asked for"]
    answer: dict[str, Any] = {}
    while index < number:
        given = reference.timing_inputs(draw.getrandbits(48), first=index == 0, ways=left)
        if given.nbytes > 8 * _LARGE_SET_BYTES:
            number = 1
        elif given.nbytes > _LARGE_SET_BYTES:
            number = 2
        header = {
            "op": "time_setup",
            "inputs": given.tree,
            "first": index == 0,
            "last": index + 1 >= number,
            "warm_up": warm_up,
        }
        while True:
            if given.why_not:
                reasons.append(given.why_not)
            left = left[left.index(given.where) :] if given.where in left else []
            answer = _hand_over(session, header, given, reasons)
            if not given.shared or "unmapped" not in answer:
                break
            reasons.append(str(answer["unmapped"])[:300])
            left = left[1:]
            given = reference.pass_on(left)
        index += 1
    why_not = "; ".join(reasons)
    if reasons and left:
        why_not = f"in {left[0]} memory: {why_not}"
    return SentSets(number, float(answer["host_s"]), tuple(left), why_not)


def _hand_over(
    session: CudaSession, header: dict[str, Any], given: PassedOn, reasons: Sequence[str]
) -> dict[str, Any]:
    try:
        if given.nowhere:
            size, most = given.nbytes / (1 << 30), MOST_SENT_BYTES >> 30
            why = "; ".join(reasons)
            raise TooLarge(f"{size:.1f} GiB of inputs, over {most} GiB, are not shared: {why}")
        answer, _ = session.request(
            header | {"tensors": given.metas, "shared": given.shared, "where": given.where},
            given.blobs,
            doing="warm up for timing",
            descriptors=[given.descriptor] if given.shared else (),
        )
        return answer
    finally:
        given.close()
