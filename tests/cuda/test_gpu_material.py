"""The candidates that are run on a GPU by `tests/gpu/run.py`, as far as they can be seen without one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from musaagent.tools.candidate import Candidate, parse_problem
from musaagent.tools.cuda.target import CudaTarget
from musaagent.tools.host.toolchain import find_nvcc
from musaagent.tools.results import Status
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import Task, check_task

GPU = Path(__file__).resolve().parent.parent / "gpu"
MARK = "# === candidate ==="
CRASHES = sorted((GPU / "crashes").glob("*.py"))
TIMING = sorted((GPU / "timing").glob("*.py"))
WORDS = {status.value for status in Status}


def read(path: Path) -> tuple[Task, Candidate]:
    op, _, answer = path.read_text().partition(MARK)
    return check_task(path, op), Candidate(source=answer)


@pytest.fixture(scope="module")
def target() -> Iterator[CudaTarget]:
    with CudaTarget() as opened:
        yield opened


def test_there_are_twelve_kinds_of_crash() -> None:
    assert len(CRASHES) == 12


@pytest.mark.parametrize("path", [*CRASHES, *TIMING], ids=lambda path: path.stem)
def test_they_can_be_read_and_say_what_they_are(path: Path) -> None:
    task, candidate = read(path)
    assert task.source
    assert parse_problem(candidate.source) is None
    head = path.read_text().splitlines()[0]
    kind, _, rest = head.partition(": ")
    assert kind == ("# crash" if path in CRASHES else "# timing")
    wanted, _, text = rest.partition(" - ")
    assert set(wanted.split(" or ")) <= WORDS
    assert text


@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc here")
@pytest.mark.parametrize("name", ["crashes/stack_overflow"])
def test_they_compile_at_the_fastest_level(target: CudaTarget, name: str) -> None:
    build = target.build(*read(GPU / f"{name}.py"), VerifyOptions())
    assert build.ok, build.log_tail
    assert build.level == "split"


@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc here")
def test_a_compile_without_an_end_is_stopped(target: CudaTarget) -> None:
    task, candidate = read(GPU / "crashes" / "endless_compile.py")
    build = target.build(task, candidate, VerifyOptions(build_timeout_s=2.0))
    assert not build.ok
    assert "ran for 2 s without an end" in build.diagnostics[0].message
    assert build.seconds < 30
