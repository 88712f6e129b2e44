"""Processes below a process, by /proc: who they are, what they use, and how to end them all."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Usage:
    """What one process holds, in kB of memory that is its own (not files), and its threads."""

    own_kb: int
    virtual_kb: int
    threads: int


def children(pid: int) -> list[int]:
    """Direct children, of all threads; empty where the process is gone."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        lists = [Path(task, "children").read_text() for task in tasks]
    except FileNotFoundError:
        return _children_by_scan(pid) if Path(f"/proc/{pid}").exists() else []
    except (ProcessLookupError, PermissionError):
        return []
    return [int(word) for text in lists for word in text.split()]


def _children_by_scan(pid: int) -> list[int]:
    """For kernels without CONFIG_PROC_CHILDREN, and when a thread ended while we looked."""
    return [entry for entry in _all_processes() if _parent(entry) == pid]


def _all_processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def descendants(pid: int) -> Iterator[int]:
    """All processes below `pid`, parents before children."""
    queue = children(pid)
    seen = set(queue)
    while queue:
        current = queue.pop(0)
        yield current
        fresh = [c for c in children(current) if c not in seen]
        seen.update(fresh)
        queue += fresh


def ancestors(pid: int) -> list[int]:
    """`pid`, its parent, and so on up to process 1, which is left out."""
    line = []
    while pid > 1:
        line.append(pid)
        pid = _parent(pid)
    return line


def _parent(pid: int) -> int:
    """0 where the process is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])


def kill_descendants(pid: int) -> int:
    """SIGKILL everything below `pid` once over; returns how many were hit.

    Repeat until 0: a process that forks quickly can be ahead by a few.
    """
    hit = 0
    for victim in list(descendants(pid)):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(victim, signal.SIGKILL)
            hit += 1
    return hit


def usage(pid: int) -> Usage | None:
    """None where the process is gone or has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    values = {key: int(_field(text, key)) for key in ("RssAnon", "RssShmem", "VmSize", "Threads")}
    if values["VmSize"] == 0:
        return None
    return Usage(values["RssAnon"] + values["RssShmem"], values["VmSize"], values["Threads"])


def _field(text: str, key: str) -> str:
    _, found, rest = text.partition(f"\n{key}:")
    return rest.split(maxsplit=1)[0] if found else "0"


def tree_usage(pid: int, shared: Usage | None = None) -> Usage:
    """Summed over everything below `pid`. `shared` is what forked copies of us start with.

    A process at least as large as `shared` is such a copy: what it inherited is not counted.
    """
    own = virtual = threads = 0
    for member in descendants(pid):
        found = usage(member)
        if found is None:
            continue
        is_copy = shared is not None and found.virtual_kb >= shared.virtual_kb * 0.9
        own += max(0, found.own_kb - (shared.own_kb if shared and is_copy else 0))
        virtual += found.virtual_kb
        threads += found.threads
    return Usage(own, virtual, threads)


def tasks_of_user(uid: int) -> int:
    """How many tasks the user has on the whole machine: what RLIMIT_NPROC counts."""
    count = 0
    for entry in _all_processes():
        with suppress(OSError):
            text = Path(f"/proc/{entry}/status").read_text()
            if int(_field(text, "Uid")) == uid:
                count += int(_field(text, "Threads"))
    return count
