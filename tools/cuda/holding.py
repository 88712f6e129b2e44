"""Holds back the launches of loaded modules: those of every level of a build but split.

What does not go through the runtime's launch calls (the driver's own, a graph that torch replays)
is not held back; the list of kernels that ran shows it.
"""

import ctypes
from pathlib import Path

HELD_BACK = "musacuda_held_back"
OBJECT_NAME = "launches.o"
_CALLS = (
    *("cudaLaunchKernel", "__cudaLaunchKernel", "cudaLaunchCooperativeKernel"),
    *("cudaLaunchKernelExC", "cudaGraphLaunch"),
)


def link_words(folder: Path) -> list[str]:
    """For the linker: our object of `folder` (runtime/launches.cpp), and what it stands before."""
    wraps = [f"-Wl,--wrap={name}{end}" for name in _CALLS for end in ("", "_ptsz")]
    return [str(folder / OBJECT_NAME), *wraps]


class Launches:
    """The modules of one process."""

    def __init__(self) -> None:
        self._switches: list[ctypes.c_int] = []

    def add(self, library: str) -> None:
        """A module that is loaded already; one of level split has no switch."""
        loaded = ctypes.CDLL(library)
        if hasattr(loaded, HELD_BACK):
            self._switches.append(ctypes.c_int.in_dll(loaded, HELD_BACK))

    def hold(self, held: bool) -> None:
        for switch in self._switches:
            switch.value = int(held)
