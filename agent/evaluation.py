"""Solve a folder of ops side by side; one result a line, and what has its line is not done again.

An evaluation solves every op once; a collection solves it in several episodes, for a trainer.

    RUN/eval.json       the settings; another set of settings needs another RUN
    RUN/results.jsonl   one object for each run, as `solve --json` prints it, in order of finishing
    RUN/runs/           the folder of every single run
    RUN/requests.jsonl  what waits for answers from outside (policy offline), as one batch file
    RUN/errors.log      tracebacks of faults of our own

A line that tells of our own failure is tried again by the next call; a broken op file is not.
"""

import fcntl
import os
import threading
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import ValidationError

from musaagent import app
from musaagent.errors import MusaagentError, TaskError, UsageError
from musaagent.eval_settings import EvalSettings, RunKey, default_jobs, differences, keys_of
from musaagent.opening import close_policy, lent_policy
from musaagent.policies.policy import Policy
from musaagent.result import RunError, RunResult
from musaagent.rundir import RunDir, natural_order, write_whole
from musaagent.shared_target import SharedTarget
from musaagent.tools.target import Target
from musaagent.tools.task import load_task
from musaagent.traces.schema import RunStatus, StopReason

if TYPE_CHECKING:
    from musaagent.policies.offline import BatchAnswers

_RESULTS = "results.jsonl"
_SETTINGS = "eval.json"


class EvalObserver(Protocol):
    """Told of progress, from the thread that called evaluate."""

    def begin(self, total: int, known: int) -> None: ...

    def finished(self, result: RunResult) -> None: ...

    def end(self) -> None: ...


@dataclass(frozen=True)
class _Job:
    """Everything that a worker thread needs."""

    folder: Path
    out: Path
    settings: EvalSettings
    force: bool
    target: SharedTarget
    policy: Policy
    """One for all ops: a model's requests then share its connections."""
    stopping: threading.Event


def evaluate(
    folder: Path,
    out: Path,
    settings: EvalSettings,
    *,
    jobs: int | None = None,
    limit: int | None = None,
    force: bool = False,
    target: Target | None = None,
    policy: Policy | None = None,
    observer: EvalObserver | None = None,
) -> list[RunResult]:
    """Results of the folder's ops, in order of their names. Raises UsageError or InfraError.

    `target` and `policy` stand in for those that the settings name; they must be safe to call from
    threads. With `settings.episodes` it is a collection: so many runs of each op.
    """
    keys = keys_of(find_ops(folder)[:limit], settings.episodes)
    settings = settings.model_copy(update={"folder": str(folder.resolve()), "limit": limit})
    _prepare(out, settings, force)
    with _claimed(out):
        asked = set(keys)
        kept = [r for r in _stored(out) if not (_ours(r) or (force and RunKey.of(r) in asked))]
        write_whole(out / _RESULTS, "".join(r.model_dump_json() + "\n" for r in kept))
        done = {RunKey.of(result) for result in kept}
        waiting = [key for key in keys if key not in done]
        if observer is not None:
            observer.begin(len(keys), len(keys) - len(waiting))
        try:
            if waiting:
                with (
                    lent_policy(policy or settings.policy, settings.run_settings(), None) as writer,
                    app.lent_target(target or settings.target) as place,
                ):
                    cores = os.cpu_count() or 1
                    shared = SharedTarget(place, cores, [key.op for key in waiting])
                    job = _Job(folder, out, settings, force, shared, writer, threading.Event())
                    _work(job, waiting, jobs or default_jobs(settings.policy), observer)
        finally:
            if observer is not None:
                observer.end()
        _gather_requests(out)
        return [result for result in read_results(out) if RunKey.of(result) in asked]


