"""Who a jailed process is. Root hands over to a uid that nobody has; others stay who they are.

The kernel does not hold root to RLIMIT_NPROC, under whatever uid a user namespace shows; so a jail
that root starts must really change its uid, and each jail has its own, since the limit counts by
uid. Folders of root are often closed to others (/root): where no private mounts can open a way to
them, the new user keeps the right to read all files, and only Landlock says which.
"""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from musaagent.tools import syscalls
from musaagent.tools.syscalls import CAP_DAC_READ_SEARCH, CAP_SETGID, CAP_SETPCAP, CAP_SETUID

_FIRST_UID = 2_000_000_000
_LARGEST_PID = 1 << 22


@dataclass(frozen=True)
class JailUser:
    uid: int
    gid: int
    changes: bool = False
    """Root becomes this uid."""
    reads_all: bool = False
    """It keeps CAP_DAC_READ_SEARCH."""
    is_root: bool = False
    """It is still root to the kernel, which then has no process limit for it."""

    def give(self, folders: Sequence[str]) -> None:
        """Hand folders of root over, with all that is in them."""
        if self.changes:
            for folder in folders:
                chown_tree(folder, self.uid, self.gid)

    def take_back(self, folders: Sequence[str]) -> None:
        if self.changes:
            for folder in folders:
                chown_tree(folder, os.getuid(), os.getgid())

    def become(self) -> None:
        """Change to this user and give up every capability but the one that `reads_all` names."""
        keep = CAP_DAC_READ_SEARCH if self.reads_all else None
        syscalls.drop_bounding_set(keep)
        if self.changes:
            os.setgroups([])
            if self.reads_all:
                syscalls.keep_capabilities_over_setuid()
            os.setresgid(self.gid, self.gid, self.gid)
            os.setresuid(self.uid, self.uid, self.uid)
        syscalls.limit_capabilities(keep)


def jail_user(needed: Sequence[str], *, capabilities: Sequence[int] = ()) -> JailUser:
    """The user for a new jail; `needed` are folders that it must be able to read.

    Root changes its uid if it has the capabilities for that and those asked for.
    """
    uid, gid = os.getuid(), os.getgid()
    wanted = (CAP_SETUID, CAP_SETGID, CAP_SETPCAP, *capabilities)
    if os.geteuid() != 0 or not has_capabilities(wanted):
        return JailUser(uid, gid, is_root=uid == 0)
    closed = not all(is_open_to_others(path) for path in needed)
    return JailUser(_unused_id("uid_map"), _unused_id("gid_map"), changes=True, reads_all=closed)


def has_capabilities(wanted: Sequence[int]) -> bool:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            bits = int(line.split()[1], 16)
            return all(bits >> number & 1 for number in wanted)
    return False


def _unused_id(map_name: str) -> int:
    rows = [line.split() for line in Path(f"/proc/self/{map_name}").read_text().splitlines()]
    end = max(int(first) + int(count) for first, _, count in rows)
    if end > _FIRST_UID + _LARGEST_PID:
        return _FIRST_UID + os.getpid()
    return end - 8 - os.getpid() % 4096


def is_open_to_others(path: str) -> bool:
    """Whether an unrelated user can reach and read the file or folder."""
    real = Path(os.path.realpath(path))
    if any(not folder.stat().st_mode & 0o001 for folder in real.parents):
        return False
    wanted = 0o005 if real.is_dir() else 0o004
    return real.stat().st_mode & wanted == wanted


def chown_tree(folder: str, uid: int, gid: int) -> None:
    """Give a folder and all in it to a user, as far as it goes; links are not followed."""
    os.chown(folder, uid, gid, follow_symlinks=False)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            with suppress(OSError):
                info = path.lstat()
                # A second hard link may lie outside the folder.
                if stat.S_ISDIR(info.st_mode) or info.st_nlink == 1:
                    os.chown(path, uid, gid, follow_symlinks=False)
