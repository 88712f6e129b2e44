"""Hostile workers: each is told apart from a working one, hurts nothing, leaves nothing."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from musaagent.tools.jail import Kind
from musaagent.tools.process_tree import children
from musaagent.tools.wire import WireClosed, WireError
from musaagent.tools.zygote import OUTPUT_LIMIT, Child, Zygote

Spawn = Callable[..., Child]
KEEPS_FILES = {Kind.NAMESPACES, Kind.LANDLOCK}
REFUSED = {"EACCES", "EPERM", "EROFS", "ENOENT", "ESRCH"}


@pytest.fixture
def canary() -> Iterator[int]:
    """A process of ours that must outlive every test."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process.pid
        assert process.poll() is None
        process.kill()


def fork_server_pid(zygote: Zygote) -> int:
    server = zygote._server
    assert server is not None
    return server._process.pid


def test_a_worker_answers(spawn: Spawn) -> None:
    with spawn("echo") as worker:
        blob = os.urandom(5 << 20)
        worker.channel.send({"n": 1, "text": "ü"}, [blob, b""])
        assert worker.channel.recv(20) == ({"n": 1, "text": "ü"}, [blob, b""])
    assert worker.exit == -signal.SIGKILL


def test_endless_loop(spawn: Spawn) -> None:
    worker = spawn("spin")
    worker.channel.recv(20)
    with pytest.raises(TimeoutError):
        worker.channel.recv(0.2)
    assert worker.wait(0.05) is None
    worker.kill()
    assert worker.exit == -signal.SIGKILL
    assert not worker.memory_exceeded


def test_cpu_limit(spawn: Spawn) -> None:
    worker = spawn("spin", cpu_s=1)
    assert worker.wait(30) == -signal.SIGXCPU


def test_fork_bomb(spawn: Spawn, zygote: Zygote) -> None:
    worker = spawn("fork_bomb", max_processes=24)
    worker.channel.recv(20)
    time.sleep(0.5)
    started = time.monotonic()
    worker.kill()
    assert time.monotonic() - started < 10
    assert children(fork_server_pid(zygote)) == []


def test_process_limit(spawn: Spawn, kind: Kind) -> None:
    worker = spawn("count_forks", max_processes=16)
    count = worker.channel.recv(20)[0]["count"]
    if kind is Kind.NAMESPACES:
        assert 12 <= count <= 16
    assert 0 < count <= 16


def test_memory_eater(spawn: Spawn) -> None:
    worker = spawn("eat_memory", memory_mb=200)
    worker.channel.recv(20)
    assert worker.wait(60) is not None
    assert worker.memory_exceeded
    assert worker.exit == -signal.SIGKILL


def test_one_huge_allocation_fails_at_once(spawn: Spawn) -> None:
    worker = spawn("one_huge_allocation")
    assert worker.wait(20) == 1
    assert "MemoryError" in worker.stderr_tail


def test_disk_filler(spawn: Spawn, kind: Kind) -> None:
    folders = ["/", "/dev", "/dev/shm", "/etc", "/usr", "/var", "/var/tmp", str(Path.home())]
    if kind not in KEEPS_FILES:
        folders = []
    worker = spawn("fill_disk", tmp_mb=24)
    worker.channel.send({"folders": folders, "limit_mb": 64})
    result, _ = worker.channel.recv(60)
    if kind is Kind.NAMESPACES:
        written, why = result.pop("tmp")
        assert (written <= 24 << 20, why) == (True, "ENOSPC")
        # The private folders take what fits, and no more.
        for folder in ("/dev/shm", "/var/tmp"):
            assert result.pop(folder)[0] <= 24 << 20
    else:
        result.pop("tmp")
    assert {folder for folder, (written, _) in result.items() if written} == set()


def test_file_size_limit(spawn: Spawn) -> None:
    worker = spawn("one_large_file", file_size_mb=8)
    assert worker.channel.recv(20)[0] == {"why": "EFBIG", "size": 8 << 20}


