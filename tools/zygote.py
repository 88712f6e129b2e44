"""The fork server, seen from the parent: workers that start in a jail within milliseconds.

`import torch` takes seconds; so one trusted process imports it once, and each worker is a fork of
that process which enters its jail (`musaagent.tools.jail`) and calls a function. In its own pid
namespace a worker cannot reach the fork server. Without namespaces it is kept off by another uid
(started by root), by Landlock or by seccomp; `jail` lists what remains open where none of them is
there.
"""

import json
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

from musaagent.errors import InfraError, SandboxLost
from musaagent.tools.jail import JailSpec, Kind
from musaagent.tools.process_tree import Usage, tree_usage
from musaagent.tools.sandbox import IMPORT_PATH_BOOT, PASSED_ON, import_path, sandbox_kind
from musaagent.tools.wire import Channel

OUTPUT_LIMIT = 256 << 10
_WATCH_INTERVAL_S = 0.05
_START_TIMEOUT_S = 180.0
_SPAWN_TIMEOUT_S = 60.0
_KILL_TIMEOUT_S = 20.0
_MAX_DATAGRAM = 1 << 16
# Threads at import would make forks unsafe; a worker raises the numbers for itself.
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_BOOT = IMPORT_PATH_BOOT + "from musaagent.tools.zygote_main import main; main()"


class _ForkServerDied(Exception):
    """Inside this module: try once more with a new fork server."""


class Child:
    """One jailed worker. Use as a context manager, or call kill(): nothing of it is left then."""

    def __init__(self, server: "_ForkServer", number: int, name: str, spec: JailSpec) -> None:
        self.name = name
        self.spec = spec
        self.pid = 0
        """The supervisor, whose descendants are the worker and what it started."""
        self.exit: int | None = None
        """Exit code, negative for a signal; None while it runs, or where it was lost."""
        self.memory_exceeded = False
        self.processes_exceeded = False
        self.channel: Channel
        self._server = server
        self._number = number
        self._output = bytearray()
        self._started = threading.Event()
        self._ended = threading.Event()
        self._error = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def stderr_tail(self) -> str:
        """The last 256 KB of what it wrote to stdout and stderr."""
        return bytes(self._output[-OUTPUT_LIMIT:]).decode(errors="replace")

    def wait(self, timeout_s: float | None = None) -> int | None:
        """The exit code, or None if it still runs. Raises SandboxLost with a lost fork server."""
        if not self._ended.wait(timeout_s):
            return None
        if self.exit is None:
            raise SandboxLost(f"worker {self.name}: {self._error or 'it was never started'}")
        return self.exit

    def kill(self) -> None:
        """End the worker and everything that it started, and close the channel."""
        if not self._ended.is_set():
            with suppress(_ForkServerDied):
                self._server.say(op="kill", id=self._number)
            if not self._ended.wait(_KILL_TIMEOUT_S):
                raise SandboxLost(f"worker {self.name} (pid {self.pid}) could not be killed")
        self.channel.close()

    def _add_output(self, data: bytes) -> None:
        self._output += data
        if len(self._output) > 2 * OUTPUT_LIMIT:
            del self._output[:-OUTPUT_LIMIT]

    def _finish(self, code: int | None, error: str = "") -> None:
        self.exit, self._error = code, error
        self._started.set()
        self._ended.set()


