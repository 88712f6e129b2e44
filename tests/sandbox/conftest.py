"""One fork server for all tests, workers in every kind of jail, and the look for strays."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from musaagent.tools.jail import JailSpec, Kind
from musaagent.tools.sandbox import available_kinds, why_not
from musaagent.tools.zygote import Child, Zygote

HERE = Path(__file__).parent
WORKER_KINDS = (Kind.NAMESPACES, Kind.LANDLOCK, Kind.RLIMITS)
Spawn = Callable[..., Child]


@pytest.fixture(scope="session")
def token(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder on the fork server's import path, by which its processes can be told from others."""
    return str(tmp_path_factory.mktemp("fork-server-token"))


@pytest.fixture(scope="session")
def zygote(token: str) -> Iterator[Zygote]:
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(str(HERE))
    patch.syspath_prepend(token)
    patch.setenv("OPENAI_API_KEY", "a secret of the user")
    with Zygote(preload=("ctypes",)) as server:
        server.start()
        yield server
    patch.undo()


@pytest.fixture(params=WORKER_KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    wanted: Kind = request.param
    if wanted not in available_kinds():
        pytest.skip(str(why_not(wanted)))
    return wanted


@pytest.fixture
def spawn(zygote: Zygote, kind: Kind, token: str) -> Iterator[Spawn]:
    """Start a worker on a function of hostile.py; afterwards nothing of it may be left."""
    workers = []

    def start(function: str, **limits: object) -> Child:
        fields = {"memory_mb": 512, "kind": kind, "read_only": (str(HERE),), **limits}
        worker = zygote.spawn(f"hostile:{function}", JailSpec(**fields), name=function)
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.kill()
    assert strays(token) == []


def strays(token: str) -> list[str]:
    """Processes that carry the token, the fork server itself apart; given a moment to vanish."""
    for _ in range(50):
        found = [p for p in _processes_with(token) if _parent(p) != os.getpid()]
        if not found:
            return []
        time.sleep(0.02)
    return found


def _processes_with(token: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            try:
                if token.encode() in (entry / "cmdline").read_bytes():
                    found.append(entry.name)
            except OSError:
                continue
    return found


def _parent(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return os.getpid()
