"""A folder for one candidate, that holds its own libraries: it sees what it built, and no more.

Exploits 9 and 56: the cache is full of what other candidates built, sources beside it.
"""

import itertools
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path


class LentFolder:
    """Lies in the cache, for hard links; gone after `remove`."""

    def __init__(self, cache: Path, beside: Sequence[str] = ()) -> None:
        """`beside`: names of files that go with a library, where they lie beside it."""
        self._beside = tuple(beside)
        place = cache / "lent"
        place.mkdir(exist_ok=True)
        place.chmod(0o755)
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
