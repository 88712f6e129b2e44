"""The jail that model-written code runs in: what it may touch, use and reach.

`enter(spec)` is called in a freshly forked child and returns only in the confined process, two
forks further in. `python -I jail.py` runs a program the same way (see `musaagent.tools.sandbox`).

What is stopped, by kind:

                                            namespaces  landlock   rlimits
    endless loops (wall time is the caller's)    yes       yes       yes
    memory, CPU time, one file's size, cores     yes       yes       yes
    fork bombs                                   yes       yes (1)   yes (1)
    processes that stay behind                   yes       yes (2)   yes (2)
    network, all sockets                         yes       yes (3)   yes (3)
    a program that is not ours (allow_exec off)  yes       yes       yes (3)
    tracing others, kernel keys, mounts, bpf     yes       yes       yes (3)
    signals to our processes, kill(-1)           yes       yes (4)   yes (3)
    signals to other processes of the user       yes       yes (4)   no (5)
    reading the user's files                     yes       yes (7)   no (5)
    writing outside the writable folders         yes       yes (6)   no (5)
    filling the disk with many files             yes       no        no
    seeing which processes run                   yes       no        no

    (1) By RLIMIT_NPROC on top of what the user runs already. Root that may not change its uid has
        no such limit: its workers cannot fork at all, its programs have only a watcher.
    (2) Unless the process kills its supervisor, which (4) and (3) stop.
    (3) By seccomp on x86_64 and aarch64; elsewhere not stopped, TCP apart (Landlock ABI 4).
    (4) By Landlock ABI 6 (Linux 6.12), or by seccomp for our own processes.
    (5) Started by root it runs as a user that exists nowhere else, which stops signals and
        writing; reading too, if the folders of this Python are open to other users.
    (6) Programs (allow_exec) can still change modes and times of files that the user owns.
    (7) Names, sizes and times of files stay visible.

Not stopped by any kind: covert channels (CPU load, cache timing), reading what is world-readable
under /usr and /etc, errors of the kernel itself. A device that is passed in (`devices`) is open to
whatever its driver allows. Kind `none` limits resources and stops nothing else.
"""

import json
import os
import resource
import shutil
import signal
import struct
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

from musaagent.tools import landlock, mounts, seccomp, syscalls
from musaagent.tools.jail_user import JailUser, jail_user
from musaagent.tools.process_tree import ancestors, kill_descendants, tasks_of_user, usage

INSIDE_UID = 65534
_OPEN_FILES = 1024


class Kind(StrEnum):
    """What holds a jail together."""

    BWRAP = "bwrap"
    """bubblewrap, for programs that are started (not for forked workers)."""
    NAMESPACES = "namespaces"
    """Own user or root, mount, pid, net, ipc and uts namespaces, and all that follows below."""
    LANDLOCK = "landlock"
    """Landlock, seccomp and resource limits."""
    RLIMITS = "rlimits"
    """Resource limits and seccomp."""
    NONE = "none"
    """Resource limits only: the code can do what the user can."""


@dataclass(frozen=True)
class JailSpec:
    """Limits of one jail. Paths are absolute; system folders and this Python are always readable.

    Started by root, the jail runs as an unused uid: writable folders are given to it while it
    runs, and read-only ones must be readable by others.
    """

    kind: Kind | None = None
    """None: the best that the machine has."""
    writable: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    """Files and folders inside visible ones that are covered (not by Landlock)."""
    devices: tuple[str, ...] = ()
    memory_mb: int = 8192
    """What the tree may use on top of what it was forked with."""
    address_space: bool = True
    """Also limit virtual memory; off for GPU drivers, which reserve huge ranges."""
    untouched_mb: int = 0
    """Virtual memory beyond `memory_mb`, for what is reserved and never written."""
    cpu_s: int | None = None
    file_size_mb: int = 1024
    max_processes: int = 64
    no_network: bool = True
    tmp_mb: int = 256
    allow_exec: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "JailSpec":
        fields: dict[str, Any] = json.loads(text)
        for name, value in fields.items():
            if isinstance(value, list):
                fields[name] = tuple(value)
        if fields["kind"] is not None:
            fields["kind"] = Kind(fields["kind"])
        return cls(**fields)


