"""Launches at the task's own sizes: checked against the device's limits, without running a kernel.

Sizes are reduced for a CPU, and a block of one thread for each column is no fault at 255 columns.
So the candidate's host code runs once more on tensors of the task's own sizes, which are reserved
and never filled. It also shows where that code goes another way than at the sizes that were run.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from musaagent.errors import InfraError, TaskError
from musaagent.tools.ptxas import base_name
from musaagent.tools.reference_session import ReferenceSession
from musaagent.tools.results import Finding, FindingKind
from musaagent.tools.session import CandidateFailure, CandidateSession

_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class OwnLaunches:
    """What the candidate's host code launched at the task's own sizes."""

    over: Finding | None = None
    """The first launch over a limit."""
    kernels: frozenset[str] = frozenset()
    """Plain names."""
    ended: bool = False
    """Whether forward returned; otherwise the launches may not be all."""


def own_launches(session: CandidateSession, reference: ReferenceSession) -> OwnLaunches:
    """Run the host code at the task's own sizes, no kernel.

    The session is of no other use afterwards. What the candidate raises, and its running out of
    time or memory, say nothing: its host code saw zeros in place of values.
    """
    before = len(session.evidence.findings)
    counts = {key: launch.count for key, launch in session.evidence.launches.items()}
    ended = False
    try:
        own = reference.own()
        session.request({"op": "launches", **own}, doing="launch", timeout_s=_TIMEOUT_S)
        ended = True
    except (CandidateFailure, InfraError, TaskError):
        pass
    launches = session.evidence.launches.items()
    names = [launch.kernel for key, launch in launches if launch.count > counts.get(key, 0)]
    over = None
    for finding in session.evidence.findings[before:]:
        # Dimensions of zero come from the zeros.
        if finding.kind is FindingKind.INVALID_LAUNCH and "zero dimension" not in finding.message:
            over = over or finding
        ended = False
    return OwnLaunches(over, plain_names(names), ended)


def plain_names(kernels: Iterable[str]) -> frozenset[str]:
    """Without template arguments: the block size in them may well follow the sizes."""
    return frozenset(base_name(name) for name in kernels)
