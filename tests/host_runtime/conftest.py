"""Builds the runtime once a session, and drivers against it."""

import ctypes
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

HERE = Path(__file__).parent
HOST = HERE.parents[1] / "tools" / "host"
RUNTIME = ("-O2", "-Wall", "-Wextra", "-Wl,-soname,libmusahost-under-test.so", "-ldl")
FAST = ("-O2", "-g1")
CHECKED = (
    "-O1",
    "-g1",
    "-fsanitize=thread",
    "--param=tsan-instrument-func-entry-exit=0",
    "--param=tsan-distinguish-volatile=1",
)


# Other tests of this process load a libmusahost.so for everybody: a name of its own and its own
# functions first, or the drivers would get that one's.
OWN_FIRST = os.RTLD_NOW | os.RTLD_DEEPBIND


def compile_shared(output: Path, sources: list[Path], *flags: str) -> Path:
    common = ["g++", "-std=c++20", "-fPIC", "-shared", "-pthread", f"-I{HOST / 'include'}"]
    done = subprocess.run(
        [*common, *map(str, sources), "-o", str(output), *flags], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "warning" not in done.stderr, done.stderr
    return output


class Runtime:
    """The loaded libmusahost.so, and drivers compiled against it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # thin_*.cpp serve torch's side of candidates and need nothing that is tested here.
        every = sorted((HOST / "runtime").glob("*.cpp"))
        sources = [path for path in every if not path.name.startswith("thin_")]
        path = compile_shared(folder / "libmusahost.so", sources, *RUNTIME)
        self.library = ctypes.CDLL(str(path), mode=OWN_FIRST)
        self.library.musahost_take_report.restype = ctypes.c_char_p
        self.library.musahost_malloc.restype = ctypes.c_void_p
        self.library.musahost_register.argtypes = [
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_char_p,
        ]
        self.library.musahost_unregister.argtypes = [ctypes.c_void_p]
        self.library.musahost_free.argtypes = [ctypes.c_void_p]
        self.drivers: dict[tuple[str, bool], ctypes.CDLL] = {}

    def driver(self, name: str, checked: bool) -> ctypes.CDLL:
        if (name, checked) not in self.drivers:
            output = self.folder / f"{name}_{'checked' if checked else 'fast'}.so"
            flags = CHECKED if checked else FAST
            link = ["-Wall", "-Wextra", f"-L{self.folder}", "-lmusahost", "-Wl,-z,defs"]
            if checked:
                # -fsanitize=thread is given to the compiler alone: nobody links libtsan.
                objects = output.with_suffix(".o")
                command = ["g++", "-std=c++20", "-fPIC", *flags, f"-I{HOST / 'include'}", "-c"]
                subprocess.run(
                    [*command, str(HERE / f"{name}.cpp"), "-o", str(objects)], check=True
                )
                compile_shared(output, [objects], *link)
            else:
                compile_shared(output, [HERE / f"{name}.cpp"], *flags, *link)
            self.drivers[name, checked] = ctypes.CDLL(str(output), mode=OWN_FIRST)
        return self.drivers[name, checked]

    def configure(
        self,
        order: int = 0,
        seed: int = 1,
        threads: int = 0,
        checked: bool = False,
        warp_size: int = 32,
    ) -> None:
        self.library.musahost_configure(order, seed, threads, int(checked), warp_size)

    def report(self) -> dict:
        return json.loads(self.library.musahost_take_report())


class Kernels:
    """A driver's functions, with numpy arrays as registered tensors."""

    def __init__(self, runtime: Runtime, name: str, mode: tuple[int, int, bool]) -> None:
        order, self.warp_size, self.checked = mode
        self.runtime = runtime
        self.library = runtime.driver(name, self.checked)
        runtime.configure(order, 7, 0, self.checked, self.warp_size)
        self.kept: list[NDArray] = []

    def tensor(self, array: NDArray, name: str = "t") -> ctypes.c_void_p:
        label = f"tensor '{name}' ({array.dtype}{list(array.shape)})"
        self.runtime.library.musahost_register(array.ctypes.data, array.nbytes, label.encode())
        self.kept.append(array)
        return ctypes.c_void_p(array.ctypes.data)

    def __call__(self, name: str, *arguments) -> int:
        given = [self.tensor(a) if isinstance(a, np.ndarray) else a for a in arguments]
        try:
            return getattr(self.library, name)(*given)
        finally:
            for array in self.kept:
                self.runtime.library.musahost_unregister(array.ctypes.data)
            self.kept.clear()


@pytest.fixture(scope="session")
def session_runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    return Runtime(tmp_path_factory.mktemp("musahost"))


@pytest.fixture
def runtime(session_runtime: Runtime) -> Runtime:
    session_runtime.configure()
    return session_runtime


@pytest.fixture
def kernels_of(runtime: Runtime) -> Callable[[str, tuple[int, int, bool]], Kernels]:
    return lambda name, mode: Kernels(runtime, name, mode)


Line = Callable[[dict], int]


@pytest.fixture
def line_of() -> Line:
    """Source line of a finding: its own, or addr2line's for the module and offset."""

    def find(finding: dict) -> int:
        if finding["line"]:
            return finding["line"]
        done = subprocess.run(
            ["addr2line", "-i", "-e", finding["module"], finding["offset"]],
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stdout.split()[0].rsplit(":", 1)[1].split()[0])

    return find
