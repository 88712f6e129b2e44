"""Compiles drivers against the device headers, with the runtime where kernels run."""

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from musaagent.tools.host.builder import HostBuilder
from musaagent.tools.host.rewrite import rewrite

HERE = Path(__file__).parent
HOST = HERE.parents[1] / "tools" / "host"
GXX = ["g++", "-std=c++20", "-fPIC", "-w", f"-I{HOST / 'include'}"]


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="session", params=["-O2", "-march=native"])
def numbers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ctypes.CDLL:
    """Arithmetic of the headers, portable and with this processor's instructions."""
    library = tmp_path_factory.mktemp("numbers") / f"numbers{request.param}.so"
    run([*GXX, "-O2", request.param, "-shared", str(HERE / "numbers.cpp"), "-o", str(library)])
    return ctypes.CDLL(str(library))


@pytest.fixture(scope="session")
def session_runtime() -> ctypes.CDLL:
    return ctypes.CDLL(str(HostBuilder().runtime_library()), mode=ctypes.RTLD_GLOBAL)


@pytest.fixture(params=[32, 128], ids=["warp32", "warp128"])
def warp_size(request: pytest.FixtureRequest, session_runtime: ctypes.CDLL) -> Iterator[int]:
    """Runs a test on both warps that exist."""
    session_runtime.musahost_configure(0, 1, 1, 0, request.param)
    yield request.param
    session_runtime.musahost_configure(0, 1, 0, 0, 32)


def device_library(source: str, folder: Path) -> ctypes.CDLL:
    text = rewrite((HERE / source).read_text(encoding="utf-8"))
    unit, library = folder / f"{source}.cpp", folder / f"{source}.so"
    unit.write_text(f'#line 1 "{HERE / source}"\n{text}', encoding="utf-8")
    runtime = HostBuilder().runtime_library()
    link = ["-fvisibility=hidden", "-Wl,-z,defs", "-o", str(library)]
    run([*GXX, "-O1", "-shared", str(unit), str(runtime), *link])
    return ctypes.CDLL(str(library))


@pytest.fixture(scope="session")
def kernels(session_runtime: ctypes.CDLL, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return device_library("kernels.cu", tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="session")
def musa_kernels(
    session_runtime: ctypes.CDLL, tmp_path_factory: pytest.TempPathFactory
) -> ctypes.CDLL:
    return device_library("kernels.mu", tmp_path_factory.mktemp("musa"))
