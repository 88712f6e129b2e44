"""The cuda target on a real GPU; `run.sh` beside this measures, these only pass or fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda.devices import find_gpus
from musaagent.tools.cuda.target import CudaTarget
from musaagent.tools.results import Verdict
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import check_task

TESTS = Path(__file__).resolve().parent.parent
MARK = "# === candidate ==="

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not find_gpus(), reason="no NVIDIA GPU on this machine"),
]


@pytest.fixture(scope="module")
def target() -> Iterator[CudaTarget]:
    with CudaTarget() as opened:
        yield opened


def judged(target: CudaTarget, name: str, *, timing: bool = False) -> Verdict:
    op, _, answer = (TESTS / f"{name}.py").read_text().partition(MARK)
    task = check_task(Path("op.py"), op)
    options = VerifyOptions(timing=timing, timeout_s=20.0)
    return target.verify(task, Candidate(source=answer), options)


@pytest.mark.parametrize("name", ["softmax_warp", "matmul_tiled", "layernorm_dynamic_shared"])
def test_right_candidates_pass(target: CudaTarget, name: str) -> None:
    verdict = judged(target, f"candidates/{name}")
    assert verdict.status == "passed", verdict.message
    assert verdict.launches
    assert verdict.build is not None
    assert verdict.build.resources


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("add_tail_never_written", "mismatch"),
        ("matmul_type_error", "compile_error"),
        ("gelu_swallowed_compile_error", "compile_error"),
        ("softmax_calls_torch", "illegal"),
        ("embedding_device_assert", "runtime_error"),
        ("rmsnorm_endless_loop", "timeout"),
        ("rowsum_exits_the_process", "runtime_error"),
    ],
)
def test_faults_get_their_status_and_harm_nobody(
    target: CudaTarget, name: str, status: str
) -> None:
    assert judged(target, f"faults/{name}").status == status
    assert judged(target, "candidates/softmax_warp").status == "passed"


def test_the_share_of_device_time_and_other_sizes_are_told(target: CudaTarget) -> None:
    verdict = judged(target, "candidates/transpose_padded")
    assert verdict.own_share is not None
    assert verdict.own_share > 0.9
    assert "odd sizes" in {probe.name for probe in verdict.probes}
    assert verdict.build is not None
    assert verdict.build.resources
    assert not [f for f in verdict.flags if f.startswith(("share", "precision", "launches"))]


def test_times_are_taken_beside_pytorch(target: CudaTarget) -> None:
    verdict = judged(target, "candidates/softmax_warp", timing=True)
    assert verdict.timing is not None, verdict.message
    assert verdict.timing.candidate.count >= 10
    assert verdict.timing.over("eager") is not None
