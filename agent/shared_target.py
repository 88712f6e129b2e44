"""One target for many runs side by side."""

import threading
from collections import Counter
from collections.abc import Iterable

from musaagent.tools.candidate import Candidate
from musaagent.tools.opgraph import Plan
from musaagent.tools.results import Build, Profile, Verdict
from musaagent.tools.target import Capability, Target, VerifyOptions
from musaagent.tools.task import Task


class SharedTarget:
    """A Target that does few calls at a time, and forgets a task with its last run.

    Runs that wait for a model cost nothing, so there are more of them than a machine can compile
    and execute kernels for.
    """

    def __init__(self, target: Target, width: int, ops: Iterable[str]) -> None:
        """width: calls at a time. ops: the op of every run that is to come, as `ended` names it."""
        self.name = target.name
        self._target = target
        self._turns = threading.BoundedSemaphore(width)
        self._lock = threading.Lock()
        self._left = Counter(ops)

    def ended(self, op: str, task: Task) -> None:
        """One run of the op is over."""
        with self._lock:
            self._left[op] -= 1
            last = not self._left[op]
        if last:
            self.forget(task)

    def capabilities(self) -> tuple[Capability, ...]:
        return self._target.capabilities()

    def start_warm_up(self) -> object:
        return self._target.start_warm_up()

    def plan(self, task: Task) -> Plan:
        with self._turns:
            return self._target.plan(task)

    def build(self, task: Task, candidate: Candidate, options: VerifyOptions) -> Build:
        with self._turns:
            return self._target.build(task, candidate, options)

    def verify(self, task: Task, candidate: Candidate, options: VerifyOptions) -> Verdict:
        with self._turns:
            return self._target.verify(task, candidate, options)

    def profile(self, task: Task, candidate: Candidate, options: VerifyOptions) -> Profile:
        with self._turns:
            return self._target.profile(task, candidate, options)

    def forget(self, task: Task) -> None:
        self._target.forget(task)

    def close(self) -> None:
        self._target.close()
