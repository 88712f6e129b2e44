"""The six nodes: read the state, ask one collaborator, return what changed.

A node may run twice, when the process was killed inside it. So it looks into the trajectory first,
and what it finds there it does not ask again.
"""

import time
from typing import Any

from langgraph.runtime import Runtime

from musaagent.errors import SandboxLost
from musaagent.policies.policy import Phase, PolicyAnswer, PolicyRequest, TurnRecord
from musaagent.ranking import best_turn
from musaagent.state import Context, State
from musaagent.tools.candidate import Candidate
from musaagent.tools.extract import ExtractionError, extract, extraction_verdict
from musaagent.tools.feedback import first_errors, optimise_feedback, repair_feedback
from musaagent.tools.results import Build, Status, Verdict
from musaagent.tools.target import VerifyOptions
from musaagent.tools.task import Task
from musaagent.traces.rewards import score
from musaagent.traces.schema import (
    AnswerReceived,
    BuildDone,
    CandidateRead,
    FeedbackGiven,
    PlanMade,
    ProfileTaken,
    RewardGiven,
    StopReason,
    VerdictReached,
)

Update = dict[str, Any]


def plan(state: State, runtime: Runtime[Context]) -> Update:
    """Trace and measure the op, without a model."""
    context = runtime.context
    if context.trace.trajectory.find(PlanMade, turn=0) is None:
        context.trace.record(PlanMade, 0, plan=context.target.plan(context.task))
    return {"max_turns": context.settings.max_turns}


def write(state: State, runtime: Runtime[Context]) -> Update:
    """Ask for the first candidate."""
    return _ask(runtime.context, turn=1, phase="write", feedback="", parent=None)


def revise(state: State, runtime: Runtime[Context]) -> Update:
    """Ask for the next candidate, with the one thing to mend or to speed up."""
    phase, feedback = _feedback(runtime.context, state)
    return _ask(runtime.context, state.turn + 1, phase, feedback, parent=state.candidate or None)


def compile_candidate(state: State, runtime: Runtime[Context]) -> Update:
    """Build every library that the candidate asks for."""
    context, trace = runtime.context, runtime.context.trace
    if not state.candidate:
        return {"outcome": "failed"}
    if (done := trace.trajectory.find(BuildDone, state.turn)) is None:
        known = trace.trajectory.of_candidate(BuildDone, state.candidate)
        build = known.build if known else context.target.build(*_work(context, state))
        done = trace.record(BuildDone, state.turn, candidate=state.candidate, build=build)
    if done.build.ok:
        return {"outcome": "built"}
    _judge(context, state.turn, state.candidate, _refused(done.build, context.target.name))
    return {"outcome": "failed", "best_turn": best_turn(trace.trajectory)}


def test_candidate(state: State, runtime: Runtime[Context]) -> Update:
    """Run it beside the reference and judge the values, the watched run included."""
    context, trace = runtime.context, runtime.context.trace
    known = trace.trajectory.of_candidate(VerdictReached, state.candidate)
    verdict = known.verdict if known else context.target.verify(*_work(context, state))
    if verdict.status is Status.INFRA_ERROR:
        raise SandboxLost(f"turn {state.turn}: no verdict: {verdict.message}")
    _judge(context, state.turn, state.candidate, verdict)
    outcome = "passed" if verdict.status is Status.PASSED else "failed"
    return {"outcome": outcome, "best_turn": best_turn(trace.trajectory)}


def profile_candidate(state: State, runtime: Runtime[Context]) -> Update:
    """Find the bottleneck of a candidate that passed."""
    context, trace = runtime.context, runtime.context.trace
    if (taken := trace.trajectory.find(ProfileTaken, state.turn)) is None:
        known = trace.trajectory.of_candidate(ProfileTaken, state.candidate)
        found = known.profile if known else context.target.profile(*_work(context, state))
        taken = trace.record(ProfileTaken, state.turn, candidate=state.candidate, profile=found)
    kept = {"best_turn": best_turn(trace.trajectory)}
    if taken.profile.suggestion:
        return {"outcome": "improvable", **kept}
    return {"outcome": "done", "stop": StopReason.GOAL.value, **kept}


