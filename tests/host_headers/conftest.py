"""Compiles drivers against the device headers, with the runtime where kernels run."""

import ctypes
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
HOST = HERE.parents[1] / "tools" / "host"
GXX = ["g++", "-std=c++20", "-fPIC", "-w", f"-I{HOST / 'include'}"]


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="session")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Arithmetic of the headers: needs no runtime."""
    library = tmp_path_factory.mktemp("numbers") / "numbers.so"
    run([*GXX, "-O1", "-shared", str(HERE / "numbers.cpp"), "-o", str(library)])
    return ctypes.CDLL(str(library))
