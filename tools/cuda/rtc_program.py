"""Our small program around NVRTC, compiled once for a machine, and the headers that go with it."""

import shutil
from pathlib import Path

from musaagent.tools.cuda.rtc import RTC_NAME, Rtc, find_nvrtc
from musaagent.tools.host.cache import BuildCache, hash_files, key_of
from musaagent.tools.host.parts import run_trusted
from musaagent.tools.host.toolchain import find_cxx

HERE = Path(__file__).parent


def rtc_program(cache: BuildCache, toolkit: Path | None, thin_headers: Path) -> Rtc | None:
    """None where there is no NVRTC, neither in the folder `toolkit` nor in torch's wheels.

    Raises ToolchainMissing without a C++ compiler, InfraError where the program does not build.
    """
    library = find_nvrtc(toolkit)
    if library is None:
        return None
    source, compiler = HERE / "runtime" / "rtc.cpp", find_cxx()
    line = [compiler.path, "-std=c++17", "-O1", str(source), "-o", RTC_NAME, "-ldl"]
    key = key_of(hash_files([source], HERE), compiler.identity)
    folder = cache.once("rtc", key, lambda folder: run_trusted(line, folder))
    return Rtc(folder / RTC_NAME, library, own_headers(cache, "include_rtc"), thin_headers)


def own_headers(cache: BuildCache, name: str) -> Path:
    """A frozen copy: what is being edited cannot mix into a build."""
    files = sorted(p for p in (HERE / name).rglob("*") if p.is_file())
    return cache.once(
        name,
        hash_files(files, HERE),
        lambda folder: shutil.copytree(HERE / name, folder, dirs_exist_ok=True),
    )
