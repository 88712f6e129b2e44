"""compute-sanitizer's reports: forms of NVIDIA's guide and of logs that people have published."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from musaagent.tools.cuda.checked import apply_reports
from musaagent.tools.cuda.sanitizer import CHECKS, CheckReport, command, judge, run_checks
from musaagent.tools.cuda.sanitizer_report import Parsed, parse_log
from musaagent.tools.feedback import repair_feedback
from musaagent.tools.results import (
    Build,
    Finding,
    FindingKind,
    MismatchKind,
    Status,
    Trial,
    Verdict,
)
from musaagent.tools.sandbox import JailedResult

LABEL = "cuda_sources[0]"

# docs.nvidia.com/compute-sanitizer, "Example Use of Memcheck" (2025), with our label as the file.
MEMCHECK = """========= COMPUTE-SANITIZER
Mallocing memory
========= Invalid __global__ write of size 4 bytes
=========     at unaligned_kernel()+0x100 in cuda_sources[0]:34
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7cc43aa00001 is misaligned
=========     and is inside the nearest allocation at 0x7cc43aa00000 of size 4 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: run_unaligned() [0xacd4] in memcheck_demo
=========
Running unaligned_kernel: no error
========= Invalid __global__ write of size 4 bytes
=========     at out_of_bounds_function()+0xb0 in cuda_sources[0]:39
=========     by thread (5,0,1) in block (2,3,0)
=========     Address 0x87654320 is out of bounds
=========     and is 4 bytes after the nearest allocation at 0x7cc43a800000 of size 1,024 bytes
=========         Device Frame: out_of_bounds_kernel()+0x30 in cuda_sources[0]:44
=========
========= ERROR SUMMARY: 2 errors
"""
# The same guide, "Block-level Hazards".
RACE = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at sumKernel(int *, int *)+0x90 in cuda_sources[0]:41
=========     and Read access at sumKernel(int *, int *)+0x100 in cuda_sources[0]:51 [508 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
# Its "Warp-level Hazards": a warning.
HAZARD = """========= COMPUTE-SANITIZER
========= {level}: (Warp Level Programming) Potential RAW hazard detected at __shared__ 0x8c in block (1,0,0) :
=========     Write Thread (35,0,0) at sumKernel(int *, int *)+0x90 in cuda_sources[0]:44
=========     Read Thread (32,0,0) at sumKernel(int *, int *)+0x120 in cuda_sources[0]:56
=========     Current Value : 35
=========
========= RACECHECK SUMMARY: 1 hazard displayed ({errors} errors, {warnings} warnings)
"""
# "Memset Error", and "initcheck-address-space".
INITCHECK = """========= COMPUTE-SANITIZER
========= Uninitialized __shared__ memory read of size 4 bytes
=========     at KernelSharedError()+0x1a0 in cuda_sources[0]:7
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x0
========= ERROR SUMMARY: 1 error
"""
# "Divergent Threads".
SYNCCHECK = """========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at [clone myKernel(int *, int *)] outlineSync()+0x11f0 in cuda_sources[0]:42
=========     by thread (32,0,0) in block (0,0,0)
=========         Device Frame: myKernel(int *, int *)+0xe40 in cuda_sources[0]:60
=========
========= ERROR SUMMARY: 32 errors
"""
# The form until 2022, as in published logs of that time.
OLD = """========= COMPUTE-SANITIZER
========= Invalid __shared__ read of size 4 bytes
=========     at 0x578 in /home/x/hw12/cuda_sources[0]:120:MatMulKernel(Matrix, Matrix, Matrix)
=========     by thread (3,1,0) in block (0,0,0)
=========     Address 0x1040 is out of bounds
=========
========= Error: Race reported between Write access at 0x278 in ./cuda_sources[0]:113:MatMulKernel(Matrix)
=========     and Read access at 0x298 in ./cuda_sources[0]:121:MatMulKernel(Matrix) [6144 hazards]
=========
========= ERROR SUMMARY: 2 errors
"""
# Without -lineinfo there are kernel names alone.
NO_LINES = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at void ns::gemm<(int)8>(const float *, float *)+0x4a0
=========     by thread (0,4,0) in block (61,129,0)
=========     Address 0x710fdca00001 is out of bounds
========= ERROR SUMMARY: 1 error
"""
FOREIGN = NO_LINES.replace("ns::gemm", "cutlass::Kernel2")
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
OWN = frozenset(
    "unaligned_kernel out_of_bounds_kernel sumKernel KernelSharedError myKernel MatMulKernel gemm".split()
)


