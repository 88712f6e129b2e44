"""Decides from a failed compile whether another way to build the same sources could succeed."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from musaagent.tools.host.sources import FUNCTIONS_LABEL
from musaagent.tools.host.toolchain import TorchHeaders
from musaagent.tools.results import Diagnostic

# What g++ and clang say where cpp_sources and cuda_sources, in one unit, get in each other's way.
_CLASH = re.compile(
    r"redefinition|redeclar|ambiguat|ambiguous|conflicting declaration|conflicts with"
    r"|default argument given|previously declared|different linkage|linkage specification"
    r"|overloaded function|was declared 'extern' and later 'static'|multiple definition"
)
_TORCH_SCOPE = r"(?:at|torch|c10|caffe2|pybind11|py|cuda)(?:::\w+)*"
_MEMBER = re.compile(r"'[^']*\bat::Tensor'[^']* has no member named '(?P<name>\w+)'")
_MISSING_NAME = (
    re.compile(rf"'(?P<name>\w+)' is not a member of '{_TORCH_SCOPE}'"),
    re.compile(rf"'(?P<name>\w+)' in namespace '{_TORCH_SCOPE}'"),
    re.compile(rf"'[^']*\b{_TORCH_SCOPE}::[^']*' has no member named '(?P<name>\w+)'"),
    re.compile(rf"'{_TORCH_SCOPE}::(?P<name>\w+)' has not been declared"),
    re.compile(r"'(?P<name>(?:TORCH|AT|C10|PYBIND11)_\w+|py|pybind11)' (?:was not|has not)"),
    re.compile(rf"no \w+ named '(?P<name>\w+)' in (?:namespace )?'{_TORCH_SCOPE}"),
)
_NO_MATCH = re.compile(
    rf"no matching (?:member )?function for call to '(?:[^']*\b)?{_TORCH_SCOPE}::\w+"
)
_NO_FILE = re.compile(r"^(?P<name>[\w./+-]+): No such file|^'(?P<clang>[\w./+-]+)' file not found")
_TENSOR_HEADERS = ("ATen/core/TensorBody.h", "ATen/core/TensorBase.h")
_TORCH_FOLDERS = ("ATen", "c10", "torch/csrc/api/include", "torch/csrc/utils", "pybind11")


def clashes(diagnostics: Sequence[Diagnostic]) -> bool:
    """Whether two separate units might compile where the merged one did not."""
    return any(_CLASH.search(d.message) or d.source == FUNCTIONS_LABEL for d in diagnostics)


def beyond_thin(diagnostics: Sequence[Diagnostic], torch: TorchHeaders, thin: Path) -> bool:
    """Whether an error names something that torch's own headers have and the thin ones lack.

    An error in the candidate's own code, or a header that it forgot, must not cost the long build:
    so the name is looked up in both. `thin` is the folder of our headers.
    """
    return any(_beyond(diagnostic.message, torch, thin) for diagnostic in diagnostics)


def _beyond(message: str, torch: TorchHeaders, thin: Path) -> bool:
    if match := _NO_FILE.match(message):
        header = match["name"] or match["clang"]
        return any((folder / header).is_file() for folder in torch.include)
    base = torch.include[0]
    if match := _MEMBER.search(message):
        return _holds((base / header for header in _TENSOR_HEADERS), match["name"])
    for pattern in _MISSING_NAME:
        if match := pattern.search(message):
            name = match["name"]
            real = (path for folder in _TORCH_FOLDERS for path in (base / folder).rglob("*.h"))
            ours = (path for path in thin.rglob("*") if path.is_file())
            return not _holds(ours, name) and _holds(real, name)
    return _NO_MATCH.search(message) is not None


def _holds(files: Iterable[Path], name: str) -> bool:
    """Whether any of the files has the word."""
    word = re.compile(rb"\b" + re.escape(name.encode()) + rb"\b")
    return any(word.search(path.read_bytes()) for path in files if path.is_file())
