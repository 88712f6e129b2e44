"""Builds by content in a cache: found, or made once, whoever asks at the same time."""

from collections.abc import Callable, Sequence
from pathlib import Path

from musaagent.tools.host.cache import BuildCache, keep_only
from musaagent.tools.results import Build

_KIND = "modules"
_RECORD = "build.json"


class StoredBuilds:
    """Of one target; `kept` are the files of a good build that stay, its library first."""

    def __init__(self, cache: BuildCache, kept: Sequence[str]) -> None:
        self._cache = cache
        self._kept = tuple(kept)

    def get(self, key: str, make: Callable[[Path], tuple[Build, bool]]) -> Build:
        """The build of `key`. `make` fills a folder and says whether its build is worth keeping."""
        return self._find(key) or self._make(key, make)

    def _find(self, key: str) -> Build | None:
        entry = self._cache.find(_KIND, key)
        if entry is None:
            return None
        build = Build.model_validate_json((entry / _RECORD).read_text(encoding="utf-8"))
        found = self._located(build, entry)
        return found.model_copy(update={"cached": True, "compiler_seconds": 0.0})

    def _make(self, key: str, make: Callable[[Path], tuple[Build, bool]]) -> Build:
        with self._cache.lock(key):
            if found := self._find(key):
                return found
            with self._cache.fresh() as folder:
                build, keep = make(folder)
                if not keep:
                    return build
                keep_only(folder, self._kept if build.ok else ())
                (folder / _RECORD).write_text(build.model_dump_json(), encoding="utf-8")
                return self._located(build, self._cache.publish(folder, _KIND, key))

    def _located(self, build: Build, entry: Path) -> Build:
        """What was only looked at (mcc's thin level) has no library."""
        library = entry / self._kept[0]
        if not build.ok or not library.exists():
            return build
        return build.model_copy(update={"libraries": (str(library),)})
