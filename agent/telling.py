"""How a command ends: what is told of a run or of a failure, and the exit code."""

import argparse
from pathlib import Path

from musaagent import collecting, display, evaluation
from musaagent.cli import EXIT_AWAITING, EXIT_FAILED, EXIT_NOT_PASSED, EXIT_OK
from musaagent.errors import MusaagentError, PolicyUnavailable, SandboxLost, UsageError
from musaagent.result import RunError, RunResult, as_json
from musaagent.tools.results import Verdict
from musaagent.traces.schema import RunStatus

EXIT_CODES = {
    RunStatus.SOLVED: EXIT_OK,
    RunStatus.NOT_SOLVED: EXIT_NOT_PASSED,
    RunStatus.AWAITING_MODEL: EXIT_AWAITING,
    RunStatus.FAILED: EXIT_FAILED,
}


def fail(chosen: argparse.Namespace, error: MusaagentError) -> None:
    """The one line on stderr; under --json also the one object on stdout."""
    lost = isinstance(error, PolicyUnavailable | SandboxLost)
    way = _way_on(chosen) if lost else ""
    display.say_error(f"musaagent {chosen.command}: {error}{way}")
    if not getattr(chosen, "json", False):
        return
    if chosen.command in ("solve", "resume"):
        display.print_json(as_json(_failed_run(chosen, error)))
    else:
        status = "infra_error" if chosen.command == "verify" else "failed"
        display.print_json(
            {
                "status": status,
                "target": getattr(chosen, "target", None),
                "candidate": None,
                "run": None,
                "turns": 0,
                "verdict": None,
                "flags": [],
                "seconds": 0.0,
                "error": as_json(RunError.of(error)),
            }
        )


def interrupted(chosen: argparse.Namespace) -> None:
    """Ctrl-C or SIGTERM: everything that was finished is on disk."""
    fail(chosen, MusaagentError(f"interrupted{_way_on(chosen)}"))


def _way_on(chosen: argparse.Namespace) -> str:
    """How to go on from what is on disk; empty where nothing is."""
    match chosen.command:
        case "solve" | "resume":
            run = chosen.out if chosen.command == "solve" else chosen.run
            kept = run is not None and (Path(run) / "trajectory.jsonl").is_file()
            return f"; go on with: musaagent resume {run}" if kept else ""
        case "eval" | "collect":
            return "; the same command goes on"
        case "verify" if chosen.batch:
            return "; the same command goes on"
    return ""


def tell_evaluation(chosen: argparse.Namespace, out: Path, results: list[RunResult]) -> int:
    collected = collecting.is_collection(results)
    if chosen.json:
        sums = collecting.summary(results) if collected else evaluation.summary(results)
        display.print_json({"run": str(out), **sums})
    else:
        display.show_table(results)
    found = {result.status for result in results}
    if RunStatus.AWAITING_MODEL in found:
        requests = evaluation.requests_file(out)
        if not chosen.json:
            display.show_text(f"send {requests}, then: musaagent resume {out} --answers RESULTS")
        return EXIT_AWAITING
    if RunStatus.FAILED in found:
        return EXIT_FAILED
    # A collection has done its work where every episode came to its end.
    return EXIT_OK if collected or found <= {RunStatus.SOLVED} else EXIT_NOT_PASSED


def tell(chosen: argparse.Namespace, result: RunResult) -> int:
    if chosen.json:
        display.print_json(as_json(result))
    else:
        display.show_result(result)
    return EXIT_CODES[result.status]


def _failed_run(chosen: argparse.Namespace, error: MusaagentError) -> RunResult:
    run = chosen.out if chosen.command == "solve" else chosen.run
    kept = run is not None and (Path(run) / "trajectory.jsonl").is_file()
    return RunResult(
        status=RunStatus.FAILED,
        target=getattr(chosen, "target", "") or "",
        run=str(run) if kept and not isinstance(error, UsageError) else None,
        reason=str(error),
        error=RunError.of(error),
    )


def verify_object(
    chosen: argparse.Namespace, verdict: Verdict, seconds: float
) -> dict[str, object]:
    return {
        "status": verdict.status.value,
        "target": verdict.target,
        "candidate": chosen.candidate,
        "run": None,
        "turns": 0,
        "verdict": as_json(verdict),
        "flags": list(verdict.flags),
        "seconds": seconds,
        "op": chosen.op,
        "speedups": {
            s.baseline: {"ratio": s.ratio, "low": s.low, "high": s.high, "faster": s.faster}
            for s in (verdict.timing.speedups if verdict.timing else ())
        },
    }
