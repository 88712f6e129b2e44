"""Trajectory v1: the events of one run on one task, one JSON object a line.

A file holds one trajectory. Every record carries `schema_version`, so that a line can be read
without the lines before it. Derived values (turn count, best turn) are computed, never stored,
except in `run_finished`, which states the outcome as it was told to the user.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from musaagent.policies.policy import Phase, PolicyAnswer
from musaagent.policies.settings import ServedSettings
from musaagent.tools.candidate import content_hash
from musaagent.tools.opgraph import Plan
from musaagent.tools.results import Build, Profile, Record, Verdict
from musaagent.tools.target import BASELINES

SCHEMA_VERSION = 1


class RunStatus(StrEnum):
    """How a run ended, for whoever asked for a kernel."""

    SOLVED = "solved"
    """The best candidate passed, checked run included where the target has one."""
    NOT_SOLVED = "not_solved"
    """Every turn was spent, or the policy gave up, and nothing passed."""
    AWAITING_MODEL = "awaiting_model"
    """The next answer has to come from outside; resume the run once it is there."""
    FAILED = "failed"
    """Our own failure, or the task could not be read; never charged to the policy."""


class StopReason(StrEnum):
    """Why the graph stopped asking for candidates."""

    GOAL = "goal"
    """The profile had nothing left to suggest."""
    BUDGET = "budget"
    """Every turn allowed was used."""
    REFUSED = "refused"
    """The policy had no (further) candidate to offer."""
    REPEATED = "repeated"
    """Asked to optimise, the policy offered a candidate that was already measured."""


class RunSettings(Record):
    """What a run was asked to do; written at its start and read again by resume."""

    target: Literal["host", "cuda", "musa"] = "host"
    policy: str = "builtin"
    answers: str = ""
    """Folder of answers for policy `scripted`; a recorded run for policy `replay`."""
    served: ServedSettings | None = None
    """For the policies that ask a model."""
    description: str = ""
    """What was asked for, where no reference was given and the policy wrote it."""
    max_turns: int = Field(default=6, ge=1)
    seed: int | None = None
    """None: the policy draws with 0, the verifier with a secret seed."""
    episode: int = Field(default=0, ge=0)
    """Which sample of the task this is: the policy draws with the seed plus this number."""
    warp_size: Literal[32, 128] = 32
    arch: Literal["", "mp_21", "mp_22", "mp_31"] = ""
    """A Moore Threads architecture that the run is for; it decides warp_size and the dialect."""
    baselines: tuple[str, ...] = BASELINES
    """What times are taken beside, on targets that have a clock."""
    trials: int = Field(default=5, ge=1)
    check: bool = True
    """Whether the watched run is made before anything counts as passed."""
    timeout_s: float = Field(default=60.0, gt=0)
    atol: float | None = None
    rtol: float | None = None


class Environment(Record):
    """The machine and the tools that produced the evidence."""

    musaagent: str
    python: str
    torch: str
    compiler: str
    nvcc: str
    machine: str
    """Kernel, architecture and C library, as `Linux 6.1 x86_64 glibc 2.36`."""
    cpu: str
    cpu_count: int
    gpus: tuple[str, ...] = ()
    sandbox: str = ""


class RewardSettings(Record):
    """The free constants of MusaCoder's score; their published values are unknown."""

    speedup_weight: float = 1.0
    """Lambda: what one unit of speed-up is worth."""
    speedup_cap: float = 4.0
    """nu_max: speed-up above 1 that still counts."""


class RewardTerms(Record):
    """The parts of one candidate's score."""

    score: float
    fraction_passed: float
    """q: part of the trials that agreed with the reference."""
    legal: bool
    speedup: float | None = None
    """nu; None where the target has no timing, and then it earns nothing."""
    settings: RewardSettings = Field(default_factory=RewardSettings)


class EventBase(Record):
    kind: str
    schema_version: Literal[1] = 1
    event_id: str
    """Hash of trajectory, turn, kind and attempt: the same event has the same id after a resume."""
    trajectory_id: str
    turn: int = Field(ge=0)
    """0 for what belongs to no turn."""
    attempt: int = Field(default=0, ge=0)
    """How many events of this kind the turn had before this one."""
    time: datetime


class RunStarted(EventBase):
    kind: Literal["run_started"] = "run_started"
    task_name: str
    task_hash: str
    task_source: str
    settings: RunSettings
    environment: Environment


class ReferenceWritten(EventBase):
    """The policy wrote the task itself, from a description."""

    kind: Literal["reference"] = "reference"
    description: str
    answers: tuple[PolicyAnswer, ...]
    """Its tries, the one that was taken last."""


class PlanMade(EventBase):
    kind: Literal["plan"] = "plan"
    plan: Plan


class FeedbackGiven(EventBase):
    """What the policy was told before it answered in this turn."""

    kind: Literal["feedback"] = "feedback"
    phase: Phase
    text: str


class AnswerReceived(EventBase):
    """The policy's raw answer, written before anything is made of it."""

    kind: Literal["answer"] = "answer"
    phase: Phase
    policy: str
    answer: PolicyAnswer


class CandidateRead(EventBase):
    kind: Literal["candidate"] = "candidate"
    candidate: str
    parent: str | None = None
    source: str


class BuildDone(EventBase):
    kind: Literal["build"] = "build"
    candidate: str
    build: Build


class VerdictReached(EventBase):
    kind: Literal["verdict"] = "verdict"
    candidate: str
    """Empty for an extraction error."""
    verdict: Verdict
    same_as_turn: int | None = None
    """Set when the same text was judged in an earlier turn, and that verdict stands."""


class ProfileTaken(EventBase):
    kind: Literal["profile"] = "profile"
    candidate: str
    profile: Profile


class RewardGiven(EventBase):
    kind: Literal["reward"] = "reward"
    candidate: str
    reward: RewardTerms


class RunResumed(EventBase):
    kind: Literal["run_resumed"] = "run_resumed"
    environment: Environment
    remarks: tuple[str, ...] = ()
    """What the reader had to mend in the file, as a line cut short by a kill."""


class RunFinished(EventBase):
    kind: Literal["run_finished"] = "run_finished"
    status: RunStatus
    stop: StopReason
    best_turn: int | None
    candidate: str | None
    """Hash of the best candidate; None where no answer held one."""
    turns: int
    seconds: float
    """Wall time of the process that finished the run."""


Event = Annotated[
    RunStarted
    | ReferenceWritten
    | PlanMade
    | FeedbackGiven
    | AnswerReceived
    | CandidateRead
    | BuildDone
    | VerdictReached
    | ProfileTaken
    | RewardGiven
    | RunResumed
    | RunFinished,
    Field(discriminator="kind"),
]

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)


def parse_event(line: str | bytes) -> Event:
    """One line of a trajectory. Raises pydantic's ValidationError."""
    return _EVENT.validate_json(line)


def event_id(trajectory_id: str, turn: int, kind: str, attempt: int) -> str:
    return content_hash(f"{trajectory_id}/{turn}/{kind}/{attempt}")


def trajectory_id(task_hash: str, settings: RunSettings) -> str:
    """The identity of one sample: the same task, target, policy and seed give the same id."""
    sample: list[object] = [
        task_hash,
        settings.target,
        settings.warp_size,
        settings.policy,
        settings.seed,
    ]
    if settings.served is not None:
        sample += [settings.served.model, settings.served.repair_model]
    if settings.episode:
        sample.append(f"episode {settings.episode}")
    if settings.arch:
        sample.append(settings.arch)
    return content_hash("/".join(map(str, sample)))