def enter(spec: JailSpec, *, event_fd: int, cwd: str | None = None, execs: bool = False) -> None:
    """Confine this process; returns only in the innermost child. Needs a single thread.

    The caller's process stays as the supervisor: it ends when the confined process has ended and
    nothing of it is left, with the same exit code or signal. Lines of JSON go to `event_fd`:
    `{"inner": pid}` is the process whose death ends them all, `{"error": text}` says why there is
    no jail (exit code 125). `execs` says that an exec follows, so memory counts from zero.
    """
    try:
        _enter(spec, event_fd, cwd, execs)
    except BaseException as error:
        send_event(event_fd, error=f"{type(error).__name__}: {error}")
        os._exit(125)


def send_event(event_fd: int, **fields: object) -> None:
    with suppress(OSError):
        os.write(event_fd, json.dumps(fields).encode() + b"\n")


def _enter(spec: JailSpec, event_fd: int, cwd: str | None, execs: bool) -> None:
    if spec.kind is None or spec.kind is Kind.BWRAP:
        raise ValueError("enter() needs a kind that works in this process")
    parent = os.getppid()
    with suppress(PermissionError):  # a session leader already
        os.setsid()
    # The id maps can be written only while /proc/self is ours.
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)
    isolated = spec.kind is Kind.NAMESPACES
    user = inside = _choose_user(spec)
    user.give(spec.writable)
    scratch = None if isolated else _private_folder(user)
    if isolated:
        inside = _new_pid_namespace(user)
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(125)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    status_read, status_write = os.pipe()
    above = tuple(ancestors(os.getpid()))
    inner = os.fork()
    if inner:
        os.close(status_write)
        send_event(event_fd, inner=inner)
        _supervise(spec, inner, status_read, scratch, user)
    os.close(status_read)
    if isolated:
        _become_init(spec, inside, status_write)
    os.close(status_write)
    _confine(spec, inside, scratch or "/tmp", execs, protected=above)
    if cwd is not None or isolated:
        os.chdir(cwd or "/tmp")
    else:
        os.chdir(scratch or "/")


def _choose_user(spec: JailSpec) -> JailUser:
    if spec.kind is Kind.NONE:
        return JailUser(os.getuid(), os.getgid())
    if spec.kind is Kind.NAMESPACES:
        return jail_user((), capabilities=(syscalls.CAP_SYS_ADMIN,))
    above = (str(Path(path).parent) for path in spec.writable)
    ours = (sys.prefix, sys.base_prefix, str(Path(__file__).parent))
    return jail_user((*ours, *spec.read_only, *above))


def _private_folder(user: JailUser) -> str:
    folder = tempfile.mkdtemp(prefix="musaagent-jail-")
    user.give((folder,))
    return folder


