"""The fastest level: host part by g++ with a precompiled header, device part by nvcc alone."""

from collections.abc import Sequence

from musaagent.tools.cuda.commands import Places, Script
from musaagent.tools.cuda.toolchain import CudaToolkit
from musaagent.tools.cuda.units import CudaUnit
from musaagent.tools.host.sources import Piece, SourceSet
from musaagent.tools.host.toolchain import Compiler


def split_script(
    sources: SourceSet,
    parts: Sequence[Piece],
    arch: str,
    toolkit: CudaToolkit,
    compiler: Compiler,
    places: Places,
) -> tuple[list[CudaUnit], Script] | None:
    """None where the sources need one compiler to see host and device code together."""
    return None
