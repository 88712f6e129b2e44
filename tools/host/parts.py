"""What all host builds share, built once and cached: headers, runtime, precompiled header."""

import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

from musaagent.errors import InfraError
from musaagent.tools.host import commands
from musaagent.tools.host.cache import BuildCache, hash_files, key_of
from musaagent.tools.host.commands import Mode
from musaagent.tools.host.toolchain import Compiler, find_cxx

HERE = Path(__file__).parent
_HEADER_FOLDERS = ("include", "include_torch", "include_full")
_TIMEOUT_S = 600.0

log = logging.getLogger(__name__)
Progress = Callable[[str], None]


class SharedParts:
    """Our own trusted sources, compiled outside any jail. Raises ToolchainMissing, InfraError."""

    def __init__(self, cache: BuildCache) -> None:
        self.cache = cache

    @cached_property
    def compiler(self) -> Compiler:
        return find_cxx()

    @cached_property
    def headers(self) -> Path:
        """A frozen copy of our headers: what is being edited or moved cannot mix into a build."""
        files = [p for name in _HEADER_FOLDERS for p in (HERE / name).rglob("*") if p.is_file()]
        key = hash_files(files, HERE)

        def copy(folder: Path) -> None:
            for path in files:
                target = folder / path.relative_to(HERE)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)

        return self.cache.once("headers", key, copy)

    @cached_property
    def runtime(self) -> Path:
        """The folder of libmusahost.so."""
        files = sorted(p for p in (HERE / "runtime").rglob("*") if p.is_file())
        key = key_of(hash_files(files, HERE), self.headers.name, self.compiler.identity)
        units = [path for path in files if path.suffix == ".cpp"]
        lines = commands.runtime_commands(self.compiler, self.headers, units)
        return self.cache.once("runtime", key, lambda folder: _compile(lines, folder))

    def precompiled(self, mode: Mode, progress: Progress | None = None) -> Path:
        """The folder of the precompiled header; `progress` hears of it when it must be built."""
        flags = commands.compile_flags(self.compiler, mode)
        key = key_of(self.headers.name, self.compiler.identity, flags, commands.PRECOMPILED_TEXT)
        line = commands.precompile_command(self.compiler, mode, self.headers)

        def compile_header(folder: Path) -> None:
            if progress is not None:
                progress(f"building the precompiled header for {mode} runs (once)")
            text = commands.PRECOMPILED_TEXT
            (folder / commands.PRECOMPILED).write_text(text, encoding="utf-8")
            _compile([line], folder)

        return self.cache.once("precompiled", key, compile_header)


def _compile(lines: Sequence[Sequence[str]], folder: Path) -> None:
    """Run commands in `folder`, all but the last side by side; object files do not stay."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda line: run_trusted(line, folder), lines[:-1]))
    run_trusted(lines[-1], folder)
    for path in folder.glob("*.o"):
        path.unlink()


def run_trusted(line: Sequence[str], folder: Path) -> None:
    """Compile sources of our own, outside any jail. Raises InfraError where they do not."""
    try:
        result = subprocess.run(
            line, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise InfraError(f"{line[0]} was still running after {_TIMEOUT_S:g} s") from None
    if result.returncode != 0:
        first = next((x for x in result.stderr.splitlines() if "error" in x), result.stderr[-500:])
        raise InfraError(f"a part of musaagent does not compile with {line[0]}: {first}")
