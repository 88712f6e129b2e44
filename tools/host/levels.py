"""Decides from a failed compile whether another way to build the same sources could succeed."""

import re
from collections.abc import Sequence

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
_MISSING_NAME = (
    re.compile(rf"'(?P<name>\w+)' is not a member of '{_TORCH_SCOPE}'"),
    re.compile(rf"'(?P<name>\w+)' in namespace '{_TORCH_SCOPE}'"),
    re.compile(rf"'[^']*\b{_TORCH_SCOPE}::[^']*' has no member named '(?P<name>\w+)'"),
    re.compile(rf"'{_TORCH_SCOPE}::(?P<name>\w+)' has not been declared"),
    re.compile(r"'(?P<name>(?:TORCH|AT|C10|PYBIND11)_\w+|py|pybind11)' (?:was not|has not)"),
    re.compile(rf"no \w+ named '(?P<name>\w+)' in (?:namespace )?'{_TORCH_SCOPE}"),
)
_NO_MATCH = re.compile(
    rf"no matching (?:member )?function for call to '(?:[^']*\b)?{_TORCH_SCOPE}::(?P<name>\w+)"
    rf"|no matching function for call to '(?P<other>\w+)\([^']*{_TORCH_SCOPE}::"
    rf"|(?:could not convert|conversion from|cannot convert) '[^']*{_TORCH_SCOPE}::"
)
_NO_FILE = re.compile(r"^(?P<name>[\w./+-]+): No such file|^'(?P<clang>[\w./+-]+)' file not found")


def clashes(diagnostics: Sequence[Diagnostic]) -> bool:
    """Whether two separate units might compile where the merged one did not."""
    return any(_CLASH.search(d.message) or d.source == FUNCTIONS_LABEL for d in diagnostics)


def beyond_thin(diagnostics: Sequence[Diagnostic], torch: TorchHeaders) -> bool:
    """Whether an error names something that torch's own headers have and the thin ones lack.

    An error in the candidate's own code must not cost the long build, so the name is looked up.
    """
    return any(_beyond(diagnostic.message, torch) for diagnostic in diagnostics)


def _beyond(message: str, torch: TorchHeaders) -> bool:
    if match := _NO_FILE.match(message):
        header = match["name"] or match["clang"]
        return any((folder / header).is_file() for folder in torch.include)
    for pattern in _MISSING_NAME:
        if match := pattern.search(message):
            return _named_in(match["name"], torch)
    return _NO_MATCH.search(message) is not None


def _named_in(name: str, torch: TorchHeaders) -> bool:
    """Whether any of torch's headers holds the word."""
    word = re.compile(rb"\b" + re.escape(name.encode()) + rb"\b")
    base = torch.include[0]
    for folder in ("ATen", "c10", "torch/csrc/api/include", "torch/csrc/utils", "pybind11"):
        for path in (base / folder).rglob("*.h"):
            if word.search(path.read_bytes()):
                return True
    return False
