"""What the graph remembers between nodes: small plain values, and references into the trajectory.

Sources, logs and verdicts stay in the trajectory and are looked up by turn; a checkpoint that held
them would grow with every turn.
"""

from dataclasses import dataclass
from typing import Literal

from musaagent.policies.policy import Phase, Policy
from musaagent.tools.target import Target, VerifyOptions
from musaagent.tools.task import Task
from musaagent.traces.schema import RunSettings
from musaagent.traces.store import TraceStore

Outcome = Literal["asked", "built", "failed", "passed", "improvable", "done"]
"""Where the turn stands: answered; compiled; not compiled or not correct; correct; correct with
something left to try; nothing left to try."""


@dataclass
class State:
    max_turns: int = 6
    turn: int = 0
    phase: Phase = "write"
    candidate: str = ""
    """Hash of this turn's candidate; empty when the answer held none."""
    outcome: Outcome = "asked"
    best_turn: int | None = None
    stop: str = ""
    """A `StopReason`, once there is one; as a string, which a checkpoint stores as it is."""


@dataclass(frozen=True)
class Context:
    """The collaborators of a run; nodes reach them through `Runtime[Context]`."""

    task: Task
    target: Target
    policy: Policy
    trace: TraceStore
    settings: RunSettings

    @property
    def options(self) -> VerifyOptions:
        chosen = self.settings
        return VerifyOptions(
            seed=chosen.seed,
            trials=chosen.trials,
            check=chosen.check,
            warp_size=chosen.warp_size,
            arch=chosen.arch,
            baselines=chosen.baselines,
            timeout_s=chosen.timeout_s,
            atol=chosen.atol,
            rtol=chosen.rtol,
        )
