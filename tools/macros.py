"""Text that a GPU's compiler is to get and the host target is not, or the other way round.

A tripwire: what ran on the host is then not what a GPU would run. It can be hidden.
"""

import ast
import re

from musaagent.tools.syntax import parse

_ASKED = re.compile(
    r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b[^\n]*?"
    r"\b(__(?:CUDA_ARCH|NVCC|NVCOMPILER|CUDACC|MUSACC|MUSA_ARCH)\w*|MUSAHOST\w*"
    r"|__(?:GNU[CG]|clang|x86_64|aarch64|OPTIMIZE|SANITIZE\w*)__)",
    re.MULTILINE,
)


def asked_macros(source: str) -> tuple[str, ...]:
    """`audit: line 12 asks for __CUDA_ARCH__ (...)`, each macro once."""
    found: dict[str, int] = {}
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for match in _ASKED.finditer(node.value):
                line = node.lineno + node.value.count("\n", 0, match.start(1))
                found.setdefault(match[1], line)
    return tuple(
        f"audit: line {line} asks for {name} (a GPU gets another text than what ran here)"
        for name, line in found.items()
    )
