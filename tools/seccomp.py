"""A seccomp filter: the system calls that a kernel candidate or a compiler never needs.

It stands where namespaces do not: no sockets, no signals to strangers, no tracing. Numbers are
those of x86_64 and aarch64; on other machines there is no filter and `SUPPORTED` says so.
"""

import ctypes
import errno
import socket
import struct
from collections.abc import Iterable, Mapping

from musaagent.tools.syscalls import (
    CLONE_NEW_ANY,
    CLONE_THREAD,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_SECCOMP,
    machine,
    prctl,
)

_MODE_FILTER = 2
_LOAD, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NR_OFFSET, _ARCH_OFFSET, _FIRST_ARGUMENT_OFFSET = 0, 4, 16
_ALLOW = 0x7FFF0000
_KILL_PROCESS = 0x80000000
_ERRNO = 0x00050000
_X32_BIT = 0x40000000
_SIGN_BIT = 0x80000000

# (name, x86_64, aarch64)
_TABLE = (
    # looking into or steering other processes
    ("ptrace", 101, 117),
    ("process_vm_readv", 310, 270),
    ("process_vm_writev", 311, 271),
    ("process_madvise", 440, 440),
    ("kcmp", 312, 272),
    ("pidfd_getfd", 438, 438),
    ("pidfd_open", 434, 434),
    ("pidfd_send_signal", 424, 424),
    ("move_pages", 279, 239),
    ("migrate_pages", 256, 238),
    # ways around this filter, and wide kernel surface
    ("io_uring_setup", 425, 425),
    ("io_uring_enter", 426, 426),
    ("io_uring_register", 427, 427),
    ("bpf", 321, 280),
    ("perf_event_open", 298, 241),
    ("userfaultfd", 323, 282),
    ("keyctl", 250, 219),
    ("add_key", 248, 217),
    ("request_key", 249, 218),
    # the machine itself
    ("mount", 165, 40),
    ("umount2", 166, 39),
    ("pivot_root", 155, 41),
    ("move_mount", 429, 429),
    ("open_tree", 428, 428),
    ("fsopen", 430, 430),
    ("fspick", 433, 433),
    ("mount_setattr", 442, 442),
    ("chroot", 161, 51),
    ("setns", 308, 268),
    ("unshare", 272, 97),
    ("open_by_handle_at", 304, 265),
    ("kexec_load", 246, 104),
    ("init_module", 175, 105),
    ("finit_module", 313, 273),
    ("delete_module", 176, 106),
    ("reboot", 169, 142),
    ("swapon", 167, 224),
    ("swapoff", 168, 225),
    ("syslog", 103, 116),
)
# Modes, owners, times and attributes of files; -1 where the machine has no such call.
_METADATA = (
    *((90, -1), (91, 52), (268, 53), (452, 452)),  # chmod, fchmod, fchmodat, fchmodat2
    *((92, -1), (93, 55), (94, -1), (260, 54)),  # chown, fchown, lchown, fchownat
    *((132, -1), (235, -1), (261, -1), (280, 88)),  # utime, utimes, futimesat, utimensat
    *((188, 5), (189, 6), (190, 7)),  # setxattr, lsetxattr, fsetxattr
)
_SOCKET = (41, 198)
_EXEC = ((59, 221), (322, 281))
_CLONE = (56, 220)
_FORK = ((57, -1), (58, -1))  # fork, vfork
_CLONE3 = (435, 435)
_PRLIMIT = (302, 261)
# kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo: the first argument names who is hit
_SIGNALLING = ((62, 129), (200, 130), (234, 131), (129, 138), (297, 240))
_ARCHITECTURES: Mapping[str, tuple[int, int]] = {
    "x86_64": (0, 0xC000003E),
    "aarch64": (1, 0xC00000B7),
}

SUPPORTED = machine() in _ARCHITECTURES


