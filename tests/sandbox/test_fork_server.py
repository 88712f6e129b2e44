"""The fork server: many workers at once, its own loss, the parent's loss, and torch in a worker."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from musaagent.errors import InfraError, SandboxLost
from musaagent.tools.jail import JailSpec, Kind
from musaagent.tools.process_tree import children
from musaagent.tools.wire import WireClosed
from musaagent.tools.zygote import Zygote

HERE = Path(__file__).parent
SPEC = JailSpec(memory_mb=512, read_only=(str(HERE),))


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[Zygote]:
    """A fork server that a test may break."""
    monkeypatch.syspath_prepend(str(HERE))
    with Zygote(preload=()) as server:
        yield server


def server_pid(zygote: Zygote) -> int:
    assert zygote._server is not None
    return zygote._server._process.pid


def test_a_closed_one_starts_nothing_any_more(own: Zygote) -> None:
    """Else a thread that tries once more, while all is being stopped, would start all again."""
    own.start()
    own.close()
    with pytest.raises(InfraError, match="closed") as raised:
        own.spawn("hostile:echo", SPEC, name="late")
    assert not isinstance(raised.value, SandboxLost)
    assert own._server is None


def test_many_workers_at_once(zygote: Zygote) -> None:
    def exercise(number: int) -> int:
        with zygote.spawn("hostile:echo", SPEC, name=f"echo {number}") as worker:
            for _ in range(20):
                worker.channel.send({"number": number}, [bytes([number]) * 1000])
                header, blobs = worker.channel.recv(30)
                assert blobs == [bytes([number]) * 1000]
            return int(header["number"])

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(exercise, range(18))) == list(range(18))
    assert children(server_pid(zygote)) == []


def test_a_lost_fork_server_is_replaced(own: Zygote) -> None:
    worker = own.spawn("hostile:echo", SPEC, name="first")
    os.kill(server_pid(own), signal.SIGKILL)
    with pytest.raises(WireClosed):
        worker.channel.recv(20)
    with pytest.raises(SandboxLost, match="the fork server died"):
        worker.wait(20)
    worker.kill()
    with own.spawn("hostile:echo", SPEC, name="second") as again:
        again.channel.send({"n": 1})
        assert again.channel.recv(20)[0] == {"n": 1}


def test_an_import_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        Zygote(preload=("no_such_module_of_ours",)) as server,
        pytest.raises(SandboxLost, match=r"no_such_module_of_ours: ModuleNotFoundError"),
    ):
        server.start()


def test_a_jail_that_cannot_be_made_is_our_failure(zygote: Zygote) -> None:
    spec = JailSpec(kind=Kind.NAMESPACES, writable=("/no/such/folder",))
    with pytest.raises(SandboxLost, match="/no/such/folder"):
        zygote.spawn("hostile:echo", spec, name="homeless")


def test_nothing_outlives_the_parent(tmp_path: Path) -> None:
    """The parent is killed: fork server and workers go with it."""
    program = textwrap.dedent(
        f"""
        import sys, time
        sys.path.insert(0, {str(HERE)!r})
        sys.path.insert(0, {str(tmp_path)!r})
        from musaagent.tools.jail import JailSpec
        from musaagent.tools.zygote import Zygote
        zygote = Zygote(())
        spec = JailSpec(read_only=({str(HERE)!r},))
        workers = [zygote.spawn("hostile:spin", spec, name="spin") for _ in range(2)]
        print("started", flush=True)
        time.sleep(600)
        """
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"started\n"
        assert len(_with_text(str(tmp_path))) >= 4
        parent.kill()
    limit = time.monotonic() + 10
    while (left := _with_text(str(tmp_path))) and time.monotonic() < limit:
        time.sleep(0.05)
    assert left == []


def _with_text(text: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and text.encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return [pid for pid in found if pid != str(os.getpid())]


def test_torch_is_there_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))
    with Zygote(preload=("torch",)) as server:
        server.start()
        times = []
        for _ in range(3):
            started = time.monotonic()
            worker = server.spawn("torch_worker:compute", SPEC, name="torch")
            times.append(time.monotonic() - started)
            worker.channel.send({"threads": 2, "n": 300})
            header, blobs = worker.channel.recv(60)
            assert header == {"sum": 300.0 * 300.0 * 300.0, "threads": 2}
            assert len(blobs[0]) == 300 * 300 * 4
            worker.kill()
    print(f"spawn to confined: {min(times):.3f} s")
    # 0.08 s on an idle machine with 2 cores.
    assert min(times) < 1.0
