"""What an evaluation or a collection is asked for, and which runs follow from it."""

import os
from typing import Literal, NamedTuple

from pydantic import Field

from musaagent.policies.settings import TRANSPORT, ServedSettings
from musaagent.result import RunResult
from musaagent.tools.results import Record
from musaagent.tools.target import BASELINES, checks_by_default
from musaagent.traces.schema import RunSettings

_MODEL_JOBS = 16
"""Runs side by side where most of their time goes by in waiting for a model."""


class EvalSettings(Record):
    """What every op of the evaluation is solved with."""

    target: Literal["host", "cuda", "musa"] = "host"
    policy: str = "builtin"
    answers: str = ""
    max_turns: int = 6
    seed: int | None = None
    warp_size: Literal[32, 128] = 32
    arch: Literal["", "mp_21", "mp_22", "mp_31"] = ""
    check: bool | None = None
    """The watched run; None: by target."""
    baselines: tuple[str, ...] = BASELINES
    served: ServedSettings | None = None
    """For the policies that ask a model."""
    episodes: int = Field(default=0, ge=0)
    """Of each op, in a collection; 0 for an evaluation. May grow from call to call."""
    folder: str = ""
    """Where the ops are; may change between two calls."""
    limit: int | None = None
    """Only so many ops; may change between two calls."""

    def run_settings(self) -> RunSettings:
        values = self.model_dump(exclude={"episodes", "folder", "limit"})
        if self.check is None:
            values["check"] = checks_by_default(self.target)
        return RunSettings(**values)


class RunKey(NamedTuple):
    """Which of the runs: an op, and in a collection the number of its episode."""

    op: str
    episode: int | None = None

    @classmethod
    def of(cls, result: RunResult) -> "RunKey":
        return cls(result.op, result.episode)


def default_jobs(policy: str) -> int:
    cores = os.cpu_count() or 1
    return max(cores, _MODEL_JOBS) if policy in ("served", "cascade") else cores


def keys_of(ops: list[str], episodes: int) -> list[RunKey]:
    """Episodes of one op follow each other, so that its reference is started once."""
    if not episodes:
        return [RunKey(op) for op in ops]
    return [RunKey(op, number) for op in ops for number in range(episodes)]


def differences(known: EvalSettings, now: EvalSettings) -> str:
    """The settings that make a run of one no run of the other, with their known values."""
    free = {"episodes"} if known.episodes and now.episodes else set()
    before, after = _flat(known), _flat(now)
    names = [name for name in before | after if name not in free]
    return ", ".join(
        f"{name} {before.get(name)}" for name in names if before.get(name) != after.get(name)
    )


def _flat(settings: EvalSettings) -> dict[str, object]:
    """Without what may change between two calls: which ops, and how the model is reached."""
    values: dict[str, object] = settings.model_dump(exclude={"folder", "limit", "served"})
    if settings.served is not None:
        values |= settings.served.model_dump(exclude=set(TRANSPORT))
    return values