def test_its_parents_survive(spawn: Spawn, zygote: Zygote, canary: int) -> None:
    worker = spawn("kill_parents")
    pids = {"us": os.getpid(), "fork server": fork_server_pid(zygote), "supervisor": worker.pid}
    worker.channel.send({"pids": pids})
    result, _ = worker.channel.recv(20)
    # Process 1 of the namespace takes the call and ignores it.
    harmless = {k for k in result if k.startswith("parent") and worker.spec.kind is Kind.NAMESPACES}
    assert {k: v for k, v in result.items() if v not in REFUSED and k not in harmless} == {}
    worker.channel.send({"still": "there"})
    assert worker.channel.recv(20)[0] == {"still": "there"}


def test_kill_everybody(spawn: Spawn, kind: Kind, canary: int) -> None:
    worker = spawn("kill_everybody")
    worker.channel.send({"canary": canary})
    result, _ = worker.channel.recv(20)
    if kind is Kind.RLIMITS and result["canary"] == "done":
        pytest.skip("for an ordinary user this kind keeps off our own processes only")
    assert set(result.values()) <= REFUSED
    with pytest.raises((WireError, TimeoutError)):
        worker.channel.recv(2)


def test_exit_zero_is_no_success(spawn: Spawn) -> None:
    worker = spawn("exit_zero")
    with pytest.raises(WireClosed):
        worker.channel.recv(20)
    assert worker.wait(20) == 0


@pytest.mark.parametrize(
    ("function", "code", "text"),
    [
        ("exit_with_text", 1, "no kernel today"),
        ("abort", -signal.SIGABRT, "Fatal Python error: Aborted"),
        ("segfault", -signal.SIGSEGV, "Fatal Python error: Segmentation fault"),
        ("raise_error", 1, "RuntimeError: kernel launch failed"),
    ],
)
def test_ends_by_itself(spawn: Spawn, function: str, code: int, text: str) -> None:
    worker = spawn(function)
    assert worker.wait(20) == code
    assert text in worker.stderr_tail
    with pytest.raises(WireClosed):
        worker.channel.recv(1)


def test_stops_itself(spawn: Spawn) -> None:
    worker = spawn("stop_self")
    with pytest.raises(TimeoutError):
        worker.channel.recv(0.3)
    worker.kill()
    assert worker.exit == -signal.SIGKILL


def test_closes_the_channel(spawn: Spawn) -> None:
    worker = spawn("close_channel")
    with pytest.raises(WireClosed):
        worker.channel.recv(20)
    assert worker.wait(0.1) is None


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x05pickle me" * 9,
        b"MAW1" + b"\xff" * 40,
        b"MAW1" + bytes(4) + b"\x01" + bytes(7) + b"[",
    ],
    ids=["noise", "lengths", "header"],
)
def test_garbage_on_the_channel(spawn: Spawn, data: bytes) -> None:
    worker = spawn("garbage")
    worker.channel.send({"bytes": data.hex()})
    for _ in range(2):
        with pytest.raises(WireError):
            worker.channel.recv(20)


def test_does_not_read(spawn: Spawn) -> None:
    worker = spawn("never_reads")
    with pytest.raises(TimeoutError):
        worker.channel.send({}, [bytes(16 << 20)], timeout_s=0.3)


def test_files_of_the_user(spawn: Spawn, kind: Kind, tmp_path: Path) -> None:
    if kind not in KEEPS_FILES:
        pytest.skip("this kind does not keep files")
    shared, own = tmp_path / "shared", tmp_path / "own"
    for folder in (shared, own):
        folder.mkdir()
    tmp_path.chmod(0o755)
    (shared / "given.txt").write_text("given")
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    with tempfile.NamedTemporaryFile(dir=Path.home(), prefix=".musaagent-test-") as at_home:
        worker = spawn("file_access", read_only=(str(Path(__file__).parent), str(shared)))
        closed = [str(secret), at_home.name, "/root", "/home", "/var/log", "/etc/shadow"]
        places = [str(shared), str(shared / "given.txt"), sys.prefix, "/etc", "/usr", at_home.name]
        worker.channel.send({"read": [*closed, str(shared / "given.txt")], "write": places})
        result, _ = worker.channel.recv(20)
    assert result.pop(f"read {shared / 'given.txt'}") == "done"
    # A folder may be there, empty, as a way to something below it.
    for folder in ("/root", "/home"):
        result.pop(f"read {folder}")
    assert {k: v for k, v in result.items() if v not in REFUSED} == {}
    assert (shared / "given.txt").read_text() == "given"


