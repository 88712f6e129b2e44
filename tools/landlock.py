"""Landlock: the kernel's own limit on files, TCP and signals, for a process that has no privilege.

Source of the numbers: include/uapi/linux/landlock.h. What each ABI adds: 1 files, 2 rename across
folders, 3 truncate, 4 TCP, 5 ioctl on devices, 6 signals and abstract sockets.
"""

import ctypes
import errno
import os
from collections.abc import Iterable
from pathlib import Path

from musaagent.tools.syscalls import PR_SET_NO_NEW_PRIVS, prctl, raw_syscall

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ABI_QUERY = 1
_RULE_PATH_BENEATH = 1

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15
_FS_BITS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_FILE_BITS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_NET_BIND_AND_CONNECT_TCP = 0b11
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11
SIGNAL_SCOPE_ABI = 6


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def landlock_abi() -> int:
    """The kernel's Landlock version; 0 where there is none."""
    try:
        return raw_syscall(_CREATE_RULESET, 0, 0, _ABI_QUERY, what="landlock_create_ruleset")
    except OSError:
        return 0


def restrict(
    *,
    readable: Iterable[str],
    writable: Iterable[str],
    devices: Iterable[str] = (),
    allow_exec: bool,
    allow_tcp: bool,
) -> int:
    """Confine this process and its children for good; returns the ABI that was used.

    Paths that do not exist are skipped. Raises OSError where the kernel has no Landlock.
    """
    abi = landlock_abi()
    if abi < 1:
        raise OSError(errno.EOPNOTSUPP, "Landlock is not in this kernel, or is switched off")
    handled = (1 << _FS_BITS_BY_ABI[min(abi, 5)]) - 1
    read = READ_FILE | READ_DIR | (EXECUTE if allow_exec else 0)
    write = handled if allow_exec else handled & ~EXECUTE
    ruleset = _create(
        handled,
        _NET_BIND_AND_CONNECT_TCP if abi >= 4 and not allow_tcp else 0,
        _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if abi >= SIGNAL_SCOPE_ABI else 0,
        abi,
    )
    try:
        for path in readable:
            _allow(ruleset, path, read)
        for path in writable:
            _allow(ruleset, path, write)
        for path in devices:
            _allow(ruleset, path, (READ_FILE | WRITE_FILE | IOCTL_DEV | TRUNCATE) & handled)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        raw_syscall(_RESTRICT_SELF, ruleset, 0, what="landlock_restrict_self")
    finally:
        os.close(ruleset)
    return abi


def _create(handled_fs: int, handled_net: int, scoped: int, abi: int) -> int:
    # The kernel takes the structure in the length that its ABI knows: files, then net, then scope.
    words = 1 if abi < 4 else 2 if abi < SIGNAL_SCOPE_ABI else 3
    attributes = (ctypes.c_uint64 * words)(*[handled_fs, handled_net, scoped][:words])
    size = ctypes.sizeof(attributes)
    return raw_syscall(_CREATE_RULESET, attributes, size, 0, what="landlock_create_ruleset")


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not Path(path).is_dir():
            access &= _FILE_BITS
        rule = _PathBeneath(access, fd)
        pointer = ctypes.byref(rule)
        raw_syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, pointer, 0, what=f"landlock {path}")
    finally:
        os.close(fd)
