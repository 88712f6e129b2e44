"""Reference processes of many tasks, lent to one verification at a time."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from musaagent.tools.reference_session import ReferenceSession
from musaagent.tools.task import Task

Open = Callable[[Task, str, "dict[str, int] | None"], ReferenceSession]
"""Starts a process at a scale; with known overrides it need not search for them."""

_MOST_IDLE = 4
"""For each task and scale; a process holds some 300 MB."""


@dataclass
class _Known:
    """One task's processes. `home` found the sizes of scale `run`, and is asked for the others."""

    home: "Future[ReferenceSession]" = field(default_factory=Future)
    idle: dict[str, list[ReferenceSession]] = field(default_factory=dict)
    scalings: dict[str, dict[str, int]] = field(default_factory=dict)
    every: list[ReferenceSession] = field(default_factory=list)
    without: set[str] = field(default_factory=set)
    """Lanes of other sizes that the task does not have."""


class ReferencePool:
    """Thread-safe. A session holds one module and one draw of inputs, so nobody shares it."""

    def __init__(self, open_session: Open) -> None:
        self._open = open_session
        self._lock = threading.Lock()
        self._tasks: dict[str, _Known] = {}

    def home(self, task: Task) -> ReferenceSession:
        """For plan and scalings, which may be asked while it is lent. Raises TaskError."""
        with self._lock:
            known = self._tasks.get(task.hash)
            stale = known if known is not None and _lost(known.home) else None
            mine = known is None or stale is not None
            if known is None or stale is not None:
                known = self._tasks[task.hash] = _Known()
        if not mine:
            return known.home.result()
        for session in _idle(stale):
            session.close()
        try:
            opened = self._open(task, "run", None)
        except BaseException as error:
            with self._lock:
                if self._tasks.get(task.hash) is known:
                    del self._tasks[task.hash]
            known.home.set_exception(error)
            raise
        with self._lock:
            known.every.append(opened)
            known.idle.setdefault("run", []).append(opened)
        known.home.set_result(opened)
        return opened

    def borrow(self, task: Task, scale: str) -> ReferenceSession:
        """A session that nobody else uses until `give_back`. Raises TaskError."""
        home = self.home(task)
        with self._lock:
            known = self._tasks.get(task.hash)
            idle = known.idle.get(scale) if known else None
            if idle and idle[-1].alive:
                return idle.pop()
            found = known.scalings.get(scale) if known else None
        if found is None:
            found = home.overrides if scale == "run" else home.scaling(scale)
        session = self._open(task, scale, found)
        with self._lock:
            known = self._tasks.get(task.hash)
            if known is not None:
                known.scalings[scale] = found
                known.every.append(session)
        return session

    def borrow_lane(self, task: Task, lane: str) -> ReferenceSession | None:
        """A session at the sizes of a lane (`musaagent.tools.lanes`), or None."""
        home = self.home(task)
        with self._lock:
            known = self._tasks.get(task.hash)
            if known is not None and lane in known.without:
                return None
            searched = known is not None and lane in known.scalings
        if not searched:
            found = home.lane(lane)
            with self._lock:
                known = self._tasks.get(task.hash)
                if known is not None and found is None:
                    known.without.add(lane)
                elif known is not None and found is not None:
                    known.scalings[lane] = found
            if found is None or known is None:
                return None
        return self.borrow(task, lane)

    def give_back(self, session: ReferenceSession) -> None:
        """Keep it for the next; close what is dead, forgotten or one too many."""
        with self._lock:
            known = self._tasks.get(session.task.hash)
            if known is not None and session in known.every:
                idle = known.idle.setdefault(session.scale, [])
                if session.alive and len(idle) < _MOST_IDLE:
                    idle.append(session)
                    return
                known.every.remove(session)
        session.close()

    def forget(self, task: Task) -> None:
        """Close the task's idle sessions; those that are lent close when they come back."""
        with self._lock:
            known = self._tasks.pop(task.hash, None)
        for session in _idle(known):
            session.close()

    def close(self) -> None:
        with self._lock:
            known, self._tasks = list(self._tasks.values()), {}
        for one in known:
            for session in one.every:
                session.close()


def _idle(known: _Known | None) -> list[ReferenceSession]:
    return [session for idle in known.idle.values() for session in idle] if known else []


def _lost(home: "Future[ReferenceSession]") -> bool:
    return home.done() and home.exception() is None and not home.result().alive
