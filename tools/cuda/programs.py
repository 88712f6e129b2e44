"""Runs the standalone program under one of NVIDIA's tools, in a jail that has the card in it."""

import contextlib
import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda.devices import Gpu, device_files
from musaagent.tools.cuda.standalone import BLOB, DONE, GO, JOB, READY
from musaagent.tools.host.sources import SourceSet
from musaagent.tools.jail import Kind
from musaagent.tools.reference_session import Sent
from musaagent.tools.results import Build
from musaagent.tools.sandbox import IMPORT_PATH_BOOT, JailedResult, import_path, run_jailed

_MEMORY_MB = 32768
_POLL_S = 0.005
_BOOT = IMPORT_PATH_BOOT + (
    "from pathlib import Path; from musaagent.tools.cuda.standalone import main; "
    "main(Path(sys.argv[1]))"
)


@dataclass(frozen=True)
class Work:
    """All that a run of a candidate needs, outside of any session."""

    candidate: Candidate
    builds: Sequence[tuple[SourceSet, Build]]
    runtime: Path
    construct: Sent
    inputs: Sent
    seed: int


def loadable(builds: Sequence[tuple[SourceSet, Build]]) -> list[dict[str, Any]]:
    """What a process needs to load them, in the order in which they were asked for."""
    return [
        {
            "level": build.level,
            "library": build.libraries[0],
            "module": sources.name,
            "functions": None if sources.functions is None else list(sources.functions),
        }
        for sources, build in builds
    ]


def write_job(
    folder: Path,
    work: Work,
    gpu: Gpu,
    *,
    calls: int,
    poison: bool,
    device: str = "cuda",
    turn: bool = False,
) -> None:
    """The files that `standalone.main` reads. `turn`: it waits for `run_tool(alone=True)`."""
    (folder / "candidate.py").write_text(work.candidate.source, encoding="utf-8")
    job: dict[str, Any] = {
        "device": device,
        "gpu": gpu.info.uuid,
        "runtime": str(work.runtime),
        "seed": work.seed,
        "calls": calls,
        "turn": turn,
        "poison": poison,
        "builds": loadable(work.builds),
    }
    for name, sent in (("construct", work.construct), ("run", work.inputs)):
        for index, blob in enumerate(sent.blobs):
            (folder / BLOB.format(f"{name}-{index}")).write_bytes(blob)
        job[name] = {
            "tree": sent.tree,
            "tensors": sent.metas,
            "state_names": sent.state_names,
            "count": len(sent.blobs),
        }
    (folder / JOB).write_text(json.dumps(job), encoding="utf-8")


def run_tool(
    tool: Sequence[str],
    folder: Path,
    gpu: Gpu,
    kind: Kind,
    read_only: Sequence[Path],
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    *,
    alone: bool = True,
    devices: Sequence[str] = (),
) -> JailedResult:
    """The tool's command line in front of ours; with `alone` nothing else is on the card.

    What takes long is to start the program, and that needs no card: `alone` begins when all is
    loaded (`write_job(turn=True)`).
    `devices`: what the jail needs of /dev, where the card is no NVIDIA card.
    """
    program = [sys.executable, "-I", "-c", _BOOT, import_path(), str(folder)]
    with turn_when_ready(gpu, folder) if alone else gpu.share():
        return run_jailed(
            [*tool, *program],
            timeout_s=timeout_s,
            memory_mb=_MEMORY_MB,
            writable=folder,
            read_only=[*read_only, Path("/sys")],
            env={"HOME": str(folder), "TMPDIR": str(folder), **(env or {})},
            max_processes=512,
            kind=kind,
            devices=tuple(devices) or device_files(),
            # ncu and the program that it watches talk over a socket.
            no_network=False,
        )


@contextlib.contextmanager
def turn_when_ready(gpu: Gpu, folder: Path) -> Iterator[None]:
    """The card's turn from when the program in `folder` asks for it until its last call is done."""
    over = threading.Event()

    def came(name: str) -> bool:
        while not (folder / name).exists():
            if over.wait(_POLL_S):
                return False
        return True

    def hold() -> None:
        if came(READY):
            with gpu.turn():
                (folder / GO).touch()
                came(DONE)

    with gpu.tool_slots:
        holder = threading.Thread(target=hold, name="turn of a tool", daemon=True)
        holder.start()
        try:
            yield
        finally:
            over.set()
            holder.join()
