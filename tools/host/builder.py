"""Builds a candidate's sources for the host target, or finds the build in the cache."""

import time
from functools import cached_property
from pathlib import Path

from musaagent.tools.host import commands
from musaagent.tools.host.builds import StoredBuilds
from musaagent.tools.host.cache import BuildCache, default_cache_dir, hash_files, key_of
from musaagent.tools.host.commands import Mode
from musaagent.tools.host.job import Job, Runner, default_runner
from musaagent.tools.host.parts import HERE, Progress, SharedParts
from musaagent.tools.host.sources import SourceSet
from musaagent.tools.host.toolchain import find_torch
from musaagent.tools.results import Build


class HostBuilder:
    """Thread-safe; several processes may share one cache folder.

    `run_command` runs the compilers on the candidate's sources: `sandbox.run_jailed` by default.
    """

    def __init__(self, cache_dir: Path | None = None, run_command: Runner | None = None) -> None:
        self.cache = BuildCache(cache_dir or default_cache_dir() / "host")
        self.parts = SharedParts(self.cache)
        self._builds = StoredBuilds(self.cache, (commands.MODULE_NAME,))
        self._run_command = run_command

    @property
    def cache_dir(self) -> Path:
        return self.cache.root

    def runtime_library(self) -> Path:
        """libmusahost.so, built once for each state of its sources."""
        return self.parts.runtime / commands.RUNTIME_NAME

    def prepare(self, mode: Mode, progress: Progress | None = None) -> Path:
        """The folder of the precompiled header for `mode`; builds it where it is not there yet."""
        return self.parts.precompiled(mode, progress)

    def build(self, sources: SourceSet, *, mode: Mode, timeout_s: float) -> Build:
        """Compile one source set. Failures are kept in the cache too, unless time ran out.

        Raises ToolchainMissing without a compiler, SandboxLost without a jail, InfraError where a
        part of our own does not build.
        """
        start = time.monotonic()
        key = self._key(sources, mode)

        def make(folder: Path) -> tuple[Build, bool]:
            runner = self._run_command or default_runner()
            return Job(self.parts, sources, mode, runner, folder).run(timeout_s)

        build = self._builds.get(key, make)
        return build.model_copy(update={"seconds": time.monotonic() - start})

    @cached_property
    def _own_code(self) -> str:
        return hash_files(HERE.glob("*.py"), HERE)

    def _key(self, sources: SourceSet, mode: Mode) -> str:
        torch = find_torch()
        return key_of(
            sources.model_dump(mode="json"),
            mode,
            commands.compile_flags(self.parts.compiler, mode),
            self.parts.compiler.identity,
            self.parts.headers.name,
            self.parts.runtime.name,
            self._own_code,
            torch.version if torch else "",
        )
