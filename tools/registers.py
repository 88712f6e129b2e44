"""Remarks on launches that a GPU refuses for the registers that the kernel takes.

The host target has as many as anybody wants; what the real compile says of sm_90 tells.
"""

import math
from collections.abc import Iterable, Sequence

from musaagent.tools.precision import launches_of
from musaagent.tools.results import KernelResources, Launch

_BLOCK_REGISTERS = 65536
"""Of a block, on every GPU from sm_50 on but sm_53 and sm_62."""
_WARP = 32
_UNIT = 256
"""A warp gets registers in steps of so many."""


def register_flags(resources: Iterable[KernelResources], launches: Sequence[Launch]) -> list[str]:
    """`registers: kernel k takes 72 a thread, too many for a block of 1024: ...`, once a kernel."""
    kernels = list(resources)
    flags = []
    for kernel in kernels:
        threads = [math.prod(one.block) for one in launches_of(kernel.kernel, kernels, launches)]
        most = max(threads, default=0)
        needed = math.ceil(kernel.registers * _WARP / _UNIT) * _UNIT * math.ceil(most / _WARP)
        if needed > _BLOCK_REGISTERS:
            flags.append(
                f"registers: kernel {kernel.kernel} takes {kernel.registers} a thread for "
                f"{kernel.arch}, too many for a block of {most} threads: a GPU refuses the launch "
                "(smaller blocks or __launch_bounds__)"
            )
    return flags
