"""Timing at a task's own sizes: shared input sets, and outputs that are looked at in places.

The driver is a stand-in over files without a name, and the card is the CPU (on_cpu.py).
"""

import os
import random
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda import card_memory, timing
from musaagent.tools.cuda.devices import Gpu, GpuInfo
from musaagent.tools.cuda.reference import GpuReference, opened
from musaagent.tools.cuda.session import CudaSession
from musaagent.tools.cuda.timing import take_timing
from musaagent.tools.cuda.timing_sets import TooLarge
from musaagent.tools.jail import JailSpec, Kind
from musaagent.tools.judge import Judgement
from musaagent.tools.process_tree import children
from musaagent.tools.results import Build, MismatchKind, Timing
from musaagent.tools.sandbox import available_kinds, why_not
from musaagent.tools.session import CandidateFailure, RunnerSettings
from musaagent.tools.steps import construct_again
from musaagent.tools.task import check_task
from musaagent.tools.tolerance import ToleranceRule
from musaagent.tools.wire import WireError
from musaagent.tools.zygote import Child, Zygote

HERE = Path(__file__).parent
HEADERS = [
    Path(f, "include") for f in ("/usr/local/cuda", *map(str, Path("/usr/local").glob("cuda-*")))
]
INFO = GpuInfo(0, "GPU-test", "a card", "sm_90", 1024, "1")
OP = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x) + y.t()[:1]


def get_inputs():
    return [torch.randn(1500, 2000), torch.randn(7, 2000).t()]
"""
RIGHT = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        assert y.stride() == (1, 2000)
        return OUTPUT


def unused():
    pass
"""
ROUNDS = 3
NOT_HERE = "; ".join(2 * ["CardMemoryError: not in this process"])
PLAIN = "torch.relu(x) + y.t()[:1]"


@pytest.fixture(scope="module")
def include() -> Path:
    wheels = [Path(f) for f in _wheel_headers()]
    found = next((f for f in (*HEADERS, *wheels) if (f / "cuda.h").exists()), None)
    if found is None:
        pytest.skip("NVIDIA's cuda.h is not here")
    return found


def _wheel_headers() -> Iterator[str]:
    import torch

    site = Path(torch.__file__).parents[1]
    yield from map(str, site.glob("nvidia/cu*/include"))
    yield from map(str, site.glob("triton/backends/nvidia/include"))


