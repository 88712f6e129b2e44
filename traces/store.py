"""The trajectory on disk: append one event, flush it to the device, look one up again.

The file is the run's memory. A node that runs twice after a kill finds its first result here and
asks neither the policy nor the target again.
"""

import fcntl
import io
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from musaagent.errors import InfraError, UsageError
from musaagent.traces.schema import (
    SCHEMA_VERSION,
    BuildDone,
    CandidateRead,
    Event,
    EventBase,
    ProfileTaken,
    VerdictReached,
    event_id,
    parse_event,
)

E = TypeVar("E", bound=EventBase)
C = TypeVar("C", CandidateRead, BuildDone, VerdictReached, ProfileTaken)


@dataclass(frozen=True)
class Trajectory:
    """The events of one file, in order."""

    events: tuple[Event, ...]
    remarks: tuple[str, ...] = ()
    """What the reader had to leave out."""

    def all(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def find(self, kind: type[E], turn: int) -> E | None:
        """The latest event of that kind in the turn."""
        found = [event for event in self.all(kind) if event.turn == turn]
        return found[-1] if found else None

    def last(self, kind: type[E]) -> E | None:
        found = self.all(kind)
        return found[-1] if found else None

    def of_candidate(self, kind: type[C], candidate: str) -> C | None:
        """The first event of that kind about a candidate, by its hash."""
        return next((event for event in self.all(kind) if event.candidate == candidate), None)


def read_trajectory(path: Path) -> Trajectory:
    """Read a file that may still be written to. Raises UsageError, naming the line at fault.

    A last line that a kill cut short is left out, with a remark.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    return _parse(path, data)[0]


def _parse(path: Path, data: bytes) -> tuple[Trajectory, int]:
    """Events and the length in bytes of the whole lines."""
    *lines, rest = data.split(b"\n")
    cut = (f"dropped an unfinished last line of {len(rest)} bytes",) if rest else ()
    events = []
    for number, line in enumerate(lines, start=1):
        try:
            events.append(parse_event(line))
        except ValidationError as error:
            raise UsageError(f"{path}:{number}: {_fault(line, error)}") from error
    if not events:
        raise UsageError(f"{path} holds no event: it is no trajectory, or was cut off at its start")
    return Trajectory(tuple(events), cut), len(data) - len(rest)


def _fault(line: bytes, error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "json_invalid":
        return f"not JSON ({first['msg'].removeprefix('Invalid JSON: ')})"
    if first["type"] == "extra_forbidden" or "schema_version" in where:
        return (
            f"unknown field or version at {where!r}: this musaagent reads trajectory "
            f"v{SCHEMA_VERSION}; a newer one wrote the file"
        )
    return f"no trajectory event: {where or 'line'}: {first['msg']}"


class TraceStore:
    """One trajectory, open for appending by one process at a time."""

    def __init__(self, path: Path, file: io.FileIO, trajectory_id: str, known: Trajectory) -> None:
        self.path = path
        self.trajectory_id = trajectory_id
        self.remarks = known.remarks
        self._file = file
        self._events: list[Event] = list(known.events)

    @classmethod
    def create(cls, path: Path, trajectory_id: str) -> Self:
        """Raises UsageError where the file exists or cannot be made."""
        try:
            file = open(path, "xb", buffering=0)  # noqa: SIM115, PTH123 - kept open by the store
        except OSError as error:
            raise UsageError(f"cannot create {path}: {error.strerror}") from error
        _lock(path, file)
        _sync_folder(path.parent)
        return cls(path, file, trajectory_id, Trajectory(()))

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open to go on; cuts an unfinished last line. Raises UsageError as read_trajectory."""
        try:
            file = open(path, "r+b", buffering=0)  # noqa: SIM115, PTH123 - kept open by the store
        except OSError as error:
            raise UsageError(f"cannot open {path}: {error.strerror}") from error
        try:
            _lock(path, file)
            known, length = _parse(path, path.read_bytes())
            file.truncate(length)
            file.seek(length)
        except BaseException:
            file.close()
            raise
        return cls(path, file, known.events[0].trajectory_id, known)

    @property
    def trajectory(self) -> Trajectory:
        return Trajectory(tuple(self._events), self.remarks)

    def record(self, kind: type[E], turn: int, **values: Any) -> E:
        """Append an event; it is on the device when this returns. Raises InfraError."""
        name = kind.model_fields["kind"].default
        attempt = sum(1 for event in self._events if event.kind == name and event.turn == turn)
        event = kind(
            event_id=event_id(self.trajectory_id, turn, name, attempt),
            trajectory_id=self.trajectory_id,
            turn=turn,
            attempt=attempt,
            time=datetime.now(UTC),
            **values,
        )
        try:
            line = event.model_dump_json()
        except PydanticSerializationError:
            # Half a surrogate pair, as a server's JSON can bring it, is no text for UTF-8.
            event = kind.model_validate(_encodable(event.model_dump()))
            line = event.model_dump_json()
        self._write(line.encode() + b"\n")
        self._events.append(event)  # type: ignore[arg-type]
        return event

    def _write(self, line: bytes) -> None:
        start = self._file.tell()
        try:
            view = memoryview(line)
            while view:
                view = view[self._file.write(view) :]
            os.fsync(self._file.fileno())
        except BaseException as error:
            # A full disk must not leave half a line in front of the next event.
            self._file.truncate(start)
            self._file.seek(start)
            if isinstance(error, OSError):
                raise InfraError(f"cannot write {self.path}: {error.strerror}") from error
            raise

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _encodable(value: Any) -> Any:
    """The same value with what UTF-8 cannot say replaced by `?`."""
    if isinstance(value, str) and not isinstance(value, StrEnum):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_encodable(item) for item in value)
    return value


def ensure_free(path: Path) -> None:
    """Raises UsageError while another process writes the trajectory."""
    if path.is_file():
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - as everywhere in this file
            _lock(path, file)


def _lock(path: Path, file: io.FileIO) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UsageError(f"{path.parent} is in use by another musaagent process") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
