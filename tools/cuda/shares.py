"""Whose the device time of a call is: the candidate's own kernels', or fills' and copies'."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from musaagent.tools.ptxas import base_name, demangle
from musaagent.tools.results import Verdict

SHARE_FLAG = "share: "
LEAST_SHARE = 0.5
_MOST_NAMED = 3
# Fresh memory of a trial is filled by us; a candidate has hardly a reason to fill bytes.
_POISON = re.compile(r"FillFunctor<unsigned char>")
# What tells ATen's kernels apart: nearly all are one elementwise template.
_TELLING = re.compile(r"\w+Functor(?:<[\w: ]+>)?|\w+_kernel_cuda")


@dataclass(frozen=True)
class DeviceTime:
    """Nanoseconds on the device, of one call or several."""

    own_ns: int = 0
    rest_ns: dict[str, int] = field(default_factory=dict)
    """By name: other kernels, copies (`Memcpy DtoD`) and fills (`Memset`)."""

    @property
    def all_ns(self) -> int:
        return self.own_ns + sum(self.rest_ns.values())

    @property
    def own_share(self) -> float | None:
        """Between 0 and 1; None where nothing took any time."""
        return self.own_ns / self.all_ns if self.all_ns else None


def device_time(kernels: Any, own: Collection[str], *, poisoned: bool = False) -> DeviceTime:
    """Of a worker's list of what ran, which may hold anything; `own` are plain kernel names.

    `poisoned`: our own fills of fresh memory are among it, and are left out.
    """
    listed = [raw for raw in kernels if isinstance(raw, dict)] if isinstance(kernels, list) else []
    names = demangled([str(raw.get("kernel")) for raw in listed])
    own_ns, rest = 0, dict[str, int]()
    for raw, name in zip(listed, names, strict=True):
        ns = raw.get("ns")
        if not isinstance(ns, int) or ns < 0 or (poisoned and _POISON.search(name)):
            continue
        if "grid" in raw and base_name(name) in own:
            own_ns += ns
        else:
            short = short_name(name)
            rest[short] = rest.get(short, 0) + ns
    return DeviceTime(own_ns, rest)


def demangled(names: Sequence[str]) -> list[str]:
    """The profiler demangles most names by itself."""
    mangled = [name for name in names if name.startswith("_Z")]
    known = dict(zip(mangled, demangle(mangled), strict=True))
    return [known.get(name, name) for name in names]


def with_share(verdict: Verdict, found: DeviceTime | None) -> Verdict:
    """The verdict with the candidate's share, and a flag where it is small; as before for None."""
    share = found.own_share if found is not None else None
    if found is None or share is None:
        return verdict
    flags = [flag for flag in verdict.flags if not flag.startswith(SHARE_FLAG)]
    if share < LEAST_SHARE:
        flags.append(_flag(found, share))
    return verdict.model_copy(update={"own_share": share, "flags": tuple(flags)})


def _flag(found: DeviceTime, share: float) -> str:
    largest = sorted(found.rest_ns.items(), key=lambda item: -item[1])[:_MOST_NAMED]
    rest = ", ".join(f"{name} {ns / found.all_ns:.0%}" for name, ns in largest)
    whole = f"{share:.0%} of the device time is the candidate's own kernels"
    return f"{SHARE_FLAG}{whole}; the rest: {rest}"


def short_name(name: str) -> str:
    """`void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, ...>`
    as `FillFunctor<float>`; `Memcpy DtoD (Device -> Device)` as `Memcpy DtoD`.
    """
    if name.startswith(("Memcpy", "Memset")):
        return name.partition(" (")[0]
    telling = _TELLING.search(name) if "at::native" in name else None
    return telling[0] if telling else base_name(name)
