"""`verify --batch`: many candidates from a manifest, one result line each, whatever happens.

Builds run ahead in threads of their own, so that they overlap with runs. A manifest row is JSON:
`{"id": ..., "task": PATH, "candidate": PATH}`; relative paths are taken from the manifest's folder.
"""

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from musaagent.app import read_candidate
from musaagent.errors import MusaagentError, UsageError
from musaagent.result import as_json
from musaagent.rundir import read_text
from musaagent.tools.candidate import Candidate
from musaagent.tools.extract import ExtractionError, extraction_verdict
from musaagent.tools.results import Status
from musaagent.tools.target import Target, VerifyOptions
from musaagent.tools.task import Task, load_task


@dataclass(frozen=True)
class Row:
    """One line of the manifest."""

    id: str
    task: Path
    candidate: Path


def read_manifest(path: Path) -> list[Row]:
    """Raises UsageError, naming the line, for what is no row or names an id twice."""
    rows: list[Row] = []
    seen: set[str] = set()
    for number, line in enumerate(read_text(path, "manifest").splitlines(), 1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            fields = json.loads(line)
        except ValueError:
            raise UsageError(f"{place}: not JSON; a row is one JSON object") from None
        names = ("id", "task", "candidate")
        if not isinstance(fields, dict) or not all(
            isinstance(fields.get(n), str) and fields[n] for n in names
        ):
            raise UsageError(f"{place}: a row needs the texts id, task and candidate")
        if fields["id"] in seen:
            raise UsageError(f"{place}: the id {fields['id']!r} is there twice")
        seen.add(fields["id"])
        task, candidate = (path.parent / fields[name] for name in ("task", "candidate"))
        rows.append(Row(fields["id"], task, candidate))
    if not rows:
        raise UsageError(f"{path}: the manifest has no rows")
    return rows


def finished_ids(out: Path) -> set[str]:
    """Ids that have a whole line; a half-written last line is cut off."""
    if not out.exists():
        return set()
    raw = out.read_bytes()
    whole = raw[: raw.rfind(b"\n") + 1]
    if len(whole) != len(raw):
        os.truncate(out, len(whole))
    found = set()
    for number, line in enumerate(whole.decode("utf-8", errors="replace").splitlines(), 1):
        try:
            found.add(str(json.loads(line)["id"]))
        except (ValueError, KeyError, TypeError):
            raise UsageError(f"{out}, line {number}: not a result of verify --batch") from None
    return found


def verify_batch(
    manifest: Path,
    out: Path,
    target: Target,
    options: VerifyOptions,
    *,
    jobs: int,
    observer: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, int]:
    """Write one line a row to `out` as they finish; rows that have one are left out.

    Returns how many rows have which status, those of earlier calls included.
    """
    rows = read_manifest(manifest)
    done = finished_ids(out)
    open_rows = [row for row in rows if row.id not in done]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        stream = out.open("a", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror}") from None
    with stream:
        for result in _results(open_rows, target, options, jobs):
            stream.write(json.dumps(result) + "\n")
            stream.flush()
            if observer is not None:
                observer(result)
    wanted = {row.id for row in rows}
    counts: dict[str, int] = {}
    for line in out.read_text(encoding="utf-8").splitlines():
        result = json.loads(line)
        if result["id"] in wanted:
            counts[result["status"]] = counts.get(result["status"], 0) + 1
    return counts


class _Work:
    """Builds ahead and verdicts behind; candidates of one task take turns at the verdict.

    A task is forgotten with its last row: its processes hold memory, on a card too.
    """

    def __init__(self, rows: list[Row], target: Target, options: VerifyOptions) -> None:
        self.target = target
        self.options = options
        self._left = Counter(row.task for row in rows)
        self._tasks: dict[Path, Task] = {}
        self._turns: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def build(self, row: Row) -> "tuple[Task, Candidate | ExtractionError] | MusaagentError":
        """Fills the build cache. Our own failure is the row's result, not the batch's end."""
        try:
            self._tasks[row.task] = task = load_task(row.task)
            candidate = read_candidate(row.candidate)
            if isinstance(candidate, Candidate):
                self.target.build(task, candidate, self.options)
        except MusaagentError as error:
            return error
        return task, candidate

    def verify(self, row: Row, built: "Future[Any]") -> dict[str, Any]:
        start = time.monotonic()
        result: dict[str, Any] = {"id": row.id, "status": Status.INFRA_ERROR.value}
        try:
            ready = built.result()
            if isinstance(ready, MusaagentError):
                raise ready
            task, candidate = ready
            if isinstance(candidate, ExtractionError):
                verdict = extraction_verdict(candidate, self.target.name)
            else:
                with self._turn(task):
                    verdict = self.target.verify(task, candidate, self.options)
            result |= {"status": verdict.status.value, "error": "", "verdict": as_json(verdict)}
        except Exception as error:  # one row each, whatever happens
            kind = "usage" if isinstance(error, UsageError) else "infra"
            text = str(error) if isinstance(error, MusaagentError) else repr(error)
            result |= {"error": text, "error_kind": kind, "verdict": None}
        self._ended(row)
        return result | {"seconds": time.monotonic() - start}

    def _ended(self, row: Row) -> None:
        with self._lock:
            self._left[row.task] -= 1
            task = None if self._left[row.task] else self._tasks.pop(row.task, None)
        if task is not None:
            with self._turn(task):  # the same text may stand in another file
                self.target.forget(task)

    def _turn(self, task: Task) -> threading.Lock:
        with self._lock:
            return self._turns.setdefault(task.hash, threading.Lock())


def _results(
    rows: list[Row], target: Target, options: VerifyOptions, jobs: int
) -> Iterator[dict[str, Any]]:
    work = _Work(rows, target, options)
    with (
        ThreadPoolExecutor(jobs, thread_name_prefix="build") as builders,
        ThreadPoolExecutor(jobs, thread_name_prefix="verify") as judges,
    ):
        try:
            waiting = iter([(row, builders.submit(work.build, row)) for row in rows])
            running: set[Future[dict[str, Any]]] = set()
            while True:
                # Few at a time are handed on, so that one task's turn does not hold all threads.
                while len(running) < jobs and (following := next(waiting, None)) is not None:
                    running.add(judges.submit(work.verify, *following))
                if not running:
                    return
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    yield future.result()
        except BaseException:
            builders.shutdown(wait=False, cancel_futures=True)
            judges.shutdown(wait=False, cancel_futures=True)
            raise
