"""A folder for one candidate, that holds its own libraries: it sees what it built, and no more.

Exploits 9 and 56: the cache is full of what other candidates built, sources beside it.
"""

import itertools
import os
import shutil
import tempfile
from pathlib import Path


class LentFolder:
    """Lies in the cache, for hard links; gone after `remove`."""

    def __init__(self, cache: Path) -> None:
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
        target = folder / Path(library).name
        try:
            os.link(library, target)
        except OSError:  # another file system, or none that has hard links
            shutil.copy2(library, target)
        return str(target)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
