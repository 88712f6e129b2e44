"""Launches at the task's own sizes: checked against the device's limits, without running a kernel.

Sizes are reduced for a CPU, and a block of one thread for each column is no fault at 255 columns.
So the candidate's host code runs once more on tensors of the task's own sizes, which are reserved
and never filled.
"""

from musaagent.errors import InfraError, TaskError
from musaagent.tools.reference_session import ReferenceSession
from musaagent.tools.results import Finding, FindingKind
from musaagent.tools.session import CandidateFailure, CandidateSession

_TIMEOUT_S = 20.0


def refused_launch(session: CandidateSession, reference: ReferenceSession) -> Finding | None:
    """The first launch over a limit; None where there is none, or nothing can be said.

    The session is of no other use afterwards. What the candidate raises, and its running out of
    time or memory, say nothing: its host code saw zeros in place of values.
    """
    before = len(session.evidence.findings)
    try:
        own = reference.own()
        session.request({"op": "launches", **own}, doing="launch", timeout_s=_TIMEOUT_S)
    except (CandidateFailure, InfraError, TaskError):
        pass
    for finding in session.evidence.findings[before:]:
        # Dimensions of zero come from the zeros.
        if finding.kind is FindingKind.INVALID_LAUNCH and "zero dimension" not in finding.message:
            return finding
    return None
