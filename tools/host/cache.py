"""A cache of build results by content: safe between threads and processes, bounded, whole or not.

An entry is a folder that appears by one rename. Reading an entry touches it; the least recently
used ones go first when the cache is over its bound.
"""

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from musaagent.errors import UsageError
from musaagent.tools.mounts import visible_paths

log = logging.getLogger(__name__)

_STAMP = "used"
DEFAULT_LIMIT_BYTES = 4 << 30
# A path that was just handed out may not be loaded yet; nothing this young is removed.
_KEEP_S = 900.0
_STALE_S = 24 * 3600.0


def default_cache_dir() -> Path:
    """$MUSAAGENT_CACHE, or musaagent in the user's cache folder."""
    if folder := os.environ.get("MUSAAGENT_CACHE"):
        return Path(folder).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "musaagent"


def key_of(*parts: object) -> str:
    """32 hex digits over the JSON of all parts."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def hash_files(files: Iterable[Path], root: Path) -> str:
    """32 hex digits over names and contents."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(str(path.relative_to(root)).encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]


def keep_only(folder: Path, names: Collection[str]) -> None:
    """Remove all but the plain files of these names: a link would lead out of the cache."""
    for path in list(folder.iterdir()):
        if path.name in names and path.is_file() and not path.is_symlink():
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _refuse_readable(root: Path) -> None:
    """Exploit 9: candidates could read what others built, so the cache lies out of their sight."""
    for visible in visible_paths():
        if root.resolve().is_relative_to(Path(visible).resolve()):
            raise UsageError(
                f"the cache {root} lies in {visible}, which candidates may read:"
                " set MUSAAGENT_CACHE to a folder outside of it"
            )


class BuildCache:
    """Entries `root/kind/key/`; a writer holds `lock(key)`, fills `fresh()` and calls `publish`.

    Raises UsageError where every jail can read `root`.
    """

    def __init__(self, root: Path, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        _refuse_readable(root)
        self.root = root
        self.limit_bytes = limit_bytes
        self._since_sweep = 0
        for folder in (root, root / "locks", root / "tmp"):
            folder.mkdir(parents=True, exist_ok=True)
        # The sandbox may run as another user, who must get through to the entries.
        with contextlib.suppress(PermissionError):
            root.chmod(0o755)

    def find(self, kind: str, key: str) -> Path | None:
        """The entry's folder, marked as used now."""
        entry = self.root / kind / key
        try:
            os.utime(entry / _STAMP)
        except FileNotFoundError:
            return None
        return entry

    @contextlib.contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Exclusive among all threads and processes that use this cache."""
        descriptor = os.open(
            self.root / "locks" / key, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def fresh(self) -> Iterator[Path]:
        """A new folder on the cache's disk, removed at the end unless it was published."""
        folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=self.root / "tmp"))
        folder.chmod(0o755)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, folder: Path, kind: str, key: str) -> Path:
        """Make a filled folder the entry. Where another one is there already, that one stays."""
        _open_to_readers(folder)
        (folder / _STAMP).write_text(str(_size(folder)), encoding="ascii")
        entry = self.root / kind / key
        entry.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            folder.rename(entry)
        self._since_sweep += 1
        if self._since_sweep % 64 == 1:
            self.evict()
        found = self.find(kind, key)
        if found is None:
            raise OSError(f"could not write the cache entry {entry}")
        return found

    def once(self, kind: str, key: str, fill: Callable[[Path], object]) -> Path:
        """The entry; where there is none, `fill` makes it in a fresh folder, one process alone."""
        entry = self.find(kind, key)
        if entry is not None:
            return entry
        with self.lock(key):
            entry = self.find(kind, key)
            if entry is None:
                start = time.monotonic()
                with self.fresh() as folder:
                    fill(folder)
                    entry = self.publish(folder, kind, key)
                log.info("built the part %s in %.1f s", kind, time.monotonic() - start)
        return entry

    def evict(self, keep_s: float = _KEEP_S) -> int:
        """Remove least recently used entries until the rest fits; answers how many went."""
        now = time.time()
        entries: list[tuple[float, int, Path]] = []
        for stamp in self.root.glob(f"*/*/{_STAMP}"):
            with contextlib.suppress(OSError, ValueError):
                entries.append((stamp.stat().st_mtime, int(stamp.read_text()), stamp.parent))
        total = sum(size for _, size, _ in entries)
        removed = 0
        for used, size, entry in sorted(entries):
            if total <= self.limit_bytes or now - used < keep_s:
                break
            _discard(entry, self.root / "tmp")
            total -= size
            removed += 1
        for folder in (self.root / "tmp").iterdir():
            with contextlib.suppress(OSError):
                if now - folder.stat().st_mtime > _STALE_S:
                    shutil.rmtree(folder, ignore_errors=True)
        return removed


def _discard(entry: Path, trash: Path) -> None:
    """Out of sight by one rename first, so that nobody finds half an entry."""
    target = trash / f"old-{entry.name}-{os.getpid()}"
    with contextlib.suppress(OSError):
        entry.rename(target)
    shutil.rmtree(target, ignore_errors=True)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _open_to_readers(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            runs = path.is_dir() or path.suffix == ".so" or os.access(path, os.X_OK)
            path.chmod(0o755 if runs else 0o644)
