"""The protocol of a policy: from task, plan and one piece of feedback, write a candidate."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pydantic import Field

from musaagent.tools.opgraph import Plan
from musaagent.tools.results import Build, Profile, Record, Verdict

Phase = Literal["write", "repair", "optimise"]


@dataclass(frozen=True)
class TurnRecord:
    """An earlier turn, as the policy may see it."""

    turn: int
    phase: Phase
    candidate: str
    """Source text; empty when the answer held none."""
    build: Build | None = None
    verdict: Verdict | None = None
    profile: Profile | None = None
    policy_state: dict[str, Any] = field(default_factory=dict)
    """What the policy itself noted with that answer (JSON values only)."""
    answer: str = ""
    """The raw answer, thinking included."""
    feedback: str = ""
    """What the policy was told before it gave this answer."""


@dataclass(frozen=True)
class PolicyRequest:
    task_source: str
    plan: Plan
    target: str
    warp_size: int
    turn: int
    phase: Phase
    feedback: str = ""
    """One critical thing first; empty in the first turn."""
    history: tuple[TurnRecord, ...] = ()
    seed: int = 0


class PolicyAnswer(Record):
    """One raw answer. `text` is what the extractor reads; everything else goes to the trace."""

    text: str
    refusal: str = ""
    """Set when the policy cannot write a candidate: what it lacks, as `no family for aten.fft`."""
    model: str = ""
    messages: tuple[dict[str, Any], ...] = ()
    sampling: dict[str, Any] = Field(default_factory=dict)
    finish_reason: str = "stop"
    usage: dict[str, int] = Field(default_factory=dict)
    prompt_token_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    """None where the server gave none; `remarks` says so."""
    logprobs: tuple[float, ...] | None = None
    reasoning: str = ""
    """Thinking that the server sent in a field of its own."""
    remarks: tuple[str, ...] = ()
    """How the answer was come by: what was retried, left out or not given."""
    latency_s: float = 0.0
    policy_state: dict[str, Any] = Field(default_factory=dict)


class Policy(Protocol):
    """Raises PolicyUnavailable where no answer can be had at all.

    One that holds connections also has `close()` and `check()`; one that can write a reference,
    `describe()`.
    """

    name: str

    def propose(self, request: PolicyRequest) -> PolicyAnswer: ...


@dataclass(frozen=True)
class Progress:
    """A model at work: what has come so far of one answer."""

    model: str
    thinking: int
    """Characters of thinking."""
    answering: int
    """Characters after it."""
    seconds: float
    tail: str
    """The line that is being written."""


Live = Callable[[Progress], None]
