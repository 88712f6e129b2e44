"""A folder for one candidate, that holds its own libraries: it sees what it built, and no more.

Exploits 9 and 56: the cache is full of what other candidates built, sources beside it.
"""

import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_STALE_S = 24 * 3600.0
"""No verification takes a day: its process was killed."""


class LentFolder:
    """Lies in the cache, for hard links; gone after `remove`."""

    def __init__(self, cache: Path, beside: Sequence[str] = ()) -> None:
        """`beside`: names of files that go with a library, where they lie beside it."""
        self._beside = tuple(beside)
        place = cache / "lent"
        place.mkdir(exist_ok=True)
        with suppress(PermissionError):
            place.chmod(0o755)
        _sweep(place)
        self.path = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=place))
        self.path.chmod(0o755)
        self._numbers = itertools.count()

    def lend(self, library: str) -> str:
        """The library under a path inside the folder; its name stays."""
        folder = self.path / str(next(self._numbers))
        folder.mkdir()
        folder.chmod(0o755)
        source = Path(library)
        for path in (source, *(source.with_name(name) for name in self._beside)):
            if path.is_file():
                _link(path, folder / path.name)
        return str(folder / source.name)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or none that has hard links
        shutil.copy2(source, target)


def _sweep(place: Path) -> None:
    """Folders that a killed process left behind."""
    now = time.time()
    for folder in place.iterdir():
        with suppress(OSError):
            if now - folder.stat().st_mtime > _STALE_S:
                shutil.rmtree(folder, ignore_errors=True)
