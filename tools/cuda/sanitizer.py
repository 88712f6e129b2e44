"""compute-sanitizer as the checked run of the cuda target: on demand, or to explain wrong values.

The candidate runs beside the tool, as the same user: it could write into the tool's log. So a run
counts as clean by the tool's own exit status, which its child cannot change, and the log must agree
with it; lines are read by a prefix drawn for the run. What a forged line could still do is accuse
the candidate that forged it. A candidate that notices the tool and behaves meanwhile is not seen.
"""

import functools
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from musaagent.errors import MusaagentError
from musaagent.tools.cuda.devices import Gpu
from musaagent.tools.cuda.programs import Work, run_tool, write_job
from musaagent.tools.cuda.sanitizer_report import parse_log
from musaagent.tools.cuda.standalone import DONE
from musaagent.tools.host.sources import pieces
from musaagent.tools.host.toolchain import find_nvcc
from musaagent.tools.jail import Kind
from musaagent.tools.results import Finding
from musaagent.tools.sandbox import JailedResult

CHECKS = ("memcheck", "racecheck", "initcheck", "synccheck")
REMEDY = "install the CUDA toolkit's compute-sanitizer"
_FOUND = 86
"""Exit status by which the tool says that it found errors."""
_CALLS = 1
_LOG = "sanitizer-{}.txt"
# Of each check, with what it is called in --help; versions that lack one run without it.
_OPTIONS: dict[str, tuple[tuple[str, str], ...]] = {
    # API errors are not the candidate's alone: torch's own probing of the driver has some.
    "memcheck": (("--padding", "64"), ("--report-api-errors", "no")),
    # Hazard by hazard, the harmless ones within a warp come first and fill the print limit.
    "racecheck": (("--racecheck-report", "analysis"),),
    "initcheck": (("--initcheck-address-space", "all"),),
    "synccheck": (),
}
# Each tensor in an allocation of its own: the edges that the tool knows are the tensors'.
_ENV = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


@dataclass(frozen=True)
class CheckReport:
    """What one check came to."""

    check: str
    findings: tuple[Finding, ...] = ()
    remarks: tuple[str, ...] = ()
    clean: bool = False
    """It ran to its end and found nothing, by exit status and log."""
    why: str = ""
    """Where it is neither clean nor has findings: the reason."""
    seconds: float = 0.0


@functools.cache
def find_sanitizer() -> Path | None:
    """On the PATH, or in the toolkit that nvcc belongs to."""
    places = [Path(found)] if (found := shutil.which("compute-sanitizer")) else []
    nvcc = find_nvcc()
    roots = [nvcc.resolve().parent.parent, nvcc.parent.parent] if nvcc else []
    for root in (*roots, Path("/usr/local/cuda")):
        places += [
            root / "bin" / "compute-sanitizer",
            root / "compute-sanitizer" / "compute-sanitizer",
        ]
    return next((path for path in places if path.is_file()), None)


@functools.cache
def _help(tool: Path) -> str:
    try:
        done = subprocess.run([tool, "--help"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def command(tool: Path, check: str, log: Path, prefix: str) -> list[str]:
    """The tool's part of the command line."""
    known = _help(tool)
    options = [w for name, value in _OPTIONS[check] if name in known for w in (name, value)]
    return [
        *(str(tool), "--tool", check, "--log-file", str(log), "--prefix", prefix),
        *("--error-exitcode", str(_FOUND), "--print-limit", "200", "--show-backtrace", "device"),
        *options,
    ]


def run_check(
    check: str,
    tool: Path,
    work: Work,
    gpu: Gpu,
    kind: Kind,
    read_only: Sequence[Path],
    timeout_s: float,
    own: frozenset[str],
) -> CheckReport:
    """One check over one call of forward. Raises no error for what the tool cannot do."""
    labels = frozenset(part.label for sources, _ in work.builds for part in pieces(sources))
    nonce = secrets.token_hex(8)
    with tempfile.TemporaryDirectory(prefix="musaagent-sanitizer-") as name:
        folder = Path(name)
        # Poison would make all memory written, and hide what initcheck looks for.
        write_job(folder, work, gpu, calls=_CALLS, poison=False)
        log = folder / _LOG.format(nonce)
        line = command(tool, check, log, nonce)
        real = tool.resolve()
        paths = [*read_only, real.parent, real.parent.parent / "compute-sanitizer"]
        paths = [path for path in paths if path.exists()]
        try:
            done = run_tool(line, folder, gpu, kind, paths, timeout_s, _ENV, alone=False)
        except MusaagentError as error:
            return CheckReport(check, why=str(error))
        text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        finished = (folder / DONE).exists()
    return judge(check, done, text, nonce, finished, own=own, labels=labels)


def judge(
    check: str,
    done: JailedResult,
    log: str,
    prefix: str,
    finished: bool,
    *,
    own: frozenset[str],
    labels: frozenset[str],
) -> CheckReport:
    """The report of one run, from the tool's exit status and its log."""
    parsed = parse_log(log, prefix=prefix, own=own, labels=labels)
    remarks = tuple(dict.fromkeys(parsed.remarks))
    report = functools.partial(CheckReport, check, remarks=remarks, seconds=done.seconds)
    if parsed.findings:
        return report(findings=tuple(parsed.findings))
    if done.returncode == 0 and parsed.errors == 0 and finished:
        return report(clean=True)
    return report(why=_reason(done, log, parsed.errors, parsed.complaint, remarks, finished))


def _reason(
    done: JailedResult,
    log: str,
    errors: int | None,
    complaint: str,
    remarks: tuple[str, ...],
    finished: bool,
) -> str:
    if done.timed_out:
        return f"it did not end in {done.seconds:.0f} s"
    if done.memory_exceeded:
        return "it needs more memory than the limit"
    if done.returncode == _FOUND and remarks:
        return f"errors that are not the candidate's: {remarks[0]}"
    if done.returncode == _FOUND and errors == 0:
        return "its log says less than its exit status"
    last = (done.stderr.strip() or done.stdout.strip() or log.strip()).rpartition("\n")[2]
    last = re.sub(r"\s+", " ", last)[:200]
    if complaint:
        return f"{complaint} ({last})" if last else complaint
    if done.returncode == 0 and not finished:
        return "the program ended before its last call"
    return f"exit status {done.returncode}: {last}"


def run_checks(
    run: Callable[[str], CheckReport], checks: Sequence[str] = CHECKS
) -> list[CheckReport]:
    """In order, until one has a finding: what comes after it may be its consequence."""
    reports = []
    for check in checks:
        reports.append(run(check))
        if reports[-1].findings:
            break
    return reports
