"""What the front doors answer with: one object, the same for Python, `--json` and results.jsonl."""

import json
from pathlib import Path
from typing import Any

from musaagent.errors import AwaitingAnswer, MusaagentError, UsageError
from musaagent.policies.policy import PolicyAnswer
from musaagent.ranking import best_turn
from musaagent.rundir import RunDir, write_whole
from musaagent.tools.results import Record, Status, Verdict
from musaagent.traces.schema import (
    AnswerReceived,
    RewardGiven,
    RunFinished,
    RunStarted,
    RunStatus,
    StopReason,
    VerdictReached,
)
from musaagent.traces.store import Trajectory


class RunError(Record):
    """Why a run failed, when the fault was not the candidate's."""

    type: str
    """Name of the exception, as `ToolchainMissing`."""
    message: str

    @classmethod
    def of(cls, error: BaseException) -> "RunError":
        known = isinstance(error, MusaagentError)
        message = str(error) if known else f"{type(error).__name__}: {error}"
        return cls(type=type(error).__name__, message=message)


class RunResult(Record):
    """The outcome of one solve."""

    status: RunStatus
    target: str
    candidate: str | None = None
    """Path of the proven kernel; None where none passed."""
    run: str | None = None
    """The run's folder."""
    turns: int = 0
    verdict: Verdict | None = None
    """Of the best candidate."""
    flags: tuple[str, ...] = ()
    seconds: float = 0.0
    op: str = ""
    """The op file as it was named."""
    task: str = ""
    """The task's content hash."""
    stop: StopReason | None = None
    best_turn: int | None = None
    attempt: str | None = None
    """Path of the candidate that came furthest, where none passed."""
    reason: str = ""
    """One line: why it is not solved."""
    error: RunError | None = None
    episode: int | None = None
    """Number of the sample, in a collection."""
    trajectory_id: str = ""
    turn_statuses: tuple[Status, ...] = ()
    turn_scores: tuple[float | None, ...] = ()
    """One for each verdict, as `traces/rewards.py` has it; None for our own failure."""
    token_exact: bool = False
    """Whether every answer came with its token ids, those of its prompt, and log-probabilities."""


def as_json(record: Record, **more: Any) -> dict[str, Any]:
    """Plain values; NaN and infinities as strings, so that the text is JSON for every reader."""
    plain: dict[str, Any] = json.loads(record.model_dump_json())
    return plain | more


def stored_result(run: RunDir, trajectory: Trajectory, op: str = "") -> RunResult:
    """The result of a run as its files tell it; `failed` while it is unfinished."""
    started = started_event(run.trajectory, trajectory)
    best = best_turn(trajectory)
    reached = trajectory.find(VerdictReached, best) if best is not None else None
    verdict = reached.verdict if reached else None
    ended = trajectory.last(RunFinished)
    solved = verdict is not None and verdict.status is Status.PASSED
    return RunResult(
        status=ended.status if ended else RunStatus.FAILED,
        target=started.settings.target,
        candidate=str(run.candidate) if solved else None,
        run=str(run.path),
        turns=ended.turns if ended else _turns(trajectory),
        verdict=verdict,
        flags=verdict.flags if verdict else (),
        seconds=ended.seconds if ended else 0.0,
        op=op or started.task_name,
        task=started.task_hash,
        stop=ended.stop if ended else None,
        best_turn=best,
        attempt=str(run.attempt) if reached and not solved else None,
        reason=_reason(trajectory, verdict, ended),
        trajectory_id=started.trajectory_id,
        **_turn_records(trajectory),
    )


def _turn_records(trajectory: Trajectory) -> dict[str, Any]:
    """What a trainer chooses by, turn for turn."""
    reached = trajectory.all(VerdictReached)
    given = {event.turn: event.reward.score for event in trajectory.all(RewardGiven)}
    answers = [event.answer for event in trajectory.all(AnswerReceived)]
    return {
        "turn_statuses": tuple(event.verdict.status for event in reached),
        "turn_scores": tuple(given.get(event.turn) for event in reached),
        "token_exact": bool(answers) and all(token_exact(answer) for answer in answers),
    }


def token_exact(answer: PolicyAnswer) -> bool:
    """Whether a trainer needs no tokenizer for it."""
    ids, logprobs = answer.token_ids, answer.logprobs
    if ids is None or logprobs is None or answer.prompt_token_ids is None:
        return False
    return len(ids) == len(logprobs)


def awaiting_result(
    run: RunDir, trajectory: Trajectory, waiting: AwaitingAnswer, op: str = ""
) -> RunResult:
    """A run that stands still; its request is put beside it, as a batch file of one line."""
    line = getattr(waiting, "line", None)
    if line is not None:
        write_whole(run.requests, json.dumps(line) + "\n")
    how = f"{waiting}; send {run.requests}, then: musaagent resume {run.path} --answers RESULTS"
    update = {"status": RunStatus.AWAITING_MODEL, "reason": how}
    return stored_result(run, trajectory, op).model_copy(update=update)


def started_event(path: Path, trajectory: Trajectory) -> RunStarted:
    """How the run began. Raises UsageError for a file that begins otherwise."""
    first = trajectory.events[0]
    if not isinstance(first, RunStarted):
        raise UsageError(f"{path}: the first event is {first.kind!r}, not run_started")
    return first


def _turns(trajectory: Trajectory) -> int:
    return max((event.turn for event in trajectory.all(VerdictReached)), default=0)


def _reason(trajectory: Trajectory, verdict: Verdict | None, ended: RunFinished | None) -> str:
    if ended is None:
        return "the run is not finished; go on with musaagent resume"
    if ended.status is RunStatus.SOLVED:
        return ""
    refusals = [e.answer.refusal for e in trajectory.all(AnswerReceived) if e.answer.refusal]
    if verdict is None:
        last = trajectory.last(VerdictReached)
        verdict = last.verdict if last else None
    furthest = f"{verdict.status}: {verdict.message}" if verdict else ""
    return "; ".join(part for part in (furthest, *refusals[-1:]) if part)