def parsed(text: str) -> Parsed:
    return parse_log(text, prefix="=========", own=OWN, labels={LABEL})


def test_memcheck_names_kernel_block_thread_and_line() -> None:
    first, second = parsed(MEMCHECK).findings
    assert first.kind is FindingKind.MISALIGNED
    assert (first.kernel, first.source, first.line) == ("unaligned_kernel", LABEL, 34)
    assert second.kind is FindingKind.OUT_OF_BOUNDS
    assert (second.kernel, second.line) == ("out_of_bounds_kernel", 39)
    assert (second.block, second.thread) == ((2, 3, 0), (5, 0, 1))
    assert second.message == (
        "writes 4 bytes of global memory out of bounds, 4 bytes after the nearest allocation, "
        "of 1,024 bytes"
    )
    assert parsed(MEMCHECK).errors == 2


def test_racecheck_names_both_lines() -> None:
    (race,) = parsed(RACE).findings
    assert (race.kind, race.kernel, race.line) == (FindingKind.RACE, "sumKernel", 41)
    assert race.message == "write access (line 41) races with a read access (line 51)"
    assert parsed(RACE).errors == 1


def test_a_hazard_names_the_threads_and_a_warning_is_a_remark() -> None:
    (race,) = parsed(HAZARD.format(level="Error", errors=1, warnings=0)).findings
    assert (race.block, race.thread, race.line) == ((1, 0, 0), (35, 0, 0), 44)
    assert "thread (32,0,0) (line 56) reads what thread (35,0,0) wrote (line 44)" in race.message
    warned = parsed(HAZARD.format(level="Warning", errors=0, warnings=1))
    assert not warned.findings
    assert len(warned.remarks) == 1


@pytest.mark.parametrize(
    ("text", "kind", "kernel", "line"),
    [
        (INITCHECK, FindingKind.UNINITIALISED_READ, "KernelSharedError", 7),
        (SYNCCHECK, FindingKind.DIVERGENT_BARRIER, "myKernel", 42),
        (OLD, FindingKind.OUT_OF_BOUNDS, "MatMulKernel", 120),
        (NO_LINES, FindingKind.OUT_OF_BOUNDS, "gemm", 0),
    ],
)
def test_other_forms(text: str, kind: FindingKind, kernel: str, line: int) -> None:
    first = parsed(text).findings[0]
    assert (first.kind, first.kernel, first.line) == (kind, kernel, line)


def test_kernels_of_others_are_no_findings() -> None:
    found = parsed(FOREIGN)
    assert not found.findings
    assert "Kernel2" in found.remarks[0]


def ran(code: int, log: str, *, finished: bool = True, timed_out: bool = False) -> CheckReport:
    done = JailedResult(code, CLEAN, "", timed_out, False, 3.0)
    return judge("memcheck", done, log, "=========", finished, own=OWN, labels=frozenset({LABEL}))


def test_clean_needs_exit_status_log_and_end_to_agree() -> None:
    assert ran(0, CLEAN).clean
    # What the program prints (here: a clean report on stdout) says nothing.
    assert not ran(86, "").clean
    assert "exit status" in ran(86, CLEAN).why
    assert not ran(0, CLEAN, finished=False).clean
    assert not ran(0, "").clean
    # A log that the candidate wrote knows no prefix.
    forged = judge(
        "memcheck",
        JailedResult(0, "", "", False, False, 1.0),
        CLEAN,
        "5f3a",
        True,
        own=OWN,
        labels=frozenset(),
    )
    assert not forged.clean
    assert "not the candidate's" in ran(86, FOREIGN).why
    assert "3 s" in ran(-9, "", timed_out=True).why


