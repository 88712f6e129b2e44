"""Which kind of jail CUDA comes up in on this machine: tried, not guessed."""

import logging
from collections.abc import Sequence

from musaagent.errors import SandboxLost
from musaagent.tools.jail import JailSpec, Kind
from musaagent.tools.sandbox import sandbox_kind
from musaagent.tools.wire import WireError
from musaagent.tools.zygote import Zygote

PROBE_ENTRY = "musaagent.tools.cuda.worker:probe"
_TIMEOUT_S = 60.0
_ORDER = (Kind.NAMESPACES, Kind.LANDLOCK, Kind.RLIMITS, Kind.NONE)

log = logging.getLogger(__name__)


def working_kind(
    zygote: Zygote, devices: Sequence[str], uuid: str, entry: str = PROBE_ENTRY
) -> Kind:
    """The best kind, with a warning where it is weaker than without a GPU. Raises SandboxLost."""
    report = sandbox_kind()
    best = report.workers
    reasons: list[str] = []
    for kind in _ORDER[_ORDER.index(best) :]:
        if report.forced and kind is not best:
            break
        reason = _try(zygote, kind, devices, uuid, entry)
        if reason is None:
            if kind is not best:
                log.warning("candidates run in %s with a GPU: %s", kind, "; ".join(reasons))
            return kind
        reasons.append(f"{kind}: {reason}")
    raise SandboxLost(f"the card does not start in any sandbox: {'; '.join(reasons)}")


def _try(zygote: Zygote, kind: Kind, devices: Sequence[str], uuid: str, entry: str) -> str | None:
    spec = JailSpec(
        kind=kind,
        devices=tuple(devices),
        address_space=False,
        max_processes=256,
        read_only=("/sys",),
        memory_mb=16384,
    )
    try:
        with zygote.spawn(entry, spec, name="probe") as child:
            child.channel.send({"gpu": uuid}, [])
            answer, _ = child.channel.recv(_TIMEOUT_S)
    except (SandboxLost, WireError, OSError, TimeoutError) as error:
        return str(error) or type(error).__name__
    return None if answer.get("ok") is True else str(answer.get("error"))
