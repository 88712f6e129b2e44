"""What the workers of these tests do; each function is one candidate that means harm, or is odd.

They are imported by forked workers only. The first message holds their parameters.
"""

import ctypes
import errno
import os
import signal
import socket
import sys
import time
from pathlib import Path

MB = 1 << 20


def _attempt(call, *args):
    """What came of it: `done`, or the name of the error."""
    try:
        call(*args)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "done"


def _forever():
    while True:
        time.sleep(60)


def echo(channel):
    while True:
        header, blobs = channel.recv(None)
        channel.send(header, blobs)


def spin(channel):
    channel.send({"spinning": True})
    while True:
        pass


def fork_bomb(channel):
    """Each process forks as fast as it can. The fuse: no more than the tokens in a pipe allow."""
    read_end, write_end = os.pipe()
    os.write(write_end, b"x" * 400)
    os.set_blocking(read_end, False)
    channel.send({"bombing": True})
    while True:
        try:
            os.read(read_end, 1)
            os.fork()
        except BlockingIOError:
            _forever()
        except OSError:
            time.sleep(0.01)


def count_forks(channel):
    """How many children it can have at once."""
    count = 0
    for _ in range(300):
        try:
            if os.fork() == 0:
                _forever()
        except OSError:
            break
        count += 1
    channel.send({"count": count})
    _forever()


def eat_memory(channel):
    channel.send({"eating": True})
    held = []
    while True:
        block = bytearray(16 * MB)
        block[::4096] = b"x" * len(block[::4096])
        held.append(block)
        time.sleep(0.002)


def one_huge_allocation(channel):
    bytearray(1 << 42)


def fill_disk(channel):
    """Bytes written below each folder, up to a limit, and what stopped it."""
    request, _ = channel.recv(None)
    result = {}
    for folder in [*request["folders"], os.environ["TMPDIR"]]:
        written, why, names = 0, "limit", []
        while written < request["limit_mb"] * MB:
            name = Path(folder, f"musaagent-test-filler-{len(names)}")
            try:
                with name.open("wb", buffering=0) as file:
                    names.append(name)
                    for _ in range(8):
                        written += file.write(bytes(MB))
            except OSError as error:
                why = errno.errorcode[error.errno]
                break
        for name in names:
            name.unlink()
        result["tmp" if folder == os.environ["TMPDIR"] else folder] = [written, why]
    channel.send(result)


def one_large_file(channel):
    with Path(os.environ["TMPDIR"], "large").open("wb", buffering=0) as file:
        try:
            for _ in range(64):
                file.write(bytes(MB))
        except OSError as error:
            channel.send({"why": errno.errorcode[error.errno], "size": file.tell()})


def kill_parents(channel):
    """Signals to whoever is above it. `pids` are the parent's and the fork server's."""
    request, _ = channel.recv(None)
    pids = {"parent": os.getppid(), **request["pids"]}
    result = {}
    for name, pid in pids.items():
        for number in (signal.SIGSTOP, signal.SIGKILL):
            # In a pid namespace 0 (nobody) is our parent's parent, and 1 ignores us.
            result[f"{name} {number.name}"] = _attempt(os.kill, pid, number) if pid else "ESRCH"
    channel.send(result)
    echo(channel)


def kill_everybody(channel):
    """kill(-1) and kill(-group); only where a first try shows that strangers are out of reach."""
    request, _ = channel.recv(None)
    canary = _attempt(os.kill, request["canary"], 0)
    if canary == "done":
        channel.send({"canary": canary})
        return
    result = {"canary": canary}
    result["group"] = _attempt(os.kill, -request["canary"], signal.SIGKILL)
    channel.send(result)
    os.kill(-1, signal.SIGKILL)
    channel.send({"still": "here"})


def exit_zero(channel):
    os._exit(0)


def exit_with_text(channel):
    sys.exit("no kernel today")


def abort(channel):
    os.abort()


def segfault(channel):
    ctypes.string_at(8)


def raise_error(channel):
    raise RuntimeError("kernel launch failed")


def stop_self(channel):
    os.kill(os.getpid(), signal.SIGSTOP)
    channel.send({"awake": True})