def test_writable_and_hidden(spawn: Spawn, kind: Kind, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    own, nested = tmp_path / "own", tmp_path / "own" / "kept"
    nested.mkdir(parents=True)
    hidden = nested / "other"
    hidden.mkdir()
    (hidden / "answer.txt").write_text("42")
    here = str(Path(__file__).parent)
    worker = spawn(
        "file_access",
        writable=(str(own),),
        read_only=(here, str(nested)),
        hidden=(str(hidden),) if kind is Kind.NAMESPACES else (),
    )
    answer = str(hidden / "answer.txt")
    worker.channel.send({"read": [answer], "write": [str(own), str(nested)]})
    result, _ = worker.channel.recv(20)
    assert result[f"write {own}"] == "done"
    assert (own / "musaagent-test-write").read_text() == "x"
    if kind is Kind.NAMESPACES:
        assert result[f"read {answer}"] in REFUSED
        assert result[f"write {nested}"] in REFUSED
    worker.kill()
    assert (own / "musaagent-test-write").stat().st_uid == os.getuid()


def test_what_it_sees(spawn: Spawn, kind: Kind) -> None:
    worker = spawn("listing")
    try:
        result, _ = worker.channel.recv(20)
    except WireClosed:
        pytest.fail(worker.stderr_tail)
    assert set(result["fds"]) == {"0", "1", "2", "3"}
    assert result["fds"]["0"] == "/dev/null"
    assert result["fds"]["1"] == result["fds"]["2"]
    assert "a secret of the user" not in str(result["environment"])
    # Bit 2: root's files are closed to others, and Landlock says which may be read.
    assert int(result["capabilities"], 16) in ((0,) if kind is Kind.NAMESPACES else (0, 4))
    assert result["uid"] != 0
    if kind is Kind.NAMESPACES:
        assert result["processes"] == 2
        assert result["uid"] not in (0, os.getuid())


def test_network(spawn: Spawn, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as local:
        local.bind(path)
        local.listen()
        worker = spawn("network")
        worker.channel.send({"port": listener.getsockname()[1], "path": path})
        result, _ = worker.channel.recv(20)
    assert set(result.values()) <= REFUSED


@pytest.mark.parametrize("then", ["exit", "stay"])
def test_daemons_end_with_it(spawn: Spawn, zygote: Zygote, then: str) -> None:
    worker = spawn("daemon")
    assert worker.channel.recv(20)[0] == {"started": True}
    worker.channel.send({"then": then})
    if then == "exit":
        assert worker.wait(20) == 3
    else:
        worker.kill()
    assert children(fork_server_pid(zygote)) == []


def test_privileges(spawn: Spawn, zygote: Zygote, kind: Kind, canary: int) -> None:
    worker = spawn("privileges")
    worker.channel.send({"pids": [canary, fork_server_pid(zygote)]})
    result, _ = worker.channel.recv(20)
    if kind is Kind.RLIMITS:
        result.pop("memory")
    if result["setuid"] == "EINVAL":
        result.pop("setuid")  # in a user namespace there is no such uid
    flat = {k: set(v) if isinstance(v, list) else {v} for k, v in result.items()}
    assert {k: v for k, v in flat.items() if not v <= REFUSED} == {}


def test_noise_is_cut_and_blocks_nobody(spawn: Spawn) -> None:
    worker = spawn("noisy")
    assert worker.channel.recv(60)[0] == {"printed": True}
    worker.wait(20)
    assert len(worker.stderr_tail) == OUTPUT_LIMIT
    assert worker.stderr_tail.endswith("the end\n")


def test_threads_count(spawn: Spawn) -> None:
    worker = spawn("many_threads", max_processes=32, memory_mb=4096)
    assert 0 < worker.channel.recv(20)[0]["started"] <= 32
