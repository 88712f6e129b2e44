"""Remarks on kernels that compute in less than the task's values are given in.

They never decide: the error against float64 does. A kernel in TF32 may well be within tolerance,
and whoever takes it should know.
"""

from collections.abc import Collection, Iterable, Sequence

from musaagent.tools.ptxas import base_name
from musaagent.tools.results import KernelResources, Launch
from musaagent.tools.sass import ADDRESS

_WIDE = frozenset({"float32", "float64"})
_FLOATS = _WIDE | {"float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex32"}
LESS = {
    "half": "half precision",
    "bfloat16": "bfloat16",
    "tf32": "TF32",
    "fp8": "fp8",
    "int8": "integers on tensor cores",
}
"""What is less than float32, in words."""


def precision_flags(
    resources: Iterable[KernelResources], launches: Sequence[Launch], dtypes: Collection[str]
) -> list[str]:
    """`precision: kernel k computes in TF32 (HMMA.1688.F32.TF32)`, for launched kernels.

    `dtypes` are torch's names for all inputs, weights and outputs; nothing is said of a task that
    has narrow ones. Without launches (nothing ran, or it was not seen) all kernels count.
    """
    floats = _FLOATS.intersection(dtypes)
    if not floats or floats - _WIDE:
        return []
    kernels = list(resources)
    wide = " and ".join(sorted(floats))
    return [
        f"precision: kernel {r.kernel} computes in {words} ({', '.join(r.arithmetic[kind])});"
        f" the task's values are {wide}"
        for r in kernels
        if not launches or launches_of(r.kernel, kernels, launches)
        for kind, words in LESS.items()
        if kind in r.arithmetic
    ]


def launches_of(
    kernel: str, kernels: Sequence[KernelResources], launches: Sequence[Launch]
) -> list[Launch]:
    """By its full name; by the plain one where no other instance of a template has it too."""
    wanted = kernel.replace(" ", "")
    exact = [launch for launch in launches if launch.kernel.replace(" ", "") == wanted]
    plain = base_name(kernel)
    if exact or sum(base_name(r.kernel) == plain for r in kernels) != 1:
        return exact
    return [launch for launch in launches if base_name(launch.kernel) == plain]


def pointer_flags(resources: Iterable[KernelResources], launches: Sequence[Launch]) -> list[str]:
    """`calls: kernel k calls functions by their address (...)`, for launched kernels.

    On the host an address leads to host code just as well (exploits 1 and 4).
    """
    kernels = list(resources)
    return [
        f"calls: kernel {r.kernel} calls functions by their address"
        f" ({', '.join(r.arithmetic[ADDRESS])}): whose they are was not seen"
        for r in kernels
        if ADDRESS in r.arithmetic and launches_of(r.kernel, kernels, launches)
    ]
