"""The checked run of the cuda target without a GPU: NVIDIA's tool is a script that starts nothing.

All else is real: the candidate is imported and built, its job is written, the jail is made, the log
and the exit status are read.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda import checked, sanitizer
from musaagent.tools.cuda.bench import CompileBench
from musaagent.tools.cuda.devices import Gpu, GpuInfo
from musaagent.tools.cuda.session import CudaSession
from musaagent.tools.cuda.target import CudaTarget
from musaagent.tools.host.toolchain import find_nvcc
from musaagent.tools.results import Build, FindingKind, Status, Trial, Verdict
from musaagent.tools.sandbox import sandbox_kind
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import Task, check_task

pytestmark = pytest.mark.skipif(find_nvcc() is None, reason="no nvcc here")
CANDIDATE = Path(__file__).resolve().parent.parent / "candidates" / "softmax_warp.py"
# The program's folder is the last word of the command line.
TOOL = """#!/bin/sh
[ "$1" = --help ] && {{ echo "--padding --racecheck-report"; exit 0; }}
check=$2 log=$4 prefix=$6
for folder; do :; done
[ -f "$folder/job.json" ] && [ -f "$folder/candidate.py" ] || exit 13
echo "$prefix COMPUTE-SANITIZER" > "$log"
{body}
"""
CLEAN = 'touch "$folder/done"; echo "$prefix ERROR SUMMARY: 0 errors" >> "$log"; exit 0'
RACE = f"""[ $check = racecheck ] || {{ {CLEAN}; }}
cat >> "$log" <<END
$prefix Error: Race reported between Write access at softmax_warp_kernel(const float *)+0x90 in cuda_sources[0]:21
$prefix     and Read access at softmax_warp_kernel(const float *)+0x100 in cuda_sources[0]:23 [8 hazards]
$prefix
$prefix RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
END
exit 86
"""
# What a candidate can do that writes to every file it finds, and to stdout.
FORGED = """for file in "$folder"/*.txt; do echo "========= ERROR SUMMARY: 0 errors" > "$file"; done
echo "========= ERROR SUMMARY: 0 errors"; touch "$folder/done"; exit 86"""


class Bench(CompileBench):
    """Builds without a card; the jail is this machine's own."""

    def __init__(self, target: CudaTarget, sessions: list[CudaSession]) -> None:
        super().__init__(target)
        self.gpu = Gpu(GpuInfo(0, "GPU-none", "none", "sm_90", 1024, "0"))
        self._sessions = sessions


@pytest.fixture(scope="module")
def case() -> Iterator[tuple[Bench, Task, Candidate]]:
    op, _, answer = CANDIDATE.read_text().partition("# === candidate ===")
    with CudaTarget() as target:
        target._kind = sandbox_kind().tools
        session = target.open_session(VerifyOptions(), None)
        session.setup()
        session.request({"op": "import", "source": answer}, doing="import")
        session.close()
        yield Bench(target, [session]), check_task(Path("op.py"), op), Candidate(source=answer)


def run(
    case: tuple[Bench, Task, Candidate], folder: Path, body: str, monkeypatch: pytest.MonkeyPatch
) -> Verdict:
    folder.chmod(0o755)
    tool = folder / "compute-sanitizer"
    tool.write_text(TOOL.format(body=body))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/local/bin:/usr/bin:/bin")
    sanitizer.find_sanitizer.cache_clear()
    passed = Verdict(
        status=Status.PASSED,
        target="cuda",
        build=Build(ok=True),
        trials=(Trial(name="seed 1", passed=True),),
    )
    try:
        return checked.with_checked_run(*case, VerifyOptions(check=True), passed)
    finally:
        sanitizer.find_sanitizer.cache_clear()


def test_a_finding_fails_the_candidate(
    case: tuple[Bench, Task, Candidate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = run(case, tmp_path, RACE, monkeypatch)
    assert verdict.status is Status.RUNTIME_ERROR, verdict.flags
    (finding,) = verdict.findings
    assert finding.kind is FindingKind.RACE
    assert (finding.kernel, finding.source, finding.line) == (
        "softmax_warp_kernel",
        "cuda_sources[0]",
        21,
    )
    assert verdict.shapes == ("checked float32[57, 333]",)
    assert verdict.phase_seconds["check"] > 0


def test_clean_is_clean(
    case: tuple[Bench, Task, Candidate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = run(case, tmp_path, CLEAN, monkeypatch)
    assert (verdict.status, verdict.checked, verdict.flags) == (Status.PASSED, True, ())


def test_a_forged_log_is_not_clean(
    case: tuple[Bench, Task, Candidate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = run(case, tmp_path, FORGED, monkeypatch)
    assert not verdict.checked
    assert len(verdict.flags) == len(sanitizer.CHECKS)
