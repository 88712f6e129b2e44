"""Builds a candidate's sources for a real GPU, or finds the build in the cache."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

from musaagent.tools.cuda import commands
from musaagent.tools.cuda.commands import Places
from musaagent.tools.cuda.instructions import with_instructions
from musaagent.tools.cuda.job import CudaJob, Tools
from musaagent.tools.cuda.rtc_program import own_headers, rtc_program
from musaagent.tools.cuda.split import CUBIN_NAME, PRELUDE, PRELUDE_TEXT, host_flags
from musaagent.tools.cuda.toolchain import CudaToolkit, find_toolkit, torch_headers
from musaagent.tools.cuda.units import CudaLevel
from musaagent.tools.host.builds import StoredBuilds
from musaagent.tools.host.cache import BuildCache, default_cache_dir, hash_files, key_of
from musaagent.tools.host.job import Runner, default_runner
from musaagent.tools.host.parts import SharedParts, run_trusted
from musaagent.tools.host.sources import SourceSet, is_musa, pieces
from musaagent.tools.host.toolchain import find_cxx
from musaagent.tools.results import Build, Diagnostic

HERE = Path(__file__).parent
HOST = HERE.parent / "host"
_PART_TIMEOUT_S = 600.0
ALL_LEVELS: tuple[CudaLevel, ...] = ("split", "thin", "light", "full")


class Builder(Protocol):
    """What a target needs of the builder for its cards."""

    arch: str

    @property
    def cache_dir(self) -> Path: ...

    def runtime_library(self) -> Path:
        """What workers load of ours; built once."""
        ...

    def build(self, sources: SourceSet, *, timeout_s: float) -> Build: ...

    def with_instructions(self, build: Build) -> Build:
        """The build with what its kernels compute in, as far as that can be read."""
        ...


class CudaBuilder:
    """Thread-safe; several processes may share one cache folder."""

    def __init__(
        self, arch: str, cache_dir: Path | None = None, run_command: Runner | None = None
    ) -> None:
        self.arch = arch
        self.cache = BuildCache(cache_dir or default_cache_dir() / "cuda")
        self._builds = StoredBuilds(self.cache, (commands.MODULE_NAME, CUBIN_NAME))
        self._run_command = run_command

    @property
    def cache_dir(self) -> Path:
        return self.cache.root

    def runtime_library(self) -> Path:
        """libmusacuda.so, built once for each state of its sources."""
        return self.tools.places.runtime / commands.RUNTIME_NAME

    def build(
        self,
        sources: SourceSet,
        *,
        timeout_s: float,
        levels: Sequence[CudaLevel] = ALL_LEVELS,
    ) -> Build:
        """Compile one source set at the first of `levels` that works.

        Failures are kept in the cache too, unless time ran out. Raises ToolchainMissing,
        SandboxLost, or InfraError where a part of our own does not build.
        """
        start = time.monotonic()
        if is_musa(pieces(sources)):
            return _refused("MUSA sources: nvcc cannot compile them; use --target musa or host")
        key = self._key(sources, levels)

        def make(folder: Path) -> tuple[Build, bool]:
            runner = self._run_command or default_runner()
            return CudaJob(self.tools, sources, runner, folder).run(timeout_s, levels)

        build = self._builds.get(key, make)
        return build.model_copy(update={"seconds": time.monotonic() - start})

    def with_instructions(self, build: Build) -> Build:
        return with_instructions(build, self.cache, self._run_command or default_runner())

    @cached_property
    def tools(self) -> Tools:
        """Compilers and our own parts. Raises ToolchainMissing, InfraError."""
        toolkit, compiler, torch = find_toolkit(), find_cxx(), torch_headers()
        headers = SharedParts(self.cache).headers / "include_torch"
        places = Places(
            thin_headers=headers,
            light_headers=own_headers(self.cache, "include_light"),
            runtime=self._runtime(headers),
            torch=torch,
            split_headers=own_headers(self.cache, "include_split"),
        )
        root = toolkit.nvcc.resolve().parent.parent
        places = replace(
            places,
            precompiled=self._precompiled(places, toolkit),
            rtc=rtc_program(self.cache, root, headers),
            launches=self._launches(toolkit),
        )
        return Tools(toolkit, compiler, places, self.arch, (self.cache.root,))

    def _precompiled(self, places: Places, toolkit: CudaToolkit) -> Path:
        compiler = find_cxx()
        flags = host_flags(places, toolkit)
        line = [compiler.path, *flags, "-x", "c++-header", PRELUDE, "-o", f"{PRELUDE}.gch"]

        def fill(folder: Path) -> None:
            (folder / PRELUDE).write_text(PRELUDE_TEXT, encoding="utf-8")
            run_trusted(line, folder)

        return self.cache.once("precompiled", key_of(line, PRELUDE_TEXT, compiler.identity), fill)

    def _launches(self, toolkit: CudaToolkit) -> Path:
        compiler, source = find_cxx(), HERE / "runtime" / "launches.cpp"
        line = commands.launches_command(compiler, toolkit, source)
        key = key_of(line, hash_files([source], HERE), compiler.identity, toolkit.identity)
        return self.cache.once("launches", key, lambda folder: run_trusted(line, folder))

    def _runtime(self, headers: Path) -> Path:
        compiler = find_cxx()
        thin = [HOST / "runtime" / "thin_torch.cpp", *(HOST / "runtime" / "thin").iterdir()]
        own = HERE / "runtime" / "device.cpp"
        key = key_of(hash_files(thin, HOST), hash_files([own], HERE), headers.parent.name)
        line = commands.runtime_command(compiler, headers, [thin[0], own])
        return self.cache.once("runtime", key, lambda folder: run_trusted(line, folder))

    @cached_property
    def _own_code(self) -> str:
        ours = (
            *("units.py", "commands.py", "job.py", "split.py", "builder.py", "toolchain.py"),
            *("linkage.py", "rtc.py", "holding.py"),
        )
        host = ("sources.py", "lexer.py", "scopes.py", "rewrite.py", "diagnostics.py")
        files = [*(HERE / name for name in ours), *(HOST / name for name in host)]
        return hash_files(files, HERE.parent)

    def _key(self, sources: SourceSet, levels: Sequence[CudaLevel]) -> str:
        tools = self.tools
        return key_of(
            sources.model_dump(mode="json"),
            list(levels),
            self.arch,
            tools.toolkit.identity,
            list(map(str, tools.toolkit.libraries_include)),
            tools.compiler.identity,
            tools.places.torch.version,
            tools.places.thin_headers.parent.name,
            tools.places.light_headers.name,
            tools.places.runtime.name,
            tools.places.precompiled and tools.places.precompiled.name,
            tools.places.rtc and tools.places.rtc.identity,
            tools.places.launches and tools.places.launches.name,
            self._own_code,
        )


def _refused(message: str) -> Build:
    diagnostic = Diagnostic(tool="nvcc", severity="error", message=message)
    return Build(ok=False, diagnostics=(diagnostic,), log_tail=message)
