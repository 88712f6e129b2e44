"""The fork server's own process: imports once, forks jailed workers, reaps them. Trusted code.

It has one thread and no secrets: a scrubbed environment, and only what the control socket says.
Messages are JSON, one a datagram: `spawn`, `kill` and `exit` come in; `ready`, `spawned`, `failed`
and `exited` go out.
"""

import faulthandler
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from musaagent.tools import jail, mounts, syscalls
from musaagent.tools.jail import JailSpec
from musaagent.tools.process_tree import children, kill_descendants, usage
from musaagent.tools.wire import Channel

MAX_DATAGRAM = 1 << 16
_KILL_AGAIN_S = 0.02
_KILL_GRACE_S = 5.0
_CHANNEL_FD = 3


@dataclass
class _Worker:
    """One supervisor process and what it has said so far."""

    id: int
    pid: int
    events: int
    inner: int | None = None
    running: bool = False
    error: str = ""
    tail: bytes = b""
    kill_until: float | None = None


class _Server:
    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.workers: dict[int, _Worker] = {}
        self.selector = selectors.DefaultSelector()
        self.wake_read, self.wake_write = os.pipe()

    def run(self) -> None:
        for fd in (self.wake_read, self.wake_write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(self.control, selectors.EVENT_READ)
        self.selector.register(self.wake_read, selectors.EVENT_READ)
        while True:
            dying = any(w.kill_until is not None for w in self.workers.values())
            for key, _ in self.selector.select(_KILL_AGAIN_S if dying else None):
                if key.fileobj is self.control:
                    self.answer()
                elif key.fd == self.wake_read:
                    os.read(self.wake_read, 4096)
                else:
                    self.listen(key.data)
            self.reap()
            for worker in self.workers.values():
                if worker.kill_until is not None:
                    self.strike(worker)

    def say(self, **fields: Any) -> None:
        self.control.send(json.dumps(fields).encode())

    def answer(self) -> None:
        data, fds, _, _ = socket.recv_fds(self.control, MAX_DATAGRAM, 2)
        if not data:
            self.stop()
        request = json.loads(data)
        match request["op"]:
            case "spawn":
                self.spawn(request, fds[0], fds[1])
            case "kill":
                worker = self.workers.get(request["id"])
                if worker is not None and worker.kill_until is None:
                    worker.kill_until = time.monotonic() + _KILL_GRACE_S
            case "exit":
                self.stop()

    def spawn(self, request: dict[str, Any], channel_fd: int, output_fd: int) -> None:
        events_read, events_write = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            for fd in (channel_fd, output_fd, events_read, events_write):
                os.close(fd)
            self.say(op="failed", id=request["id"], error=f"fork: {error}")
            return
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _become_worker(request, channel_fd, output_fd, events_write)
        for fd in (channel_fd, output_fd, events_write):
            os.close(fd)
        worker = _Worker(request["id"], pid, events_read)
        self.workers[worker.id] = worker
        self.selector.register(events_read, selectors.EVENT_READ, worker)

    def listen(self, worker: _Worker) -> None:
        data = os.read(worker.events, 4096)
        if not data:
            self.selector.unregister(worker.events)
            os.close(worker.events)
            worker.events = -1
            return
        *lines, worker.tail = (worker.tail + data).split(b"\n")
        for line in lines:
            event = json.loads(line)
            worker.inner = event.get("inner", worker.inner)
            worker.error = event.get("error", worker.error)
            if event.get("running"):
                worker.running = True
                self.say(op="spawned", id=worker.id, pid=worker.pid)

    def strike(self, worker: _Worker) -> None:
        """Kill what the supervisor watches over; it then ends by itself, or is ended too."""
        kill_descendants(worker.pid)
        overdue = worker.kill_until is not None and time.monotonic() > worker.kill_until
        with suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGKILL if overdue else signal.SIGCONT)

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for worker in [w for w in self.workers.values() if w.pid == pid]:
                self.end_orphans(worker.pid)
                self.report_end(worker, os.waitstatus_to_exitcode(status))

    def report_end(self, worker: _Worker, code: int) -> None:
        while worker.events >= 0:
            self.listen(worker)
        del self.workers[worker.id]
        if worker.running:
            self.say(op="exited", id=worker.id, code=code)
        else:
            why = worker.error or f"it ended with {code} before it ran"
            self.say(op="failed", id=worker.id, error=why)

    def end_orphans(self, ended: int) -> None:
        """What outlived its supervisor has become our child."""
        known = {w.pid for w in self.workers.values()} | {ended}
        for pid in children(os.getpid()):
            if pid not in known:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def stop(self) -> NoReturn:
        limit = time.monotonic() + _KILL_GRACE_S
        while self.workers and time.monotonic() < limit:
            for worker in self.workers.values():
                worker.kill_until = worker.kill_until or limit - 1
                self.strike(worker)
            time.sleep(0.005)
            with suppress(OSError):  # nobody may be left to hear of it
                self.reap()
        os._exit(0)


