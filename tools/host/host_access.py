"""What is told of host code that touched device memory: the runtime's line on stderr, in words."""

import re
import subprocess

_LINE = re.compile(
    r"^musahost-host-access\t(read|write)\t([^\t\n]*)\t(0x[0-9a-f]+)\t([^\n]*)$", re.MULTILINE
)


def host_access(stderr: str) -> str:
    """One line for the verdict; '' where the process died of something else.

    The candidate could write such a line itself, into the message of its own end.
    """
    found = _LINE.search(stderr)
    if found is None:
        return ""
    does, module, offset, what = found.groups()
    where = f" of {function}" if (function := _function(module, offset)) else ""
    verb = "reads" if does == "read" else "writes"
    return f"host code{where} {verb} device memory ({what}): a GPU ends the process there"


def _function(module: str, offset: str) -> str:
    if not module:
        return ""
    try:
        done = subprocess.run(
            ["addr2line", "-f", "-C", "-e", module, offset],
            capture_output=True,
            text=True,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    name = done.stdout.partition("\n")[0].strip()
    return "" if not name or name.startswith("??") else name