@pytest.fixture(scope="module")
def driver(include: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    folder.chmod(0o755)
    path = folder / "libcuda.so"
    source = HERE / "standin" / "libcuda.cpp"
    command = ["g++", "-shared", "-fPIC", "-O1", f"-I{include}", str(source), "-o", str(path)]
    subprocess.run(command, check=True, timeout=120)
    return path


@pytest.fixture(scope="module")
def zygote(driver: Path) -> Iterator[Zygote]:
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(str(HERE))
    preload = ("torch", "musaagent.tools.cuda.worker", "musaagent.tools.cuda.worker_reference")
    with Zygote(preload=preload, env={"STANDIN_LIBCUDA": str(driver)}) as server:
        server.start()
        yield server
    patch.undo()


@pytest.fixture(params=(Kind.NAMESPACES, Kind.LANDLOCK, Kind.RLIMITS))
def kind(request: pytest.FixtureRequest) -> Kind:
    wanted: Kind = request.param
    if wanted not in available_kinds():
        pytest.skip(str(why_not(wanted)))
    return wanted


@pytest.fixture(autouse=True)
def _own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSAAGENT_CACHE", str(tmp_path))
    monkeypatch.setattr(timing, "_ROUNDS", ROUNDS)
    monkeypatch.setattr(timing, "_ROUND_MS", 1.0)


# ---- files through the channel


def spawned(zygote: Zygote, driver: Path, entry: str, kind: Kind | None = None) -> Child:
    spec = JailSpec(
        kind=kind,
        memory_mb=4096,
        address_space=False,
        max_processes=64,
        read_only=(str(HERE), str(driver.parent)),
    )
    return zygote.spawn(f"on_cpu:{entry}", spec, name=entry)


def regions(child: Child) -> int:
    """Mappings of the stand-in's memory in a worker's processes."""
    pids, count = [child.pid], 0
    while pids:
        pid = pids.pop()
        pids += children(pid)
        count += Path(f"/proc/{pid}/maps").read_text().count("memfd:card")
    return count


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_file_goes_into_every_jail_and_back(zygote: Zygote, driver: Path, kind: Kind) -> None:
    with spawned(zygote, driver, "pass_back", kind) as worker:
        file = os.memfd_create("passed")
        worker.channel.send({"descriptors": 1})
        worker.channel.send_descriptors([file])
        assert worker.channel.recv(60)[0] == {"descriptors": 1}
        (back,) = worker.channel.recv_descriptors(1, 20)
        assert os.pread(file, 100, 0) == b"written in the jail"
        assert os.path.samestat(os.fstat(file), os.fstat(back))
        os.close(back)
        os.close(file)


def test_more_files_than_announced_are_closed(zygote: Zygote, driver: Path) -> None:
    with spawned(zygote, driver, "pass_too_many") as worker:
        worker.channel.recv(60)
        before = open_files()
        with pytest.raises(WireError, match="3 files came where 1 were announced"):
            worker.channel.recv_descriptors(1, 20)
        assert open_files() == before
        with pytest.raises(WireError, match="3 files"):
            worker.channel.recv(1)


# ---- the driver's memory


def test_structs_are_laid_out_as_in_cuda_h(include: Path, tmp_path: Path) -> None:
    program = tmp_path / "layouts"
    source = HERE / "standin" / "layouts.c"
    command = ["gcc", f"-I{include}", str(source), "-o", str(program)]
    subprocess.run(command, check=True, timeout=60)
    done = subprocess.run([program], capture_output=True, text=True, check=True, timeout=10)
    told = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    import ctypes

    structs = {
        "CUmemLocation": card_memory.Location,
        "CUmemAllocationProp": card_memory.AllocationProp,
        "CUmemAccessDesc": card_memory.AccessDesc,
    }
    numbers = {
        "pinned": card_memory._PINNED,
        "device": card_memory._DEVICE,
        "file": card_memory._POSIX_FILE,
        "read_write": card_memory._READ_WRITE,
        "minimum": card_memory._MINIMUM_GRANULARITY,
        "CUmemGenericAllocationHandle": ctypes.sizeof(card_memory._U64),
        "CUdeviceptr": ctypes.sizeof(card_memory._U64),
    }
    flags = card_memory.AllocationProp.allocFlags.offset
    own: dict[str, int] = {}
    for name in told:
        struct, _, field = name.partition(".")
        if name in numbers:
            own[name] = numbers[name]
        elif field.startswith("allocFlags."):
            own[name] = flags + getattr(card_memory.AllocFlags, field.partition(".")[2]).offset
        elif field:
            own[name] = getattr(structs[struct], field).offset
        else:
            own[name] = ctypes.sizeof(structs[struct])
    assert {name: int(value) for name, value in told.items()} == own
    assert len(own) == 21


def test_a_region_is_one_memory_in_two_mappings(
    driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ctypes

    monkeypatch.setattr(card_memory, "LIBRARY", str(driver))
    before = open_files()
    with card_memory.CardRegion.allocate(3 << 20) as given:
        assert given.size == 4 << 20
        file = given.export()
        with card_memory.CardRegion.imported(file, given.size) as taken:
            assert taken.address != given.address
            ctypes.memmove(given.address + 5, b"both", 4)
            assert ctypes.string_at(taken.address + 5, 4) == b"both"
        with pytest.raises(card_memory.CardMemoryError, match="cuMemMap failed with CUresult 1"):
            card_memory.CardRegion.imported(file, given.size + (2 << 20))
        os.close(file)
    assert open_files() == before


def test_no_driver_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card_memory, "LIBRARY", "libno-such-driver.so.1")
    with pytest.raises(card_memory.CardMemoryError, match=r"libno-such-driver\.so\.1"):
        card_memory.CardRegion.allocate(1)


# ---- a whole timing, over the CPU


@dataclass
class Bench:
    """Both processes for one candidate."""

    zygote: Zygote
    driver: Path
    mapped: dict[str, int] = field(default_factory=dict)
    """Shared regions in each process when times had been taken."""

    def timed(
        self,
        output: str,
        *,
        op: str = OP,
        entry: str = "candidate",
        ways: Sequence[str] = timing.WAYS,
        kind: Kind | None = None,
    ) -> tuple[Timing, Judgement | None]:
        gpu, task = Gpu(INFO), check_task(Path("op.py"), op)
        child = spawned(self.zygote, self.driver, "reference", kind)
        reference = opened(GpuReference(child, task, gpu), "own", {})
        assert isinstance(reference, GpuReference)
        session = self._session(entry, gpu, kind)
        draw = random.Random(seed := random.SystemRandom().getrandbits(32))
        print(f"seed {seed}")
        try:
            source = Candidate(source=RIGHT.replace("OUTPUT", output))
            construct_again(session, reference, source, 1)
            phases: dict[str, float] = {}
            found = take_timing(
                session,
                reference,
                gpu,
                None,
                draw,
                ToleranceRule(None, None),
                ("eager",),
                ways=ways,
                phases=phases,
            )
            assert set(phases) == {"timing inputs", "baselines", "clock", "judge"}
            self.mapped = {"candidate": regions(session.child), "reference": regions(child)}
            return found
        finally:
            session.close()
            reference.close()

    def _session(self, entry: str, gpu: Gpu, kind: Kind | None) -> CudaSession:
        gpu.enter()
        settings = RunnerSettings("", checked=False, warp_size=32, timeout_s=60.0)
        child = spawned(self.zygote, self.driver, entry, kind)
        return CudaSession(child, settings, lambda sources: Build(ok=True), gpu)


@pytest.fixture
def bench(zygote: Zygote, driver: Path) -> Bench:
    return Bench(zygote, driver)


@pytest.fixture
def in_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs of over 1 MB are looked at in places."""
    monkeypatch.setattr(timing, "MOST_SENT_BYTES", 1 << 20)


def test_inputs_are_shared_in_every_jail(bench: Bench, kind: Kind) -> None:
    found, judged = bench.timed(PLAIN, kind=kind)
    assert "shared memory" not in found.missing
    assert judged is not None
    assert judged.ok, judged.message
    assert found.judged == "all values, against float64"
    assert found.shapes == ("float32[1500, 2000]", "float32[2000, 7]")
    assert found.candidate.count >= ROUNDS
    assert found.baselines["eager"].count >= ROUNDS
    assert bench.mapped == {"candidate": 3, "reference": 0}


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"ways": ()}, "not asked for"),
        ({"ways": ("host",)}, ""),
        ({"entry": "maps_no_card"}, "in host memory: CardMemoryError: not the card's"),
        ({"entry": "cannot_map"}, NOT_HERE),
    ],
)
def test_inputs_are_sent_where_they_cannot_be_shared(
    bench: Bench, how: dict[str, Any], why: str
) -> None:
    found, judged = bench.timed(PLAIN, **how)
    assert found.missing.get("shared memory", "") == why
    assert judged is not None
    assert judged.ok, judged.message


def test_too_large_to_be_sent_says_why(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("musaagent.tools.cuda.reference.MOST_SENT_BYTES", 1 << 20)
    with pytest.raises(TooLarge, match="not shared: CardMemoryError: not in this process"):
        bench.timed(PLAIN, entry="cannot_map")


@pytest.mark.usefixtures("in_places")
def test_a_right_output_is_judged_in_places(bench: Bench) -> None:
    found, judged = bench.timed(PLAIN)
    assert judged is not None
    assert judged.ok, judged.message
    looked, _, whole = found.judged.removesuffix(" values, against float64").partition(" of ")
    assert whole == "3000000"
    assert 1_400_000 < int(looked) < 2_200_000


@pytest.mark.usefixtures("in_places")
@pytest.mark.parametrize(
    ("output", "kind_", "words"),
    [
        ("torch.relu(x) + y.t()[:1] * 1.01", MismatchKind.NUMERIC, "of 3000000 values were looked at"),
        (f"torch.where(torch.arange(2000) == 1999, 0.0, {PLAIN})", MismatchKind.NUMERIC, "wrong"),
        (f"({PLAIN}).t()", MismatchKind.SHAPE, r"shape \[2000, 1500\], expected \[1500, 2000\]"),
        (f"({PLAIN}).double()", MismatchKind.DTYPE, "dtype float64, expected float32"),
        (f"({PLAIN}, x)", MismatchKind.SHAPE, "2 outputs, the reference returns 1"),
        (f"({PLAIN}) / (torch.arange(1500)[:, None] < 1400)", MismatchKind.NONFINITE, r"first at \[1400, "),
    ],
)  # fmt: skip
def test_wrong_outputs_are_wrong_in_places_too(
    bench: Bench, output: str, kind_: MismatchKind, words: str
) -> None:
    import re

    _, judged = bench.timed(output)
    assert judged is not None
    assert judged.kind is kind_
    assert re.search(words, judged.message), judged.message


@pytest.mark.usefixtures("in_places")
def test_errors_are_placed_in_the_whole_output(bench: Bench) -> None:
    _, judged = bench.timed(f"torch.where(torch.arange(1500)[:, None] == 1499, 9.0, {PLAIN})")
    assert judged is not None
    samples = judged.errors[0].samples
    assert samples
    assert all(s.index[0] == 1499 and s.index[1] < 2000 and s.got == 9.0 for s in samples)


LIES = """torch.relu(x) + y.t()[:1]


from musaagent.tools.cuda import worker


def lie(self, blobs):
    return LIE


worker.CudaWorker.sample = lie


def unused():
    return 0"""


@pytest.mark.usefixtures("in_places")
@pytest.mark.parametrize(
    "lie",
    [
        '{"ok": True, "tensors": []}, []',
        '{"ok": True}, []',
        '{"ok": True, "tensors": [{"dtype": "float32", "shape": [4], "stride": [1]}]}, [b"0" * 16]',
        '{"ok": True, "tensors": [3]}, [b"0" * 16]',
    ],
)
def test_a_worker_that_shows_something_else_has_failed(bench: Bench, lie: str) -> None:
    with pytest.raises(CandidateFailure, match="other values than it was asked for"):
        bench.timed(LIES.replace("LIE", lie))