def _become_worker(
    request: dict[str, Any], channel_fd: int, output_fd: int, event_fd: int
) -> NoReturn:
    code = 1
    try:
        _arrange_fds(channel_fd, output_fd, event_fd)
        event_fd = _CHANNEL_FD + 1
        syscalls.set_process_name(f"jail {request['name']}")
        jail.enter(JailSpec.from_json(request["spec"]), event_fd=event_fd)
        jail.send_event(event_fd, running=True)
        syscalls.close_other_fds({0, 1, 2, _CHANNEL_FD})
        code = _call(request["entry"])
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _arrange_fds(channel_fd: int, output_fd: int, event_fd: int) -> None:
    """0 is /dev/null, 1 and 2 the captured output, 3 the channel, 4 the events; no others."""
    high = [os.dup(fd) for fd in (channel_fd, output_fd, event_fd)]
    while min(high) <= _CHANNEL_FD + 1:
        high = [os.dup(fd) for fd in high]
    null = os.open(os.devnull, os.O_RDWR)
    for source, target in ((null, 0), (high[1], 1), (high[1], 2), (high[0], 3), (high[2], 4)):
        os.dup2(source, target, inheritable=target < _CHANNEL_FD)
    syscalls.close_other_fds(range(_CHANNEL_FD + 2))
    for fd, name in ((1, "stdout"), (2, "stderr")):
        setattr(
            sys, name, os.fdopen(fd, "w", buffering=1, errors="backslashreplace", closefd=False)
        )


def _call(entry: str) -> int:
    """Import and call `module:function` with the channel; its exit code, as a program's."""
    faulthandler.enable()
    channel = Channel(socket.socket(fileno=_CHANNEL_FD))
    module, _, function = entry.partition(":")
    try:
        getattr(importlib.import_module(module), function)(channel)
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return (stop.code or 0) & 0xFF
        print(stop.code, file=sys.stderr)
        return 1
    return 0


def main() -> None:
    """`zygote_main CONTROL_FD PRELOAD...`, started by `musaagent.tools.zygote`."""
    control = socket.socket(fileno=int(sys.argv[1]))
    server = _Server(control)
    try:
        for name in sys.argv[2:]:
            importlib.import_module(name)
    except Exception as error:
        traceback.print_exc()
        server.say(op="broken", error=f"{name}: {type(error).__name__}: {error}")
        return
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        server.say(op="broken", error=f"the imports started {threads - 1} threads: no fork is safe")
        return
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    mounts.visible_paths()  # found once, for all workers
    gc.collect()
    gc.freeze()
    own = usage(os.getpid())
    memory = {"own_kb": own.own_kb, "virtual_kb": own.virtual_kb} if own else {}
    server.say(op="ready", pid=os.getpid(), **memory)
    server.run()