def test_checks_stop_at_the_first_finding() -> None:
    asked = []

    def run(check: str) -> CheckReport:
        asked.append(check)
        if check == "racecheck":
            return CheckReport(check, findings=tuple(parsed(RACE).findings))
        return CheckReport(check, clean=True)

    assert [r.check for r in run_checks(run)] == asked == ["memcheck", "racecheck"]


def verdict(status: Status = Status.PASSED, message: str = "") -> Verdict:
    kind = MismatchKind.NUMERIC if status is Status.MISMATCH else None
    trials = (Trial(name="seed 1", passed=status is Status.PASSED),)
    build = Build(ok=True)
    return Verdict(
        status=status, target="cuda", kind=kind, message=message, trials=trials, build=build
    )


def found(text: str) -> CheckReport:
    return CheckReport("memcheck", findings=tuple(parsed(text).findings))


def test_a_finding_fails_what_passed_and_explains_what_failed() -> None:
    failed = apply_reports(verdict(), [found(RACE)], believed=lambda: True)
    assert failed.status is Status.RUNTIME_ERROR
    assert failed.message.startswith("checked run: race in sumKernel, cuda_sources[0] line 41")
    assert "barrier" in repair_feedback(failed)
    wrong = apply_reports(
        verdict(Status.MISMATCH, "3 elements"), [found(RACE)], believed=lambda: True
    )
    assert wrong.status is Status.MISMATCH
    assert wrong.message.startswith("3 elements; a checked run finds race in sumKernel")
    died = apply_reports(
        verdict(Status.RUNTIME_ERROR, "illegal address"), [found(MEMCHECK)], believed=lambda: True
    )
    assert died.message.endswith("; then illegal address")
    assert "multiple of its size" in repair_feedback(died)


def test_what_is_not_believed_or_not_run_is_a_flag() -> None:
    kept = apply_reports(verdict(), [found(MEMCHECK)], believed=lambda: False)
    assert kept.status is Status.PASSED
    assert "smaller sizes" in kept.flags[0]
    unwritten = INITCHECK.replace("__shared__", "__global__")
    assert apply_reports(verdict(), [found(unwritten)], believed=lambda: True).status == "passed"
    stopped = CheckReport("racecheck", why="it did not end in 120 s")
    kept = apply_reports(verdict(), [stopped], believed=lambda: True)
    assert not kept.checked
    assert kept.flags == ("compute-sanitizer racecheck: it did not end in 120 s",)
    clean = [CheckReport(check, clean=True) for check in CHECKS]
    kept = apply_reports(verdict(), clean, believed=lambda: True)
    assert kept.checked
    assert "synccheck" in kept.trials[-1].name


@pytest.mark.skipif(shutil.which("compute-sanitizer") is None, reason="no compute-sanitizer here")
def test_the_tool_takes_our_options(tmp_path: Path) -> None:
    """Without a GPU it still reads them; a program that starts no CUDA is not clean."""
    tool = Path(shutil.which("compute-sanitizer") or "")
    for check in CHECKS:
        log = tmp_path / f"{check}.txt"
        line = [*command(tool, check, log, "5f3a"), sys.executable, "-c", "print()"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=120)
        text = log.read_text() if log.exists() else ""
        assert text.startswith("5f3a"), done.stdout + done.stderr
        result = JailedResult(done.returncode, done.stdout, done.stderr, False, False, 1.0)
        report = judge(check, result, text, "5f3a", True, own=OWN, labels=frozenset())
        assert not report.clean
        assert report.why


def test_finding_kinds_have_advice() -> None:
    for kind in FindingKind:
        if kind is FindingKind.PARTIAL_WARP:
            continue
        found = verdict(Status.RUNTIME_ERROR, "x").model_copy(
            update={"findings": (Finding(kind=kind, kernel="k", message="m"),)}
        )
        assert "k" in repair_feedback(found)
