"""Moore Threads' own porting tables, where torch_musa or the SDK's musify is installed."""

import importlib.util
import json
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from musaagent.tools.port.tables import Tables

# Tables hold fragments too ("cu"), which are words of other people's programs.
_WORD = re.compile(r"[A-Za-z_]\w{4,}$")
_HEADER = re.compile(r"[\w./-]+\.(?:h|hpp|cuh)$")
_MOST_BYTES = 8 << 20


@cache
def find_tables() -> Tables:
    """The rules of this package with the installed tables on top; read once a process."""
    words: dict[str, str] = {}
    headers: dict[str, str] = {}
    used: list[str] = []
    for path in table_files():
        found = read_table(path)
        if not found:
            continue
        used.append(str(path))
        for key, value in found.items():
            if _HEADER.match(key):
                headers.setdefault(key, value)
            elif _WORD.match(key) and _WORD.match(value):
                words.setdefault(key, value)
    if not used:
        return Tables()
    return Tables(words, headers, ", ".join(used))


def table_files() -> Iterator[Path]:
    """torch_musa's `utils/mapping/*.json`, then `musify` folders below $MUSA_HOME."""
    spec = importlib.util.find_spec("torch_musa")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield from sorted((Path(folder) / "utils" / "mapping").glob("*.json"))
    home = Path(os.environ.get("MUSA_HOME", "/usr/local/musa"))
    for name in ("tools/musify", "musify", "share/musify", "tools"):
        yield from sorted((home / name).glob("**/*mapping*.json"))


def read_table(path: Path) -> dict[str, str]:
    """Its pairs of names; empty for a file that is something else."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return {}
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {k: v for k, v in found.items() if isinstance(k, str) and isinstance(v, str)}