def install_filter(
    *,
    allow_exec: bool,
    allow_network: bool,
    allow_metadata: bool,
    allow_fork: bool,
    protected: Iterable[int],
    allow_local_sockets: bool = False,
) -> None:
    """Filter this process and its children for good. Raises OSError where seccomp is refused.

    `allow_local_sockets` leaves Unix sockets, which the CUDA driver opens when it starts.
    `protected` are pids that may get no signal; signals to process groups of others and to
    everybody (pid -1) are refused as well.
    """
    code = filter_code(
        allow_exec=allow_exec,
        allow_network=allow_network,
        allow_metadata=allow_metadata,
        allow_fork=allow_fork,
        protected=tuple(protected),
        allow_local_sockets=allow_local_sockets,
    )
    buffer = ctypes.create_string_buffer(code)
    # struct sock_fprog: a 16-bit count, padding, a pointer.
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_SECCOMP, _MODE_FILTER, ctypes.create_string_buffer(program))


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _refuse(number: int) -> bytes:
    return _op(_RETURN, _ERRNO | number)


def filter_code(
    *,
    allow_exec: bool,
    allow_network: bool,
    allow_metadata: bool = True,
    allow_fork: bool = True,
    protected: tuple[int, ...] = (),
    allow_local_sockets: bool = False,
) -> bytes:
    """The filter as classic BPF, also for `bwrap --seccomp`."""
    column, architecture = _ARCHITECTURES[machine()]
    parts = [
        _op(_LOAD, _ARCH_OFFSET),
        _op(_JUMP_EQ, architecture, 1, 0),
        _op(_RETURN, _KILL_PROCESS),
        _op(_LOAD, _NR_OFFSET),
        _op(_JUMP_GE, _X32_BIT, 0, 1),
        _refuse(errno.ENOSYS),
    ]
    denied = [numbers[column] for _, *numbers in _TABLE]
    if not allow_network and not allow_local_sockets:
        denied.append(_SOCKET[column])
    if not allow_exec:
        denied += [numbers[column] for numbers in _EXEC]
    if not allow_metadata:
        denied += [numbers[column] for numbers in _METADATA if numbers[column] >= 0]
    if not allow_fork:
        denied += [numbers[column] for numbers in _FORK if numbers[column] >= 0]
    for number in denied:
        parts += [_op(_JUMP_EQ, number, 0, 1), _refuse(errno.EPERM)]
    # Its flags lie behind a pointer, where no filter can look; libc falls back to clone.
    parts += [_op(_JUMP_EQ, _CLONE3[column], 0, 1), _refuse(errno.ENOSYS)]
    parts += _on_clone(_CLONE[column], allow_fork)
    parts += _on_argument(_PRLIMIT[column], [(_JUMP_GE, 1)])
    if not allow_network and allow_local_sockets:
        parts += _on_argument(_SOCKET[column], [(_JUMP_GE, socket.AF_UNIX + 1)])
    victims = [(_JUMP_GE, _SIGN_BIT), *((_JUMP_EQ, pid) for pid in protected)]
    for numbers in _SIGNALLING:
        parts += _on_argument(numbers[column], victims)
    parts.append(_op(_RETURN, _ALLOW))
    return b"".join(parts)


def _on_argument(number: int, tests: list[tuple[int, int]]) -> list[bytes]:
    """Refuse system call `number` if its first argument (low 32 bits) meets any of the tests."""
    body = [_op(_LOAD, _FIRST_ARGUMENT_OFFSET)]
    for jump, value in tests:
        body += [_op(jump, value, 0, 1), _refuse(errno.EPERM)]
    body.append(_op(_RETURN, _ALLOW))
    return [_op(_JUMP_EQ, number, 0, len(body)), *body]


def _on_clone(number: int, allow_fork: bool) -> list[bytes]:
    """No new namespaces; without `allow_fork` threads only."""
    body = [
        _op(_LOAD, _FIRST_ARGUMENT_OFFSET),
        _op(_JUMP_SET, CLONE_NEW_ANY, 0, 1),
        _refuse(errno.EPERM),
    ]
    if not allow_fork:
        body += [_op(_JUMP_SET, CLONE_THREAD, 1, 0), _refuse(errno.EAGAIN)]
    body.append(_op(_RETURN, _ALLOW))
    return [_op(_JUMP_EQ, number, 0, len(body)), *body]