def _new_pid_namespace(user: JailUser) -> JailUser:
    """For the children of this process; an ordinary user needs a user namespace for that."""
    if user.changes:
        syscalls.unshare(syscalls.CLONE_NEWPID)
        return user
    syscalls.unshare(syscalls.CLONE_NEWPID | syscalls.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{INSIDE_UID} {user.uid} 1")
    Path("/proc/self/gid_map").write_text(f"{INSIDE_UID} {user.gid} 1")
    return JailUser(INSIDE_UID, INSIDE_UID, is_root=user.is_root)


def _supervise(
    spec: JailSpec, inner: int, status_read: int, scratch: str | None, user: JailUser
) -> NoReturn:
    """Wait for the end, see that nothing is left, and end in the same way."""
    try:
        syscalls.close_other_fds({0, 1, 2, status_read})
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        pid, status = os.wait()
        while pid != inner:
            pid, status = os.wait()
        reported = os.read(status_read, 4) if spec.kind is Kind.NAMESPACES else b""
        if len(reported) == 4:
            (status,) = struct.unpack("i", reported)
        _end_leftovers()
        if scratch is not None:
            shutil.rmtree(scratch, onerror=_open_and_retry)
        user.take_back(spec.writable)
        _end_like(status)
    finally:
        os._exit(125)


def _open_and_retry(retry: Callable[[str], object], path: str, _: object) -> None:
    """A folder that was closed on purpose is opened, so that it can be removed."""
    with suppress(OSError):
        for folder in (Path(path).parent, Path(path)):
            if folder.is_dir() and not folder.is_symlink():
                folder.chmod(0o700)
        shutil.rmtree(path) if retry in (os.scandir, os.open, os.lstat) else retry(path)


def _end_leftovers() -> None:
    me = os.getpid()
    while True:
        kill_descendants(me)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _end_like(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _become_init(spec: JailSpec, user: JailUser, status_write: int) -> None:
    """Process 1 of the new pid namespace: returns in the process that will be confined."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    network = syscalls.CLONE_NEWNET if spec.no_network else 0
    syscalls.unshare(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS | network)
    mounts.build_root(_view(spec), (user.uid, user.gid))
    worker = os.fork()
    if worker == 0:
        return
    try:
        syscalls.close_other_fds({0, 1, 2, status_write})
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # an init ignores what it does not handle
        pid, status = os.wait()
        while pid != worker:
            pid, status = os.wait()
        os.write(status_write, struct.pack("i", status))
    finally:
        os._exit(0)


def _view(spec: JailSpec) -> mounts.View:
    return mounts.View(
        read_only=mounts.visible_paths(spec.read_only),
        writable=spec.writable,
        hidden=spec.hidden,
        devices=(*mounts.DEVICES, *spec.devices),
        tmp_mb=spec.tmp_mb,
    )


def _confine(
    spec: JailSpec, user: JailUser, tmp: str, execs: bool, protected: tuple[int, ...]
) -> None:
    """Limits, user, privileges: everything that stays on this process from here on."""
    os.setsid()
    _set_limits(spec, user, execs)
    if spec.kind is not Kind.NONE:
        user.become()
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    # The user has no entry in passwd: torch asks for its name.
    os.environ.update(HOME=tmp, TMPDIR=tmp, USER="worker", LOGNAME="worker")
    tempfile.tempdir = None
    if spec.kind is Kind.LANDLOCK or (spec.kind is Kind.NAMESPACES and landlock.landlock_abi() > 0):
        _apply_landlock(spec, tmp)
    if spec.kind is not Kind.NONE and seccomp.SUPPORTED:
        seccomp.install_filter(
            allow_exec=spec.allow_exec,
            allow_network=not spec.no_network,
            allow_local_sockets=bool(spec.devices),
            # Landlock leaves the modes, owners and times of the user's files open.
            allow_metadata=spec.allow_exec or spec.kind is not Kind.LANDLOCK,
            # A worker has no need to fork; where no limit holds, it may not.
            allow_fork=spec.allow_exec or not user.is_root,
            protected=protected if spec.kind is not Kind.NAMESPACES else (),
        )


def _apply_landlock(spec: JailSpec, tmp: str) -> None:
    if spec.kind is Kind.NAMESPACES:
        readable: tuple[str, ...] = ("/",)
    else:
        readable = mounts.visible_paths((*spec.read_only, "/proc", "/sys"))
    writable = [*spec.writable, tmp]
    if spec.kind is Kind.NAMESPACES:
        writable.append("/dev/shm")
    if spec.devices:
        # The CUDA driver names its threads there, or gives up; a program started later has its own.
        writable.append("/proc" if spec.allow_exec else "/proc/self/task")
    landlock.restrict(
        readable=readable,
        writable=writable,
        devices=(*mounts.DEVICES, *spec.devices),
        allow_exec=spec.allow_exec,
        allow_tcp=not spec.no_network,
    )


def _set_limits(spec: JailSpec, user: JailUser, execs: bool) -> None:
    own = usage(os.getpid())
    start_mb = 0 if execs or own is None else own.virtual_kb >> 10
    # The watcher of the parent names an overrun; this is the wall behind it.
    space_mb = start_mb + spec.memory_mb + spec.memory_mb // 4 + 256 + spec.untouched_mb
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: _OPEN_FILES,
        resource.RLIMIT_FSIZE: spec.file_size_mb << 20,
        resource.RLIMIT_NPROC: spec.max_processes + _processes_before(spec, user),
    }
    if spec.address_space:
        limits[resource.RLIMIT_AS] = space_mb << 20
    if spec.cpu_s is not None:
        limits[resource.RLIMIT_CPU] = spec.cpu_s
    for name, wanted in limits.items():
        _, hard = resource.getrlimit(name)
        # SIGXCPU comes a second before SIGKILL.
        last = wanted + 1 if name == resource.RLIMIT_CPU else wanted
        if hard != resource.RLIM_INFINITY:
            last = min(last, hard)
        resource.setrlimit(name, (min(wanted, last), last))


def _processes_before(spec: JailSpec, user: JailUser) -> int:
    """What RLIMIT_NPROC counts already: ours, and the user's own where the count is shared."""
    if user.changes:
        return 1
    if spec.kind is Kind.NAMESPACES and _kernel_version() >= (5, 14):
        return 3  # the supervisor, process 1, and the confined one
    return tasks_of_user(os.getuid())


def _kernel_version() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


def main(arguments: Sequence[str]) -> NoReturn:
    """`jail.py EVENT_FD CWD SPEC PROGRAM ARG...`: run one program in a jail."""
    event_fd, cwd = int(arguments[0]), arguments[1]
    spec, program = JailSpec.from_json(arguments[2]), list(arguments[3:])
    if spec.kind is not Kind.BWRAP:
        enter(spec, event_fd=event_fd, cwd=cwd, execs=True)
    try:
        if spec.kind is Kind.BWRAP:
            program = _wrapped(spec, program, event_fd, cwd)
        send_event(event_fd, ready=True)
        os.set_inheritable(event_fd, spec.kind is Kind.BWRAP)
        os.execvp(program[0], program)
    except OSError as error:
        send_event(event_fd, error=f"{program[0]}: {error}")
    os._exit(125)


def _wrapped(spec: JailSpec, program: list[str], event_fd: int, cwd: str) -> list[str]:
    """Limits on this process, and the bubblewrap command line that does the rest."""
    bwrap, *inner = program
    user = _choose_user(spec)
    if user.reads_all or user.is_root:
        raise PermissionError("bubblewrap that root starts cannot reach folders closed to others")
    user.give(spec.writable)
    _set_limits(spec, user, execs=True)
    if user.changes:
        user.become()
    os.environ.update(HOME="/tmp", TMPDIR="/tmp")
    spaces = ["user", "pid", "ipc", "uts", "cgroup-try", *(["net"] if spec.no_network else [])]
    return [
        bwrap,
        *(f"--unshare-{name}" for name in spaces),
        *("--disable-userns", "--uid", str(INSIDE_UID), "--gid", str(INSIDE_UID)),
        *("--cap-drop", "ALL", "--die-with-parent", "--new-session"),
        *("--json-status-fd", str(event_fd)),
        *_filter_arguments(spec),
        *mounts.bwrap_arguments(_view(spec)),
        *("--chdir", cwd, "--", *inner),
    ]


def _filter_arguments(spec: JailSpec) -> list[str]:
    if not seccomp.SUPPORTED:
        return []
    fd = os.memfd_create("filter", 0)
    os.write(fd, seccomp.filter_code(allow_exec=True, allow_network=not spec.no_network))
    os.lseek(fd, 0, os.SEEK_SET)
    return ["--seccomp", str(fd)]


if __name__ == "__main__":
    main(sys.argv[1:])
