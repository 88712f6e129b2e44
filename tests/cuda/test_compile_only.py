"""The cuda target end to end without a GPU: a worker comes up, hands its sources over, nvcc builds."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda.target import CudaTarget
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import check_task

CANDIDATES = Path(__file__).resolve().parent.parent / "candidates"
MARK = "# === candidate ==="

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on the PATH")


@pytest.fixture(scope="module")
def target() -> Iterator[CudaTarget]:
    with CudaTarget() as opened:
        yield opened


def test_a_candidate_is_built_at_the_fastest_level(target: CudaTarget) -> None:
    op, _, answer = (CANDIDATES / "softmax_warp.py").read_text().partition(MARK)
    task = check_task(Path("op.py"), op)
    build = target.build(task, Candidate(source=answer), VerifyOptions())
    assert build.ok, build.log_tail
    assert build.level == "split"
    assert build.resources


@pytest.mark.parametrize("name", ["constant_memory_fir", "leaky_relu_dispatch", "cumsum_warp_scan"])
def test_constants_unnamed_namespaces_and_launch_bounds_are_for_the_fastest_level(
    target: CudaTarget, name: str
) -> None:
    op, _, answer = (CANDIDATES / f"{name}.py").read_text().partition(MARK)
    build = target.build(check_task(Path("op.py"), op), Candidate(source=answer), VerifyOptions())
    assert (build.ok, build.level) == (True, "split"), build.log_tail


def test_what_nvrtc_refuses_is_said_by_nvcc(target: CudaTarget) -> None:
    op, _, answer = (CANDIDATES / "softmax_warp.py").read_text().partition(MARK)
    wrong = answer.replace("fmaxf(v, ", "fmaxff(v, ", 1)
    assert wrong != answer
    build = target.build(check_task(Path("op.py"), op), Candidate(source=wrong), VerifyOptions())
    assert not build.ok
    assert "fmaxff" in build.diagnostics[0].message
    assert build.real_compile.startswith("nvcc")
