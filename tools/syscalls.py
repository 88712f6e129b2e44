"""The Linux calls that Python 3.11 does not offer, by ctypes. Each raises OSError on failure."""

import ctypes
import os
import platform
from collections.abc import Iterable

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

CLONE_THREAD = 0x00010000
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_NEW_ANY = (
    CLONE_NEWNS
    | CLONE_NEWCGROUP
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET
)

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_KEEPCAPS = 8
PR_SET_NAME = 15
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
PR_CAP_AMBIENT_CLEAR_ALL = 4

CAP_DAC_READ_SEARCH = 2
CAP_SETGID = 6
CAP_SETUID = 7
CAP_SETPCAP = 8
CAP_SYS_ADMIN = 21

AT_FDCWD = -100
AT_RECURSIVE = 0x8000
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
_SYS_CLOSE_RANGE = 436
_SYS_MOUNT_SETATTR = 442
_CAPABILITY_VERSION_3 = 0x20080522


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def raw_syscall(number: int, *args: object, what: str) -> int:
    """A numbered system call; ints are passed as 64-bit, bytes and ctypes pointers as they are."""
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    return _check(int(_libc.syscall(ctypes.c_long(number), *words)), what)


def machine() -> str:
    """`x86_64` or `aarch64` as the kernel names it; others have no numbers here."""
    return platform.machine()


def prctl(option: int, value: int = 0, third: object = 0) -> None:
    last = ctypes.c_ulong(third) if isinstance(third, int) else third
    zero = ctypes.c_ulong(0)
    _check(_libc.prctl(option, ctypes.c_ulong(value), last, zero, zero), f"prctl({option})")


def set_process_name(name: str) -> None:
    """What `ps` shows; the kernel keeps 15 bytes."""
    buffer = ctypes.create_string_buffer(name.encode()[:15])
    _check(_libc.prctl(PR_SET_NAME, buffer, 0, 0, 0), "prctl(PR_SET_NAME)")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    result = _libc.mount(
        source.encode() if source is not None else None,
        target.encode(),
        kind.encode() if kind is not None else None,
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    _check(result, f"mount {target}")


def unmount(target: str) -> None:
    """Detach the mount and all below it."""
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    number = _SYS_PIVOT_ROOT.get(machine())
    if number is None:
        raise OSError(38, f"pivot_root is not known for {machine()}")
    raw_syscall(number, new_root.encode(), put_old.encode(), what="pivot_root")


def set_mount_flags(target: str, flags: int) -> None:
    """Add MS_RDONLY, MS_NOSUID and the like to a mount and all below it (Linux 5.12+)."""
    # The first five MOUNT_ATTR_* bits equal MS_RDONLY, MS_NOSUID, MS_NODEV and MS_NOEXEC.
    attributes = (ctypes.c_uint64 * 4)(flags, 0, 0, 0)
    raw_syscall(
        _SYS_MOUNT_SETATTR,
        AT_FDCWD,
        target.encode(),
        AT_RECURSIVE,
        attributes,
        ctypes.sizeof(attributes),
        what=f"mount_setattr {target}",
    )


def drop_bounding_set(keep: int | None = None) -> None:
    """No later exec can bring a capability back; nothing happens where that is not allowed."""
    for capability in range(64):
        try:
            if capability != keep:
                prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            return


def keep_capabilities_over_setuid() -> None:
    """A later change from root to another uid leaves the permitted set as it is."""
    prctl(PR_SET_KEEPCAPS, 1)


def limit_capabilities(keep: int | None = None) -> None:
    """Give up every capability of this process but `keep`, which later execs keep as well."""
    number = _SYS_CAPSET.get(machine())
    if number is None:
        raise OSError(38, f"capset is not known for {machine()}")
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    bits = 0 if keep is None else 1 << keep
    sets = (ctypes.c_uint32 * 6)(bits, bits, bits, 0, 0, 0)
    raw_syscall(number, header, sets, what="capset")
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    if keep is not None:
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, keep)


def close_other_fds(keep: Iterable[int]) -> None:
    """Close every descriptor but those in `keep`."""
    start = 0
    for fd in [*sorted(set(keep)), None]:
        last = 0xFFFFFFFF if fd is None else fd - 1
        if last >= start:
            _close_range(start, last)
        if fd is not None:
            start = fd + 1


def _close_range(first: int, last: int) -> None:
    try:
        raw_syscall(_SYS_CLOSE_RANGE, first, last, 0, what="close_range")
    except OSError:
        os.closerange(first, min(last + 1, os.sysconf("SC_OPEN_MAX")))
