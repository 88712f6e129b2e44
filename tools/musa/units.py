"""The translation units of one `load_inline` call for mcc and the host's compiler.

Three spellings come in. MUSA names, by torch_musa's loader or by stock's, are compiled as they
stand; CUDA names (stock, or with torchada beside them) go through `port` first, which keeps every
line at its number, so that messages still carry the candidate's own places.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from musaagent.tools.host.lexer import Kind
from musaagent.tools.host.sources import (
    FUNCTIONS_LABEL,
    MODULE_MACRO,
    Piece,
    SourceSet,
    has_module,
    is_musa,
)
from musaagent.tools.port.cxx import defined_names, port_cxx
from musaagent.tools.port.sdk_tables import find_tables

MusaLevel = Literal["thin", "full"]
"""What the sources are compiled against.

thin   our thin torch headers in MUSA names: seconds, needs no torch_musa, is only looked at
full   torch's and torch_musa's own headers, as torch_musa's loader does; what it gives can run
"""
Spelling = Literal["musa", "cuda"]
PRELUDE = "#include <torch/types.h>\n#include <musa.h>\n#include <musa_runtime.h>\n"
_DEVICE_WORDS = frozenset({"__global__", "__device__"})


@dataclass(frozen=True)
class MusaUnit:
    """One file to compile."""

    file_name: str
    text: str
    compiler: Literal["cxx", "mcc", "none"]


def spelling_of(parts: Sequence[Piece]) -> Spelling:
    """`musa` where a header of MUSA's is included, or nothing of CUDA's is."""
    if is_musa(parts):
        return "musa"
    tables = find_tables()
    headers = {header for part in parts for header in part.headers}
    words = {t.text for part in parts for t in part.source.tokens if t.kind is Kind.WORD}
    cuda = any(tables.header(h) for h in headers) or any(w.startswith("cuda") for w in words)
    return "cuda" if cuda else "musa"


def make_units(sources: SourceSet, parts: Sequence[Piece], level: MusaLevel) -> list[MusaUnit]:
    """Files for one level. Sources that hold kernels go to mcc, whichever list they stand in."""
    own = frozenset(sources.functions or ())
    for part in parts:
        own |= defined_names(part.source)
    port_names = spelling_of(parts) == "cuda"
    texts = {part.label: _text(part, own, port_names) for part in parts}
    head = _head(sources, level)
    if sources.files:
        return [_file_unit(part, texts[part.label], head) for part in parts]
    cpp = [part for part in parts if part.language == "cpp"]
    device = [part for part in parts if part.language != "cpp"]
    module = _module(sources, parts, level)
    first = "#include <torch/extension.h>\n" if sources.implicit_headers else ""
    main = head + first + _join(cpp, texts) + module
    if any(_holds_kernels(part) for part in cpp):
        # The form of KernelBench's MUSA port: one text with kernels, host part and module.
        return [MusaUnit("musa.mu", main + _join(device, texts), "mcc")]
    units = [MusaUnit("main.cpp", main, "cxx")]
    if device:
        prelude = PRELUDE if sources.implicit_headers else ""
        units.append(MusaUnit("musa.mu", head + prelude + _join(device, texts), "mcc"))
    return units


def _holds_kernels(part: Piece) -> bool:
    tokens = part.source.tokens
    return any(t.text in _DEVICE_WORDS or t.kind is Kind.LAUNCH_OPEN for t in tokens)


def _text(part: Piece, own: frozenset[str], port_names: bool) -> str:
    if not port_names:
        return part.text
    return port_cxx(part.text, find_tables(), own_names=own, source=part.label).text


def _head(sources: SourceSet, level: MusaLevel) -> str:
    if level != "thin":
        return ""
    return f"#undef TORCH_EXTENSION_NAME\n#define TORCH_EXTENSION_NAME {sources.name}\n"


def _module(sources: SourceSet, parts: Sequence[Piece], level: MusaLevel) -> str:
    if not sources.functions:
        return ""
    if level == "thin":
        body = f"MUSAHOST_EXPORT_TABLE({', '.join(sources.functions)})"
    elif has_module(parts):
        return ""
    else:
        calls = "".join(
            f'm.def("{f}", torch::wrap_pybind_function({f}), "{f}");' for f in sources.functions
        )
        body = f"{MODULE_MACRO}(TORCH_EXTENSION_NAME, m) {{ {calls} }}"
    return f'#line 1 "{FUNCTIONS_LABEL}"\n{body}\n'


def _file_unit(part: Piece, text: str, head: str) -> MusaUnit:
    marked = f'#line 1 "{part.label}"\n{text}\n'
    if part.language == "header":
        return MusaUnit(part.label.replace(".cuh", ".muh"), text, "none")
    if part.language == "cuda":
        name = part.label.rsplit(".", 1)[0] + ".mu"
        return MusaUnit(name, head + marked, "mcc")
    return MusaUnit(part.label, head + marked, "cxx")


def _join(parts: Sequence[Piece], texts: dict[str, str]) -> str:
    return "".join(f'#line 1 "{part.label}"\n{texts[part.label]}\n' for part in parts)