def _ask(context: Context, turn: int, phase: Phase, feedback: str, parent: str | None) -> Update:
    """One turn's answer, from the trajectory or from the policy, and the candidate in it."""
    trace = context.trace
    if (received := trace.trajectory.find(AnswerReceived, turn)) is None:
        if feedback and trace.trajectory.find(FeedbackGiven, turn) is None:
            trace.record(FeedbackGiven, turn, phase=phase, text=feedback)
        answer = _propose(context, turn, phase, feedback)
        received = trace.record(
            AnswerReceived, turn, phase=phase, policy=context.policy.name, answer=answer
        )
    if received.answer.refusal:
        return {"stop": StopReason.REFUSED.value}
    update: Update = {"turn": turn, "phase": phase, "candidate": "", "outcome": "asked"}
    found = extract(received.answer.text, parent, received.answer.finish_reason)
    if isinstance(found, ExtractionError):
        _judge(context, turn, "", extraction_verdict(found, context.target.name))
        return update
    seen = trace.trajectory.of_candidate(CandidateRead, found.hash)
    if phase == "optimise" and seen is not None and seen.turn < turn:
        return {"stop": StopReason.REPEATED.value}
    if trace.trajectory.find(CandidateRead, turn) is None:
        trace.record(CandidateRead, turn, candidate=found.hash, parent=parent, source=found.source)
    return {**update, "candidate": found.hash}


def _propose(context: Context, turn: int, phase: Phase, feedback: str) -> PolicyAnswer:
    planned = context.trace.trajectory.find(PlanMade, turn=0)
    assert planned is not None, "plan runs before write"
    request = PolicyRequest(
        task_source=context.task.source,
        plan=planned.plan,
        # A rehearsal for a Moore Threads card is written in its dialect, wherever it runs.
        target="musa" if context.settings.arch else context.target.name,
        warp_size=context.settings.warp_size,
        turn=turn,
        phase=phase,
        feedback=feedback,
        history=tuple(_record(context, earlier) for earlier in range(1, turn)),
        seed=(context.settings.seed or 0) + context.settings.episode,
    )
    start = time.monotonic()
    answer = context.policy.propose(request)
    if answer.latency_s:
        return answer
    return answer.model_copy(update={"latency_s": time.monotonic() - start})


def _record(context: Context, turn: int) -> TurnRecord:
    trajectory = context.trace.trajectory
    received = trajectory.find(AnswerReceived, turn)
    assert received is not None, f"turn {turn} has no answer"
    read = trajectory.find(CandidateRead, turn)
    built = trajectory.find(BuildDone, turn)
    reached = trajectory.find(VerdictReached, turn)
    taken = trajectory.find(ProfileTaken, turn)
    told = trajectory.find(FeedbackGiven, turn)
    return TurnRecord(
        turn=turn,
        phase=received.phase,
        candidate=read.source if read else "",
        build=built.build if built else None,
        verdict=reached.verdict if reached else None,
        profile=taken.profile if taken else None,
        policy_state=received.answer.policy_state,
        answer=received.answer.text,
        feedback=told.text if told else "",
    )


def _feedback(context: Context, state: State) -> tuple[Phase, str]:
    """Repair what failed; else the bottleneck of what passed."""
    trajectory = context.trace.trajectory
    reached = trajectory.find(VerdictReached, state.turn)
    assert reached is not None, f"turn {state.turn} has no verdict"
    if reached.verdict.status is Status.PASSED:
        taken = trajectory.find(ProfileTaken, state.turn)
        assert taken is not None, f"turn {state.turn} has no profile"
        return "optimise", optimise_feedback(taken.profile)
    planned = trajectory.find(PlanMade, turn=0)
    text = repair_feedback(reached.verdict, planned.plan.traps if planned else ())
    if reached.same_as_turn is not None:
        text = f"This is the candidate of turn {reached.same_as_turn} again; change it.\n{text}"
    elif state.best_turn is not None and _passed(context, state.best_turn):
        text = f"The candidate of turn {state.best_turn} passed; this change broke it.\n{text}"
    return "repair", text


def _judge(context: Context, turn: int, candidate: str, verdict: Verdict) -> None:
    """Record a verdict and its reward, once."""
    trace = context.trace
    if trace.trajectory.find(VerdictReached, turn) is None:
        known = trace.trajectory.of_candidate(VerdictReached, candidate) if candidate else None
        same = known.turn if known else None
        trace.record(VerdictReached, turn, candidate=candidate, verdict=verdict, same_as_turn=same)
    reward = score(verdict)
    if reward is not None and trace.trajectory.find(RewardGiven, turn) is None:
        trace.record(RewardGiven, turn, candidate=candidate, reward=reward)


def _refused(build: Build, target: str) -> Verdict:
    errors = first_errors(build)
    message = errors[0].message if errors else "the build failed"
    if errors and errors[0].line:
        message = f"{errors[0].source}:{errors[0].line}: {message}"
    return Verdict(status=Status.COMPILE_ERROR, target=target, message=message, build=build)


def _work(context: Context, state: State) -> tuple[Task, Candidate, VerifyOptions]:
    """What every target call takes."""
    read = context.trace.trajectory.find(CandidateRead, state.turn)
    assert read is not None, f"turn {state.turn} has no candidate"
    return context.task, Candidate(read.source, read.parent), context.options


def _passed(context: Context, turn: int) -> bool:
    reached = context.trace.trajectory.find(VerdictReached, turn)
    return reached is not None and reached.verdict.status is Status.PASSED
