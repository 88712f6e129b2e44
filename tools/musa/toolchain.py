"""Where the MUSA SDK and torch_musa are on this machine, without importing torch."""

import functools
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from musaagent.errors import ToolchainMissing

DEFAULT_HOME = Path("/usr/local/musa")
REMEDY = (
    "install the MUSA SDK and put its bin/ on the PATH, set $MUSA_HOME, or use an image such as "
    "registry.mthreads.com/mcconline/musa_sdk:5.2.0-devel-ubuntu22.04-s5000"
)
_VERSION = re.compile(r"(?:mcc|clang)? ?version:? \"?(\d+\.\d+(?:\.\d+)?)", re.I)
_STAND_IN = "stand-in"


@dataclass(frozen=True)
class MusaToolkit:
    """mcc and the folders that belong to it."""

    mcc: Path
    home: Path
    version: str
    banner: str = ""
    """First line of `mcc --version`."""

    @property
    def include(self) -> Path:
        return self.home / "include"

    @property
    def libraries(self) -> Path:
        """`lib64` where there is one, as torch_musa's loader chooses."""
        return self.home / ("lib64" if (self.home / "lib64").is_dir() else "lib")

    @property
    def identity(self) -> str:
        return f"mcc {self.version} {self.mcc}"

    @property
    def is_stand_in(self) -> bool:
        """Not Moore Threads' compiler, but one that says so of itself."""
        return _STAND_IN in self.banner


@dataclass(frozen=True)
class TorchMusa:
    """The installed torch_musa."""

    root: Path
    version: str

    @property
    def include(self) -> tuple[Path, ...]:
        """In the order of torch_musa's own loader; folders that are not there are left out."""
        share = self.root / "share"
        made = share / "generated_cuda_compatible"
        folders = (
            made / "aten" / "src",
            made / "include",
            made / "include" / "torch" / "csrc" / "api" / "include",
            share / "torch_musa_codegen",
            self.root.parent,
        )
        return tuple(folder for folder in folders if folder.is_dir())

    @property
    def libraries(self) -> Path:
        return self.root / "lib"


def find_toolkit() -> MusaToolkit:
    """$MUSA_HOME or $MUSA_PATH, mcc on the PATH, then /usr/local/musa. Raises ToolchainMissing.

    $PYTORCH_MCC names another program to call as mcc, ccache in front of it say.
    """
    tried = []
    for mcc in _places():
        tried.append(str(mcc))
        if os.access(mcc, os.X_OK):
            override = os.environ.get("PYTORCH_MCC", "")
            path = Path(shutil.which(override) or mcc) if override else mcc
            return _toolkit(path, mcc.resolve().parent.parent)
    raise ToolchainMissing(f"no mcc ({', '.join(tried)}): {REMEDY}")


def _places() -> list[Path]:
    homes = [Path(os.environ[n]) for n in ("MUSA_HOME", "MUSA_PATH") if os.environ.get(n)]
    places = [home / "bin" / "mcc" for home in homes]
    if found := shutil.which("mcc"):
        places.append(Path(found))
    return [*places, DEFAULT_HOME / "bin" / "mcc"]


@functools.cache
def _toolkit(mcc: Path, home: Path) -> MusaToolkit:
    banner = _output([str(mcc), "--version"])
    return MusaToolkit(mcc, home, mcc_version(banner), (banner.splitlines() or [""])[0])


def mcc_version(banner: str) -> str:
    """`5.2.0`, of mcc's own banner or of musa_version_query's text; empty where there is none."""
    block = re.search(r"\bmcc:?\s*\{[^}]*?\"version\":\s*\"([\d.]+)\"", banner)
    if block:
        return block[1]
    match = _VERSION.search(banner)
    return match[1] if match else ""


@functools.cache
def find_torch_musa() -> TorchMusa | None:
    """None where it is not installed."""
    spec = importlib.util.find_spec("torch_musa")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        try:
            version = importlib.metadata.version("torch_musa")
        except importlib.metadata.PackageNotFoundError:
            version = ""
        return TorchMusa(Path(folder), version)
    return None


def _output(command: list[str]) -> str:
    # CC makes torch_musa's loader pass -ccbin, which mcc does not know; ours never reads it.
    env = {k: v for k, v in os.environ.items() if k != "CC"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=env)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr if done.returncode == 0 else ""