class Zygote:
    """Starts workers; thread-safe. The fork server starts on first use and after a loss anew."""

    def __init__(
        self, preload: Sequence[str] = ("torch",), env: Mapping[str, str] | None = None
    ) -> None:
        self._preload = tuple(preload)
        self._env = dict(env or {})
        self._lock = threading.Lock()
        self._server: _ForkServer | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Wait until the imports are done. Raises SandboxLost where they fail."""
        self._living()

    def spawn(self, entry: str, spec: JailSpec, *, name: str) -> Child:
        """Fork a worker that calls `module:function` with its Channel, in the jail of `spec`.

        Returns when the worker is confined and about to import the module. Raises SandboxLost
        where the jail cannot be made, or the fork server is lost twice in a row.
        """
        if spec.kind is None:
            spec = replace(spec, kind=sandbox_kind().workers)
        elif spec.kind is Kind.BWRAP:
            raise ValueError("bubblewrap starts programs, it cannot confine a forked worker")
        for _ in range(2):
            with suppress(_ForkServerDied):
                return self._living().spawn(entry, spec, name)
        raise SandboxLost(f"the fork server died twice when it was to start {name}")

    def close(self) -> None:
        """Kill all workers and stop the fork server, for good: what still runs in threads, and
        would try once more, ends too.
        """
        with self._lock:
            server, self._server, self._closed = self._server, None, True
        if server is not None:
            server.close()

    def _living(self) -> "_ForkServer":
        with self._lock:
            if self._server is not None and self._server.dead:
                self._server.close()
                self._server = None
            if self._closed:
                raise InfraError("the fork server was closed: no worker is started any more")
            if self._server is None:
                self._server = _ForkServer(self._preload, self._env)
            server = self._server
        server.wait_ready()
        return server


class _ForkServer:
    """One process of the fork server, and the thread that listens to it and to its workers."""

    def __init__(self, preload: Sequence[str], env: Mapping[str, str]) -> None:
        self.dead = False
        self._error = ""
        self._shared: Usage | None = None
        self._ready = threading.Event()
        self._lock = threading.Lock()
        self._children: dict[int, Child] = {}
        self._count = 0
        self._fresh: list[tuple[int, Child]] = []
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed in close())
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _BOOT, import_path(), f"{theirs.fileno()}", *preload],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                cwd="/",
                env={name: os.environ[name] for name in PASSED_ON if name in os.environ}
                | dict.fromkeys(_ONE_THREAD, "1")
                | dict(env),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._thread = threading.Thread(target=self._listen, name="fork server", daemon=True)
        self._thread.start()

    def wait_ready(self) -> None:
        if not self._ready.wait(_START_TIMEOUT_S):
            raise SandboxLost(f"the fork server was not ready after {_START_TIMEOUT_S:g} s")
        if self._error:
            raise SandboxLost(f"the fork server could not start: {self._error}")

    def spawn(self, entry: str, spec: JailSpec, name: str) -> Child:
        ours, theirs = socket.socketpair()
        output, output_write = os.pipe()
        os.set_blocking(output, False)
        with self._lock:
            self._count += 1
            child = Child(self, self._count, name, spec)
            # What a worker may not hold, it need not send.
            child.channel = Channel(ours, max_bytes=spec.memory_mb << 20)
            self._children[child._number] = child
            self._fresh.append((output, child))
        request = {"op": "spawn", "id": child._number, "name": name, "entry": entry}
        try:
            os.eventfd_write(self._wake, 1)
            self.say(**request, spec=spec.to_json(), fds=(theirs.fileno(), output_write))
            started = child._started.wait(_SPAWN_TIMEOUT_S)
        finally:
            theirs.close()
            os.close(output_write)
        if started and not child._error:
            return child
        if not started:
            child.kill()
        child.channel.close()
        if self.dead:
            raise _ForkServerDied
        raise SandboxLost(f"worker {name}: {child._error or 'it did not start in time'}")

    def say(self, *, fds: Sequence[int] = (), **fields: Any) -> None:
        try:
            socket.send_fds(self._control, [json.dumps(fields).encode()], list(fds))
        except OSError:
            self._process.kill()  # the listener sees it and marks all workers as lost
            raise _ForkServerDied from None

    def close(self) -> None:
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()
        self._control.close()
        self._log.close()
        os.close(self._wake)

    def _listen(self) -> None:
        """The thread: whatever ends it, nobody waits for a worker in vain."""
        try:
            self._loop()
        finally:
            self._mark_dead()
            with self._lock:
                lost, self._children = list(self._children.values()), {}
            for child in lost:
                child._finish(None, "the fork server died")

    def _loop(self) -> None:
        """Control messages, the workers' output, and the watch over their memory."""
        next_watch = 0.0
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while not self.dead:
                busy = bool(self._children)
                for key, _ in selector.select(_WATCH_INTERVAL_S if busy else None):
                    if key.fd == self._wake:
                        self._register_fresh(selector)
                    elif key.fileobj is self._control:
                        self._obey(selector)
                    elif not _drain(key.fd, key.data):
                        selector.unregister(key.fd)
                        os.close(key.fd)
                if time.monotonic() >= next_watch:
                    self._watch()
                    next_watch = time.monotonic() + _WATCH_INTERVAL_S
            self._register_fresh(selector)
            for key in list(selector.get_map().values()):
                if isinstance(key.data, Child):
                    os.close(key.fd)

    def _register_fresh(self, selector: selectors.BaseSelector) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        with self._lock:
            fresh, self._fresh = self._fresh, []
        for output, child in fresh:
            selector.register(output, selectors.EVENT_READ, child)

    def _obey(self, selector: selectors.BaseSelector) -> None:
        try:
            data = self._control.recv(_MAX_DATAGRAM)
        except OSError:
            data = b""
        if not data:
            self._mark_dead()
            return
        message = json.loads(data)
        match message["op"]:
            case "ready":
                self._shared = Usage(message["own_kb"], message["virtual_kb"], 1)
                self._ready.set()
            case "broken":
                self._error = message["error"]
            case "spawned":
                child = self._children[message["id"]]
                child.pid = message["pid"]
                child._started.set()
            case "exited" | "failed":
                with self._lock:
                    child = self._children.pop(message["id"])
                self._register_fresh(selector)
                for key in list(selector.get_map().values()):
                    if key.data is child:
                        _drain(key.fd, child)
                child._finish(message.get("code"), message.get("error", ""))

    def _mark_dead(self) -> None:
        self.dead = True
        if not self._ready.is_set():
            self._log.seek(0)
            text = self._log.read().decode(errors="replace").strip()
            self._error = self._error or text.rpartition("\n")[2] or "it died"
            self._ready.set()

    def _watch(self) -> None:
        for child in list(self._children.values()):
            if not child.pid or child._ended.is_set():
                continue
            used = tree_usage(child.pid, self._shared)
            if used.own_kb > child.spec.memory_mb << 10:
                child.memory_exceeded = True
            # Where RLIMIT_NPROC does not hold (root), this is what stops a fork bomb.
            if used.threads > 2 * child.spec.max_processes + 8:
                child.processes_exceeded = True
            if child.memory_exceeded or child.processes_exceeded:
                with suppress(_ForkServerDied):
                    self.say(op="kill", id=child._number)


def _drain(fd: int, child: Child) -> bool:
    """Read what is there; False at the end of the stream."""
    while True:
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return True
        if not data:
            return False
        child._add_output(data)
