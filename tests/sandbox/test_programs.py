"""Compilers and tools in a jail: what they print is kept, what they try is stopped."""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from musaagent.errors import SandboxLost, ToolchainMissing
from musaagent.tools import sandbox
from musaagent.tools.jail import Kind
from musaagent.tools.sandbox import JailedResult, available_kinds, run_jailed, why_not

Run = Callable[..., JailedResult]
KEEPS_FILES = {Kind.BWRAP, Kind.NAMESPACES, Kind.LANDLOCK}


@pytest.fixture(params=[Kind.BWRAP, Kind.NAMESPACES, Kind.LANDLOCK, Kind.RLIMITS])
def kind(request: pytest.FixtureRequest) -> Kind:
    wanted: Kind = request.param
    if wanted not in available_kinds():
        pytest.skip(str(why_not(wanted)))
    return wanted


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def run(kind: Kind, work: Path) -> Run:
    """Run a shell script, or a program, in a jail of this kind."""

    def start(*words: str, **options: Any) -> JailedResult:
        argv = ["sh", "-c", words[0]] if len(words) == 1 else list(words)
        defaults = {"timeout_s": 30, "memory_mb": 1024, "writable": work, "kind": kind}
        return run_jailed(argv, **{**defaults, **options})

    return start


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-c", code)


def test_streams_and_exit_code(run: Run, work: Path) -> None:
    result = run("cat; pwd; echo $GREETING >&2; exit 7", stdin=b"in\n", env={"GREETING": "hello"})
    assert (result.returncode, result.stdout) == (7, f"in\n{work}\n")
    assert result.stderr == "hello\n"
    assert not result.timed_out
    assert not result.memory_exceeded


def test_much_input_and_output(run: Run) -> None:
    data = os.urandom(1 << 20).hex().encode()
    result = run("cat", stdin=data, output_limit=8 << 20)
    assert result.stdout.encode() == data


def test_compiles_a_library(run: Run, work: Path) -> None:
    (work / "add.cpp").write_text('extern "C" int add(int a, int b) { return a + b; }\n')
    result = run("g++", "-shared", "-fPIC", "-O1", "-o", "add.so", "add.cpp")
    assert (result.returncode, result.stderr) == (0, "")
    import ctypes

    assert ctypes.CDLL(str(work / "add.so")).add(2, 3) == 5


def test_timeout_keeps_what_was_printed(run: Run) -> None:
    started = time.monotonic()
    result = run("echo before; (sleep 600 &) ; while true; do :; done", timeout_s=1)
    assert result.timed_out
    assert result.stdout == "before\n"
    assert result.returncode == -signal.SIGKILL
    assert time.monotonic() - started < 8
    assert sleepers() == []


def sleepers() -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if (entry / "cmdline").read_bytes() == b"sleep\x00600\x00":
                found.append(entry.name)
        except OSError:
            continue
    return found


def test_nothing_stays_behind(run: Run) -> None:
    started = time.monotonic()
    assert run("(setsid sleep 600 </dev/null >/dev/null 2>&1 &) ; echo done").stdout == "done\n"
    assert time.monotonic() - started < 8
    assert sleepers() == []


def test_output_is_capped(run: Run) -> None:
    result = run(
        *python("print('first', 'x' * 3_000_000, 'last')"), output_limit=10_000, timeout_s=60
    )
    assert 10_000 <= len(result.stdout) < 10_100
    assert result.stdout.startswith("first x")
    assert result.stdout.endswith("x last\n")
    assert "bytes left out" in result.stdout


def test_memory(run: Run) -> None:
    code = "b = []\nwhile True: b.append(b'x' * (8 << 20))"
    result = run(*python(code), memory_mb=200)
    assert result.memory_exceeded
    assert result.returncode != 0
    assert not result.timed_out


def test_process_limit(run: Run) -> None:
    code = """if True:
        import os, time
        count = 0
        for _ in range(300):
            try:
                if os.fork() == 0:
                    time.sleep(600)
            except OSError:
                break
            count += 1
        print(count, flush=True)
        time.sleep(600)
    """
    result = run(*python(code), timeout_s=2, max_processes=32)
    assert result.timed_out
    assert 0 < int(result.stdout) <= 32


