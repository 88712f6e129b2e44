"""The folder of one run, and writing files whole or not at all.

candidate.py       the best candidate, if it passed; nothing else is ever called so
attempt.py         the candidate that came furthest, where none passed
report.md          what was asked, what was proven and how, what was not
trajectory.jsonl   every event of the run
checkpoint.sqlite  where the graph stands, for resume
task.py            the op file as it was read
requests.jsonl     the request that waits for its answer, in policy offline
"""

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from musaagent.errors import InfraError, UsageError
from musaagent.tools.task import Task
from musaagent.traces.store import ensure_free


@dataclass(frozen=True)
class RunDir:
    path: Path

    @property
    def candidate(self) -> Path:
        return self.path / "candidate.py"

    @property
    def attempt(self) -> Path:
        return self.path / "attempt.py"

    @property
    def report(self) -> Path:
        return self.path / "report.md"

    @property
    def trajectory(self) -> Path:
        return self.path / "trajectory.jsonl"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint.sqlite"

    @property
    def requests(self) -> Path:
        return self.path / "requests.jsonl"

    @property
    def task(self) -> Path:
        return self.path / "task.py"

    @property
    def checkpoint_files(self) -> tuple[Path, ...]:
        """SQLite keeps two files beside its own."""
        return tuple(self.path / f"{self.checkpoint.name}{end}" for end in ("", "-wal", "-shm"))

    @property
    def files(self) -> tuple[Path, ...]:
        """Everything that a run writes."""
        outputs = (self.candidate, self.attempt, self.report)
        return (*outputs, self.trajectory, *self.checkpoint_files, self.task, self.requests)

    def refuse(self, force: bool) -> None:
        """Raises UsageError where no new run may be put."""
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path} is a file; --out needs a folder")
        if not force and any(file.exists() for file in self.files):
            raise UsageError(
                f"{self.path} already holds a run; give --force to replace it, another --out, "
                f"or go on with it: musaagent resume {self.path}"
            )
        ensure_free(self.trajectory)

    def create(self, force: bool) -> None:
        """Make the folder ready for a new run. Raises UsageError as refuse, or if not writable."""
        self.refuse(force)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for file in self.files:
                file.unlink(missing_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except OSError as error:
            raise UsageError(f"cannot write in {self.path}: {error.strerror}") from error

    @classmethod
    def existing(cls, path: Path) -> Self:
        """Raises UsageError where the folder holds no run."""
        run = cls(path)
        if not path.exists():
            raise UsageError(f"{path}: no such run")
        if not run.trajectory.is_file():
            raise UsageError(f"{path} is no run: it has no trajectory.jsonl")
        return run

    def remove(self) -> None:
        """Take back a run that never got as far as an answer; a folder with other files stays."""
        for file in self.files:
            file.unlink(missing_ok=True)
        if not any(self.path.iterdir()):
            self.path.rmdir()


def default_run_dir(task: Task) -> Path:
    return Path("musaagent-runs") / f"{task.name}-{task.hash[:8]}"


def write_whole(path: Path, text: str) -> None:
    """Readers see the old file or the new one, never a part. Raises InfraError."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InfraError(f"cannot write {path}: {error.strerror}") from error
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise InfraError(f"cannot write {path}: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)


def read_text(path: Path, what: str) -> str:
    """Raises UsageError, one line, for whatever is no text file."""
    if path.is_dir():
        raise UsageError(f"{path}: is a directory; give one {what} file")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text; a {what} is a text file") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    if not text.strip():
        raise UsageError(f"{path}: the file is empty")
    return text


def natural_order(name: str) -> list[tuple[int, int | str]]:
    """Sort key that reads digits as numbers: `2_x.py` before `10_x.py`."""
    # The first item keeps a number from being compared with a text.
    parts = re.split(r"(\d+)", name)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts]
