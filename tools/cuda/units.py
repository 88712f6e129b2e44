"""The translation units of one `load_inline` call for nvcc and g++, by level.

The candidate's text is compiled as it stands, with #line so that messages carry its own places.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from musaagent.tools.host.sources import (
    CUDA_PRELUDE,
    FUNCTIONS_LABEL,
    MODULE_MACRO,
    Piece,
    SourceSet,
    can_merge,
    has_module,
)

CudaLevel = Literal["split", "thin", "light", "full"]
"""What the sources are compiled against, fastest first.

split  our thin torch headers; host part by g++ with a precompiled header, device part by nvcc alone
thin   our thin torch headers, all by nvcc
light  torch's own headers without its C++ front end (no torch::nn, no autograd functions)
full   exactly what stock load_inline does, but for launches, which can be held back
"""


@dataclass(frozen=True)
class CudaUnit:
    """One file to compile."""

    file_name: str
    text: str
    compiler: Literal["g++", "nvcc", "none"]


def make_units(sources: SourceSet, parts: Sequence[Piece], level: CudaLevel) -> list[CudaUnit]:
    """Files for one level; on `thin` both source lists make one unit where that is the same."""
    if sources.files:
        return [_file_unit(sources, part, level) for part in parts]
    cpp = [part for part in parts if part.language == "cpp"]
    cuda = [part for part in parts if part.language == "cuda"]
    implicit = sources.implicit_headers
    head = name_lines(sources, level)
    main = ("#include <torch/extension.h>\n" if implicit else "") + _join(cpp)
    main += module_lines(sources, parts, level)
    device = (CUDA_PRELUDE if implicit else "") + _join(cuda)
    if not cuda:
        return [CudaUnit("main.cpp", head + main, "g++")]
    if level == "thin" and (can_merge(sources, parts) or not main.strip()):
        return [CudaUnit("cuda.cu", head + main + device, "nvcc")]
    return [CudaUnit("main.cpp", head + main, "g++"), CudaUnit("cuda.cu", head + device, "nvcc")]


def module_lines(sources: SourceSet, parts: Sequence[Piece], level: CudaLevel) -> str:
    """What makes `functions` reachable from Python."""
    if not sources.functions:
        return ""
    thin = level in ("split", "thin")
    if not thin and has_module(parts):
        return ""
    if thin:
        body = f"MUSAHOST_EXPORT_TABLE({', '.join(sources.functions)})"
    else:
        calls = "".join(
            f'm.def("{f}", torch::wrap_pybind_function({f}), "{f}");' for f in sources.functions
        )
        body = f"{MODULE_MACRO}(TORCH_EXTENSION_NAME, m) {{ {calls} }}"
    return f'#line 1 "{FUNCTIONS_LABEL}"\n{body}\n'


def name_lines(sources: SourceSet, level: CudaLevel) -> str:
    """The thin levels share a precompiled header, which cannot know the name."""
    if level not in ("split", "thin"):
        return ""
    return f"#undef TORCH_EXTENSION_NAME\n#define TORCH_EXTENSION_NAME {sources.name}\n"


def _file_unit(sources: SourceSet, part: Piece, level: CudaLevel) -> CudaUnit:
    text = f'#line 1 "{part.label}"\n{part.text}\n'
    if part.language == "header":
        return CudaUnit(part.label, part.text, "none")
    return CudaUnit(
        part.label,
        name_lines(sources, level) + text,
        "nvcc" if part.language == "cuda" else "g++",
    )


def _join(parts: Sequence[Piece]) -> str:
    return "".join(f'#line 1 "{part.label}"\n{part.text}\n' for part in parts)
