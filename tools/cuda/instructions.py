"""The instructions of a finished build's kernels: read once, kept in the cache beside it."""

import json
from pathlib import Path

from musaagent.tools.cuda.split import CUBIN_NAME
from musaagent.tools.host.cache import BuildCache, key_of
from musaagent.tools.host.job import Runner
from musaagent.tools.results import Build
from musaagent.tools.sass import (
    SASS_TEXT,
    Arithmetic,
    Disassembler,
    find_disassembler,
    own_code,
    parse_sass,
    with_arithmetic,
)

_KIND = "sass"
_RECORD = "kernels.json"
_TIMEOUT_S = 60.0
_MEMORY_MB = 4096


def with_instructions(build: Build, cache: BuildCache, runner: Runner) -> Build:
    """The build as it is where nothing can take it apart. Raises SandboxLost without a jail."""
    tool = find_disassembler()
    if tool is None or not build.ok:
        return build
    found: dict[str, Arithmetic] = {}
    for library in build.libraries:
        found |= _read(_device_file(Path(library), tool), tool, cache, runner)
    return build.model_copy(update={"resources": with_arithmetic(build.resources, found)})


def _device_file(library: Path, tool: Disassembler) -> Path | None:
    """At level split kernels lie beside the library, at the others in it."""
    cubin = library.parent / CUBIN_NAME
    if cubin.exists():
        return cubin
    return library if tool.reads_libraries else None


def _read(
    file: Path | None, tool: Disassembler, cache: BuildCache, runner: Runner
) -> dict[str, Arithmetic]:
    if file is None:
        return {}

    def fill(folder: Path) -> None:
        runner(
            ["sh", "-c", tool.command(str(file))],
            timeout_s=_TIMEOUT_S,
            memory_mb=_MEMORY_MB,
            writable=folder,
            read_only=[file.parent, tool.program.parent, tool.folder],
            env={"LC_ALL": "C", "TMPDIR": str(folder)},
        )
        path = folder / SASS_TEXT
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        path.unlink(missing_ok=True)
        (folder / _RECORD).write_text(json.dumps(parse_sass(text)), encoding="utf-8")

    # The folder's name is the build's own key.
    entry = cache.once(_KIND, key_of(str(file), tool.identity, own_code()), fill)
    kept = json.loads((entry / _RECORD).read_text(encoding="utf-8"))
    return {
        name: {kind: tuple(names) for kind, names in kinds.items()} for name, kinds in kept.items()
    }
