"""From an address in a candidate's library to the candidate's own line."""

import re
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

from musaagent.tools.results import Finding


def locate(finding: Finding, raw: dict[str, Any]) -> Finding:
    """Fill in source and line from the report's `module` and `offset` where the line is missing."""
    if finding.line or not raw.get("module"):
        return _named(finding, finding.source, finding.line)
    source, line = _lookup(str(raw["module"]), str(raw["offset"]))
    return _named(finding, source, line)


def _named(finding: Finding, source: str, line: int) -> Finding:
    return finding.model_copy(update={"source": Path(source).name if source else "", "line": line})


@lru_cache(maxsize=4096)
def _lookup(module: str, offset: str) -> tuple[str, int]:
    try:
        # The recorded address is the return address of the access: one byte back is the access.
        address = hex(max(int(offset, 16) - 1, 0))
        done = subprocess.run(
            ["addr2line", "-i", "-e", module, address], capture_output=True, text=True, timeout=30
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return "", 0
    for row in done.stdout.splitlines():
        match = re.match(r"(.*):(\d+)", row)
        # Inlined frames come innermost first; the first one in the candidate's text is its line.
        if match and "_sources[" in match[1] and int(match[2]):
            return match[1], int(match[2])
    return "", 0