def close_channel(channel):
    channel.close()
    _forever()


def garbage(channel):
    request, _ = channel.recv(None)
    channel._socket.setblocking(True)
    channel._socket.sendall(bytes.fromhex(request["bytes"]))
    _forever()


def never_reads(channel):
    _forever()


def file_access(channel):
    """Reads and writes of the given paths."""
    request, _ = channel.recv(None)

    def read(path):
        result[f"read {path}"] = (
            _attempt(os.listdir, path) if Path(path).is_dir() else _attempt(Path(path).read_bytes)
        )

    result = {}
    for path in request["read"]:
        read(path)
    for path in request["write"]:
        target = Path(path, "musaagent-test-write") if Path(path).is_dir() else Path(path)
        result[f"write {path}"] = _attempt(target.write_text, "x")
        result[f"chmod {path}"] = _attempt(os.chmod, path, 0o777)
    channel.send(result)


def read_texts(channel):
    request, _ = channel.recv(None)
    channel.send({path: Path(path).read_text() for path in request["paths"]})


def listing(channel):
    """Whom and what it sees of the machine."""
    fds = sorted(Path("/proc/self/fd").iterdir(), key=lambda path: int(path.name))
    processes = [p for p in Path("/proc").iterdir() if p.name.isdigit()]
    channel.send(
        {
            # The listing itself held the last one.
            "fds": {fd.name: str(fd.readlink()) for fd in fds[:-1]},
            "processes": len(processes),
            "environment": dict(os.environ),
            "capabilities": Path("/proc/self/status").read_text().partition("CapEff:\t")[2][:16],
            "uid": os.getuid(),
        }
    )


def network(channel):
    """Connections to a listener on the host's loopback and to a unix socket."""
    request, _ = channel.recv(None)
    result = {}

    def attempt(family, kind, address):
        with socket.socket(family, kind) as sock:
            sock.settimeout(2)
            sock.connect(address)
            sock.send(b"hello")

    inet = ("127.0.0.1", request["port"])
    result["tcp"] = _attempt(attempt, socket.AF_INET, socket.SOCK_STREAM, inet)
    result["udp"] = _attempt(attempt, socket.AF_INET, socket.SOCK_DGRAM, inet)
    result["unix"] = _attempt(attempt, socket.AF_UNIX, socket.SOCK_STREAM, request["path"])
    channel.send(result)


def daemon(channel):
    """A grandchild with its own session, twice forked, that ignores every signal it can."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            _forever()
        os._exit(0)
    os.wait()
    channel.send({"started": True})
    request, _ = channel.recv(None)
    if request["then"] == "exit":
        os._exit(3)
    _forever()


def privileges(channel):
    """Calls that lead out of a jail, if any of them works."""
    request, _ = channel.recv(None)
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name, *args):
        ctypes.set_errno(0)
        worked = getattr(libc, name)(*args) >= 0
        return "done" if worked else errno.errorcode[ctypes.get_errno()]

    pids = request["pids"]
    channel.send(
        {
            "ptrace": [call("ptrace", 16, pid, None, None) for pid in pids],
            "prlimit": [call("prlimit", pid, 0, None, None) for pid in pids],
            "unshare user": call("unshare", 0x10000000),
            "mount": call("mount", b"none", b"/tmp", b"tmpfs", ctypes.c_ulong(0), None),
            "setuid": call("setuid", 0),
            "chroot": call("chroot", b"/tmp"),
            "exec": _attempt(os.execv, "/bin/true", ["true"]),
            "memory": [_attempt(Path(f"/proc/{pid}/mem").open, "r+b") for pid in pids],
        }
    )


def noisy(channel):
    """Far more output than anybody wants, on both streams."""
    line = "x" * 1023 + "\n"
    for stream in (sys.stdout, sys.stderr):
        for _ in range(8 * 1024):
            stream.write(line)
    print("the end", file=sys.stderr)
    channel.send({"printed": True})


def many_threads(channel):
    import threading

    started = 0
    for _ in range(300):
        thread = threading.Thread(target=_forever, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            break
        started += 1
    channel.send({"started": started})
    _forever()