def go_on(
    out: Path,
    answers: "BatchAnswers | None" = None,
    *,
    jobs: int | None = None,
    target: Target | None = None,
    observer: EvalObserver | None = None,
    base_url: str | None = None,
) -> list[RunResult]:
    """The same evaluation once more, for what has no result; with the answers of its batch.

    Raises UsageError where `out` does not say what it is an evaluation of.
    """
    settings = _known_settings(out / _SETTINGS)
    if not settings.folder:
        raise UsageError(f"{out} does not name its ops; give the command that made it once more")
    if base_url is not None:
        served = app.moved(settings.run_settings(), base_url).served
        settings = settings.model_copy(update={"served": served})
    policy: Policy | None = None
    if answers is not None:
        if settings.policy != "offline" or settings.served is None:
            raise UsageError(f"{out}: --answers goes with policy offline, not {settings.policy}")
        from musaagent.policies.offline import OfflinePolicy

        policy = OfflinePolicy(settings.served, answers)
    folder = Path(settings.folder)
    return evaluate(
        folder,
        out,
        settings,
        jobs=jobs,
        limit=settings.limit,
        target=target,
        policy=policy,
        observer=observer,
    )


def requests_file(out: Path) -> Path:
    return out / "requests.jsonl"


def find_ops(folder: Path) -> list[str]:
    """Paths of the op files below a folder, `2_x.py` before `10_x.py`. Raises UsageError."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    paths = (path.relative_to(folder) for path in folder.rglob("*.py"))
    ops = [
        path.as_posix()
        for path in paths
        if not any(part.startswith((".", "_")) for part in path.parts)
    ]
    if not ops:
        raise UsageError(f"{folder}: no .py file in it or below")
    return sorted(ops, key=natural_order)


def is_evaluation(path: Path) -> bool:
    return (path / _RESULTS).is_file()


def read_results(out: Path) -> list[RunResult]:
    """Stored results in order of their ops' names. Raises UsageError where there are none."""
    if not is_evaluation(out):
        raise UsageError(f"{out} is no evaluation: it has no {_RESULTS}")
    return sorted(_stored(out), key=lambda r: (natural_order(r.op), r.episode or 0))


def summary(results: list[RunResult]) -> dict[str, Any]:
    """Counts by status, and of what is not solved by its reason."""
    reasons = Counter(outcome_word(r) for r in results if r.status is not RunStatus.SOLVED)
    counts = Counter(result.status.value for result in results)
    return {
        "total": len(results),
        **{status.value: counts[status.value] for status in RunStatus},
        "reasons": dict(reasons.most_common()),
        "seconds": sum(result.seconds for result in results),
    }


def outcome_word(result: RunResult) -> str:
    """The typed reason in one word: the verdict's status, `refused`, or our exception's name."""
    if result.error is not None:
        return result.error.type
    if result.verdict is None:
        # No answer held a candidate; then the last one's fault tells more than the budget.
        failed = result.turn_statuses[-1:] if result.stop is not StopReason.REFUSED else ()
        return str(*failed or (result.stop or "none",))
    kind = f" ({result.verdict.kind})" if result.verdict.kind else ""
    return f"{result.verdict.status}{kind}"


def _work(job: _Job, keys: list[RunKey], jobs: int, observer: EvalObserver | None) -> None:
    """One target for all: its workers are started once. Lines are written by this thread alone."""
    pool = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="eval")
    try:
        futures: list[Future[RunResult | None]] = [pool.submit(_solve, job, key) for key in keys]
        for future in as_completed(futures):
            result = future.result()
            assert result is not None, "only a stopped evaluation leaves an op out"
            _append(job.out / _RESULTS, result)
            if observer is not None:
                observer.finished(result)
    except BaseException:
        job.stopping.set()
        # Ends the calls that are under way; what they would answer is not recorded.
        close_policy(job.policy)
        job.target.close()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _solve(job: _Job, key: RunKey) -> RunResult | None:
    """None once the evaluation is being stopped."""
    try:
        result = _solve_or_resume(job, key)
    except Exception as error:
        if job.stopping.is_set():
            return None
        if not isinstance(error, MusaagentError):
            _log_fault(job.out, key)
        result = RunResult(
            status=RunStatus.FAILED,
            target=job.settings.target,
            error=RunError.of(error),
            reason=RunError.of(error).message,
        )
    return result.model_copy(update={"op": key.op, "episode": key.episode})


