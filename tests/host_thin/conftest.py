"""Compiles the test functions once for each mode, as the builder does, and loads them."""

import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from musaagent.tools.host import commands
from musaagent.tools.host.builder import HostBuilder
from musaagent.tools.host.commands import Mode
from musaagent.tools.host.rewrite import rewrite

HERE = Path(__file__).parent
HOST = HERE.parents[1] / "tools" / "host"


def compile_source(source: Path, output: Path, mode: Mode = "fast") -> Path:
    """A library of one rewritten source, against the precompiled header."""
    builder = HostBuilder()
    flags = commands.compile_flags(builder.parts.compiler, mode)
    includes = commands.include_flags(builder.parts.headers, "thin", None)
    unit = output.with_suffix(".cpp")
    text = rewrite(source.read_text(encoding="utf-8"))
    unit.write_text(f'#line 1 "{source.name}"\n{text}', encoding="utf-8")
    precompiled = ["-include", str(builder.prepare(mode) / commands.PRECOMPILED)]
    compiler, made = builder.parts.compiler.path, output.with_suffix(".o")
    compiling = [compiler, *flags, *precompiled, *includes, "-c", str(unit), "-o", str(made)]
    # A link of its own: with -fsanitize=thread it would bring libtsan in.
    linking = [compiler, "-shared", str(made), "-o", str(output), str(builder.runtime_library())]
    for command in (compiling, [*linking, "-Wl,-z,defs"]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-4000:]
    return output


@pytest.fixture(scope="session")
def runtime_library() -> Path:
    return HostBuilder().runtime_library()


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_source(HERE / "functions.cu", tmp_path_factory.mktemp("fast") / "functions.so")


@pytest.fixture(scope="session")
def checked_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("checked") / "functions.so"
    return compile_source(HERE / "functions.cu", output, "check")


@pytest.fixture(scope="session")
def device_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_source(HERE / "device.cu", tmp_path_factory.mktemp("device") / "device.so")


@pytest.fixture(scope="session")
def functions(library: Path, runtime_library: Path) -> ModuleType:
    from musaagent.tools.host import bridge

    bridge.load_runtime(runtime_library)
    bridge.configure(threads=1)
    return bridge.load_library(library)


@pytest.fixture
def no_leak(functions: ModuleType) -> Iterator[None]:
    """Fails the test if C++ still holds a tensor when it ends."""
    from musaagent.tools.host import bridge

    gc.collect()
    before = bridge.runtime().held_count
    yield
    gc.collect()
    assert bridge.runtime().held_count == before


@pytest.fixture(scope="session")
def zygote() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(HERE / "zygote.py")]
    with subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def in_child(zygote: subprocess.Popen[str]) -> Callable[..., None]:
    """Runs `function(*arguments)` of a file here in a fresh process, for what changes torch."""

    def run(file: str, function: str, *arguments: Path) -> None:
        request: dict[str, object] = {"file": str(HERE / file), "function": function}
        request["arguments"] = [str(a) for a in arguments]
        assert zygote.stdin is not None
        assert zygote.stdout is not None
        zygote.stdin.write(json.dumps(request) + "\n")
        zygote.stdin.flush()
        text = json.loads(zygote.stdout.readline())
        assert not text, text

    return run