def test_files(run: Run, kind: Kind, tmp_path: Path, work: Path) -> None:
    if kind not in KEEPS_FILES:
        pytest.skip("this kind does not keep files")
    tmp_path.chmod(0o755)
    (tmp_path / "secret").write_text("secret")
    (work / "own").write_text("own")
    result = run(
        f"cat own; cat {tmp_path}/secret /etc/shadow {Path.home()}/.bashrc; "
        # In private mounts the folder above is a place in the private /tmp.
        f"touch {tmp_path}/musaagent-test; "
        "for d in / /etc /usr /dev; do touch $d/musaagent-test && echo wrote $d; done; "
        "echo x > out && echo y > $TMPDIR/t && cat out $TMPDIR/t"
    )
    assert result.stdout == "ownx\ny\n"
    assert not (tmp_path / "musaagent-test").exists()
    assert (work / "out").stat().st_uid == os.getuid()


def test_disk(run: Run, kind: Kind) -> None:
    size = "size() { stat -c %s $1; }; "
    fill = "dd if=/dev/zero of=$TMPDIR/a bs=1M count=600 2>/dev/null; size $TMPDIR/a"
    written = int(run(size + fill, file_size_mb=300).stdout)
    assert written <= 300 << 20
    if kind in (Kind.BWRAP, Kind.NAMESPACES):
        assert written <= 256 << 20  # the private /tmp is no larger


def test_network(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        result = run(*python(code))
    assert result.returncode == 1
    assert "PermissionError" in result.stderr


def test_environment_is_scrubbed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a secret of the user")
    result = run("env")
    assert "a secret of the user" not in result.stdout
    assert "PATH=" in result.stdout


def test_signal_of_the_program(run: Run) -> None:
    assert run("kill -SEGV $$").returncode == -signal.SIGSEGV


def test_missing_program(run: Run) -> None:
    with pytest.raises(ToolchainMissing, match="no-such-compiler is not on the PATH"):
        run("no-such-compiler", "-c")


def test_no_jail_is_our_failure(work: Path) -> None:
    with pytest.raises(SandboxLost, match=r"could not be set up: .*gone"):
        run_jailed(
            ["true"],
            timeout_s=20,
            memory_mb=512,
            writable=work / "gone",
            kind=Kind.NAMESPACES,
        )


def test_report(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.sandbox_kind.cache_clear()
    monkeypatch.delenv(sandbox.FORCE_VARIABLE, raising=False)
    report = sandbox.sandbox_kind()
    assert report.tools is available_kinds()[0]
    assert report.forced is False
    assert report.workers is not Kind.BWRAP
    assert report.ok == (report.workers in (Kind.NAMESPACES, Kind.LANDLOCK))
    for forced in available_kinds():
        sandbox.sandbox_kind.cache_clear()
        monkeypatch.setenv(sandbox.FORCE_VARIABLE, forced)
        assert (sandbox.sandbox_kind().tools, sandbox.sandbox_kind().forced) == (forced, True)
    sandbox.sandbox_kind.cache_clear()


def test_none_warns_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, work: Path
) -> None:
    sandbox.sandbox_kind.cache_clear()
    monkeypatch.setenv(sandbox.FORCE_VARIABLE, "none")
    for _ in range(2):
        assert not sandbox.sandbox_kind().ok
        result = run_jailed(["echo", "free"], timeout_s=20, memory_mb=512, writable=work)
        assert result.stdout == "free\n"
    assert [r.message for r in caplog.records] == [
        "MUSAAGENT_SANDBOX=none: candidates run with all your rights"
    ]
    sandbox.sandbox_kind.cache_clear()


def test_unknown_kind_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.sandbox_kind.cache_clear()
    monkeypatch.setenv(sandbox.FORCE_VARIABLE, "docker")
    with pytest.raises(sandbox.UsageError, match="use one of bwrap, namespaces"):
        sandbox.sandbox_kind()
    sandbox.sandbox_kind.cache_clear()
