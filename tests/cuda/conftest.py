"""The cuda target with its processes in jails, over a card that is the CPU."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from musaagent.tools.cuda.builder import Builder, CudaBuilder
from musaagent.tools.cuda.devices import GpuInfo
from musaagent.tools.cuda.target import CudaTarget

HERE = Path(__file__).parent


class NoBuilder(CudaBuilder):
    """Candidates here compile nothing, and no runtime is loaded."""

    def runtime_library(self) -> Path:
        return HERE / "on_cpu.py"


class OnCpu(CudaTarget):
    preload = ("torch", "musaagent.tools.cuda.worker", "musaagent.tools.cuda.worker_reference")
    candidate_entry = "on_cpu:candidate"
    reference_entry = "on_cpu:reference"
    probe_entry = "on_cpu:probe"

    def find_cards(self) -> tuple[GpuInfo, ...]:
        return (GpuInfo(0, "GPU-test", "a card", "sm_90", 4096, "1"),)

    def make_builder(self, cache_dir: Path | None) -> Builder:
        return NoBuilder("sm_90", cache_dir)

    def device_files(self) -> tuple[str, ...]:
        return (str(HERE),)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnCpu]:
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not here")
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(str(HERE))
    with OnCpu() as made:
        yield made
    patch.undo()
