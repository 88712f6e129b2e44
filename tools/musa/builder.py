"""Builds a candidate's sources with mcc, or finds the build in the cache."""

import shutil
import time
from functools import cached_property
from pathlib import Path

from musaagent.tools.host.builds import StoredBuilds
from musaagent.tools.host.cache import BuildCache, default_cache_dir, hash_files, key_of
from musaagent.tools.host.job import Runner, default_runner
from musaagent.tools.host.parts import SharedParts
from musaagent.tools.host.sources import SourceSet
from musaagent.tools.host.toolchain import find_cxx, find_torch
from musaagent.tools.musa.cards import DEFAULT_ARCH
from musaagent.tools.musa.commands import MODULE_NAME, Places
from musaagent.tools.musa.job import MusaJob, Tools
from musaagent.tools.musa.toolchain import find_toolkit, find_torch_musa
from musaagent.tools.port.cxx import port_cxx
from musaagent.tools.port.tables import Tables
from musaagent.tools.results import Build

HERE = Path(__file__).parent
_OWN_CODE = ("host", "musa", "port")
# Of the thin headers, those that speak of the runtime or ask which compiler reads them.
_RUNTIME_HEADERS = ("cuda.h", "half.h", "macros.h", "std.h", "accessor.h", "atomic.h")


class MusaBuilder:
    """Thread-safe; several processes may share one cache folder."""

    def __init__(
        self,
        arch: str = DEFAULT_ARCH,
        cache_dir: Path | None = None,
        run_command: Runner | None = None,
    ) -> None:
        self.arch = arch
        self.cache = BuildCache(cache_dir or default_cache_dir() / "musa")
        self._builds = StoredBuilds(self.cache, (MODULE_NAME,))
        self._run_command = run_command

    @property
    def cache_dir(self) -> Path:
        return self.cache.root

    def runtime_library(self) -> Path:
        """Workers load nothing of ours here; the headers are what is made once."""
        return self.thin_headers

    def build(self, sources: SourceSet, *, timeout_s: float, arch: str = "") -> Build:
        """Compile one source set for `arch` (the builder's own by default).

        Failures are kept in the cache too, unless time ran out. Raises ToolchainMissing,
        SandboxLost, or InfraError where a part of our own does not build.
        """
        start = time.monotonic()
        tools = self.tools_for(arch or self.arch)
        key = self._key(sources, tools)

        def make(folder: Path) -> tuple[Build, bool]:
            runner = self._run_command or default_runner()
            return MusaJob(tools, sources, runner, folder).run(timeout_s)

        build = self._builds.get(key, make)
        return build.model_copy(update={"seconds": time.monotonic() - start})

    def with_instructions(self, build: Build) -> Build:
        """As it is: no tool of theirs is known to us that shows a kernel's instructions."""
        return build

    def tools_for(self, arch: str) -> Tools:
        """Compilers and our own parts. Raises ToolchainMissing, InfraError."""
        places = Places(self.thin_headers, find_torch(), find_torch_musa())
        return Tools(find_toolkit(), find_cxx(), places, arch, (self.cache.root,))

    @cached_property
    def thin_headers(self) -> Path:
        """The thin torch headers in MUSA names, made of those for CUDA by our own `port`."""
        headers = SharedParts(self.cache).headers / "include_torch"
        own = HERE / "include_thin"
        files = [p for p in own.rglob("*") if p.is_file()]
        code = [p for p in (HERE.parent / "port").glob("*.py")]
        key = key_of(headers.parent.name, hash_files(files, own), hash_files(code, HERE.parent))

        def fill(folder: Path) -> None:
            shutil.copytree(headers, folder, dirs_exist_ok=True)
            for name in _RUNTIME_HEADERS:
                path = folder / "musahost_thin" / name
                text = path.read_text(encoding="utf-8")
                path.write_text(port_cxx(text, Tables(), keep_own=False).text, encoding="utf-8")
            shutil.copytree(own, folder, dirs_exist_ok=True)

        return self.cache.once("thin", key, fill)

    @cached_property
    def _own_code(self) -> str:
        root = HERE.parent
        return hash_files([p for n in _OWN_CODE for p in (root / n).glob("*.py")], root)

    def _key(self, sources: SourceSet, tools: Tools) -> str:
        torch, torch_musa = tools.places.torch, tools.places.torch_musa
        return key_of(
            sources.model_dump(mode="json"),
            tools.arch,
            tools.toolkit.identity,
            tools.toolkit.banner,
            tools.compiler.identity,
            torch.version if torch else "",
            f"{torch_musa.root} {torch_musa.version}" if torch_musa else "",
            tools.places.thin_headers.name,
            self._own_code,
        )
