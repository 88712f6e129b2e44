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
    generated = False
    for row in done.stdout.splitlines():
        match = re.match(r"(.*):(\d+)", row)
        # Inlined frames come innermost first; the first one in the candidate's text is its line.
        if match and "_sources[" in match[1] and int(match[2]):
            return match[1], int(match[2])
        generated = generated or bool(match and match[1].endswith(".cpp"))
    return _from_table(module, int(address, 16)) if generated else ("", 0)


def _from_table(module: str, address: int) -> tuple[str, int]:
    """The line table's own row for an address.

    addr2line of binutils 2.40 takes the first file of a DWARF 5 table for the compiled one, which
    holds the candidate's text under its own name.
    """
    try:
        done = subprocess.run(
            ["objdump", "--dwarf=decodedline", module], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return "", 0
    rows = re.findall(r"^(\S+)\s+(\d+)\s+0x([0-9a-f]+)", done.stdout, re.MULTILINE)
    # The last row of the highest address that is not above it.
    best, place = -1, ("", 0)
    for name, line, at in rows:
        if best <= int(at, 16) <= address:
            best, place = int(at, 16), (name, int(line))
    return place if "_sources[" in place[0] else ("", 0)