def _solve_or_resume(job: _Job, key: RunKey) -> RunResult:
    path, chosen = job.folder / key.op, job.settings
    task = load_task(path)
    place = job.out / "runs" / f"{key.op.removesuffix('.py')}-{task.hash[:8]}"
    run = RunDir(place if key.episode is None else place / str(key.episode))
    try:
        if run.trajectory.exists() and not job.force:
            # A run cut off at its very start, or damaged, has nothing to go on from.
            with suppress(UsageError):
                return app.resume(run.path, target=job.target, policy=job.policy)
        return app.solve(
            path,
            target=job.target,
            policy=job.policy,
            out=run.path,
            force=True,
            episode=key.episode or 0,
            answers=chosen.answers,
            max_turns=chosen.max_turns,
            seed=chosen.seed,
            warp_size=chosen.warp_size,
            arch=chosen.arch,
            check=chosen.check,
            baselines=chosen.baselines,
            served=chosen.served,
        )
    finally:
        job.target.ended(key.op, task)


def _ours(result: RunResult) -> bool:
    """Whether a stored line tells of our failure, or waits, and so is tried again."""
    if result.status is RunStatus.AWAITING_MODEL:
        return True
    return result.error is not None and result.error.type != TaskError.__name__


def _prepare(out: Path, settings: EvalSettings, force: bool) -> None:
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file; --out needs a folder")
    stored = out / _SETTINGS
    known = _known_settings(stored) if stored.exists() and not force else settings
    if other := differences(known, settings):
        raise UsageError(
            f"{out} was made with {other}; give the same settings, another --out, or --force"
        )
    try:
        (out / "runs").mkdir(parents=True, exist_ok=True)
        (out / _RESULTS).touch()
    except OSError as error:
        raise UsageError(f"cannot write in {out}: {error.strerror}") from error
    write_whole(stored, settings.model_dump_json(indent=2) + "\n")


def _known_settings(stored: Path) -> EvalSettings:
    if not stored.exists():
        raise UsageError(f"{stored.parent} has no {stored.name}; give another --out")
    try:
        return EvalSettings.model_validate_json(stored.read_bytes())
    except ValidationError as error:
        raise UsageError(f"{stored} cannot be read; give another --out") from error


def _gather_requests(out: Path) -> None:
    """All pending requests in one file, each once: ops with the same text share their answers."""
    waiting = [r for r in _stored(out) if r.status is RunStatus.AWAITING_MODEL and r.run]
    lines: dict[str, None] = {}
    for result in waiting:
        for line in RunDir(Path(str(result.run))).requests.read_text().splitlines():
            lines[line] = None
    if lines:
        write_whole(requests_file(out), "".join(f"{line}\n" for line in lines))
    else:
        requests_file(out).unlink(missing_ok=True)


@contextmanager
def _claimed(out: Path) -> Iterator[None]:
    descriptor = os.open(out, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{out} is in use by another musaagent process") from error
        yield
    finally:
        os.close(descriptor)


def _stored(out: Path) -> list[RunResult]:
    """All whole lines; one that a kill cut short is left out."""
    path = out / _RESULTS
    *lines, _ = path.read_bytes().split(b"\n")
    results = []
    for number, line in enumerate(lines, start=1):
        try:
            results.append(RunResult.model_validate_json(line))
        except ValidationError as error:
            raise UsageError(f"{path}:{number}: no result of this version") from error
    return results


def _append(path: Path, result: RunResult) -> None:
    with path.open("ab") as file:
        file.write(result.model_dump_json().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _log_fault(out: Path, key: RunKey) -> None:
    with (out / "errors.log").open("a") as file:
        file.write(f"{key.op} {'' if key.episode is None else key.episode}\n")
        file.write(f"{traceback.format_exc()}\n")
