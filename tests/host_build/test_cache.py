"""The cache: whole entries only, one builder at a time, the least recently used go first."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from musaagent.errors import UsageError
from musaagent.tools.host.cache import BuildCache, default_cache_dir, hash_files, keep_only, key_of


def put(cache: BuildCache, key: str, size: int = 10, age_s: float = 0.0) -> Path:
    with cache.fresh() as folder:
        (folder / "data").write_bytes(b"x" * size)
        entry = cache.publish(folder, "kind", key)
    stamp = entry / "used"
    os.utime(stamp, (time.time() - age_s,) * 2)
    return entry


def test_an_entry_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    assert cache.find("kind", "a") is None
    with cache.fresh() as folder:
        (folder / "half").write_text("half")
    assert cache.find("kind", "a") is None
    assert list((tmp_path / "tmp").iterdir()) == []
    entry = put(cache, "a")
    assert cache.find("kind", "a") == entry
    assert (entry / "data").read_bytes() == b"x" * 10


def test_the_first_of_two_equal_entries_stays(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    first = put(cache, "a", 10)
    assert put(cache, "a", 20) == first
    assert (first / "data").stat().st_size == 10


def test_least_recently_used_entries_go_first(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path, limit_bytes=2500)
    for number, age in enumerate((500.0, 400.0, 300.0, 200.0)):
        put(cache, str(number), 1000, age)
    cache.find("kind", "0")  # used just now
    assert cache.evict(keep_s=100.0) == 2
    left = {path.name for path in (tmp_path / "kind").iterdir()}
    assert left == {"0", "3"}


def test_young_entries_stay_even_over_the_bound(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path, limit_bytes=10)
    put(cache, "a", 1000)
    assert cache.evict() == 0
    assert cache.find("kind", "a") is not None


def test_one_thread_at_a_time_holds_a_key(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    inside, worst = 0, 0
    guard = threading.Lock()

    def work() -> None:
        nonlocal inside, worst
        with cache.lock("k"):
            with guard:
                inside += 1
                worst = max(worst, inside)
            time.sleep(0.02)
            with guard:
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worst == 1


PROCESS = """
import sys, time
from pathlib import Path
from musaagent.tools.host.cache import BuildCache, keep_only
cache = BuildCache(Path(sys.argv[1]))
with cache.lock("k"):
    if cache.find("kind", "k") is None:
        time.sleep(0.3)
        with cache.fresh() as folder:
            (folder / "data").write_text("x")
            cache.publish(folder, "kind", "k")
        print("built")
"""


def test_two_processes_build_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROCESS, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=60)[0] for process in running]
    assert all(process.returncode == 0 for process in running)
    assert "".join(outputs).count("built") == 1


def test_keys_depend_on_everything_given(tmp_path: Path) -> None:
    assert key_of("a", 1) == key_of("a", 1)
    assert len({key_of("a", 1), key_of("a", 2), key_of("b", 1), key_of("a1")}) == 4
    (tmp_path / "x").write_text("1")
    before = hash_files([tmp_path / "x"], tmp_path)
    (tmp_path / "x").write_text("2")
    assert hash_files([tmp_path / "x"], tmp_path) != before


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MUSAAGENT_CACHE", str(tmp_path))
    assert default_cache_dir() == tmp_path
    monkeypatch.delenv("MUSAAGENT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert default_cache_dir() == Path("/elsewhere/musaagent")


def test_only_plain_files_are_kept(tmp_path: Path) -> None:
    """What a compile leaves behind is a candidate's: a link to elsewhere is no build."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("stays")
    folder = tmp_path / "build"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "file").write_text("goes")
    (folder / "kept.so").write_text("stays")
    (folder / "other.o").write_text("goes")
    (folder / "linked").symlink_to(outside)
    (folder / "linked.so").symlink_to(outside / "secret")
    keep_only(folder, ("kept.so", "linked.so"))
    assert [path.name for path in folder.iterdir()] == ["kept.so"]
    assert (outside / "secret").read_text() == "stays"


def test_a_part_is_made_once(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    made: list[Path] = []

    def fill(folder: Path) -> None:
        made.append(folder)
        (folder / "part").write_text("whole")

    first = cache.once("parts", "0" * 32, fill)
    assert cache.once("parts", "0" * 32, fill) == first
    assert len(made) == 1
    assert (first / "part").read_text() == "whole"


@pytest.mark.parametrize("place", ["/opt", "/usr/lib", sys.prefix])
def test_a_cache_that_candidates_can_read_is_refused(place: str) -> None:
    if not Path(place).exists():
        pytest.skip(f"no {place} here")
    root = Path(place) / "musaagent-test-cache"
    with pytest.raises(UsageError, match="MUSAAGENT_CACHE"):
        BuildCache(root)
    assert not root.exists()


def test_neither_is_a_cache_behind_a_link_to_such_a_place(tmp_path: Path) -> None:
    link = tmp_path / "cache"
    link.symlink_to(Path(sys.prefix) / "musaagent-test-cache")
    with pytest.raises(UsageError, match="candidates may read"):
        BuildCache(link)
