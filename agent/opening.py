"""From settings to a policy: what each name needs, and who closes it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from musaagent.errors import UsageError
from musaagent.policies.policy import Live, Policy
from musaagent.policies.settings import ServedSettings
from musaagent.rundir import natural_order, read_text
from musaagent.traces.schema import AnswerReceived, RunSettings, RunStarted
from musaagent.traces.store import read_trajectory

MODEL_POLICIES = ("served", "offline", "cascade")
"""Those that ask a model, and take its settings."""


def open_policy(settings: RunSettings, live: Live | None = None) -> Policy:
    """Raises UsageError for what the policy lacks, or a name that this version does not have."""
    match settings.policy:
        case "builtin":
            from musaagent.policies.builtin import BuiltinPolicy

            return BuiltinPolicy()
        case "scripted":
            from musaagent.policies.scripted import ScriptedPolicy

            return ScriptedPolicy(read_scripts(settings.answers))
        case "replay":
            return open_replay(settings.answers)
        case "served" | "offline" | "cascade":
            return _open_model(settings, live)
    raise UsageError(f"no policy {settings.policy!r} in this version; give the policy as an object")


def _open_model(settings: RunSettings, live: Live | None) -> Policy:
    served = settings.served or ServedSettings()
    check_model_settings(settings.policy, served)
    if settings.policy == "offline":
        from musaagent.policies.offline import OfflinePolicy

        return OfflinePolicy(served)
    from musaagent.policies.served import ServedPolicy

    if settings.policy == "served":
        return ServedPolicy(served, live)
    from musaagent.policies.cascade import CascadePolicy

    small, large = ServedPolicy(served, live), ServedPolicy(served.larger, live)
    return CascadePolicy(small, large, served.patience)


def check_model_settings(policy: str, served: ServedSettings) -> None:
    """Raises UsageError, naming the option that is missing."""
    if not served.model:
        raise UsageError(f"policy {policy} needs --model NAME")
    if policy != "offline" and not served.base_url:
        raise UsageError(f"policy {policy} needs --base-url http://HOST:PORT/v1")
    if policy == "cascade" and not served.repair_model:
        raise UsageError("policy cascade needs --repair-model NAME, the larger model")


@contextmanager
def lent_policy(policy: str | Policy, settings: RunSettings, live: Live | None) -> Iterator[Policy]:
    """A policy by name is opened and closed here; one that was given is left open.

    Raises PolicyUnavailable where its server is not there: that is known in a second, and what
    comes next takes longer.
    """
    if not isinstance(policy, str):
        yield policy
        return
    opened = open_policy(settings, live)
    try:
        if (check := getattr(opened, "check", None)) is not None:
            check()
        yield opened
    finally:
        close_policy(opened)


def close_policy(policy: Policy) -> None:
    """End its connections, where it has any; requests under way are cancelled."""
    if (close := getattr(policy, "close", None)) is not None:
        close()


def read_scripts(folder: str) -> Sequence[str]:
    """The files of a folder in the natural order of their names, one answer each."""
    if not folder:
        raise UsageError("policy scripted needs --answers DIR")
    path = Path(folder)
    if not path.is_dir():
        raise UsageError(f"{path}: no such folder of answers")
    files = [file for file in path.iterdir() if file.is_file()]
    files.sort(key=lambda file: natural_order(file.name))
    if not files:
        raise UsageError(f"{path}: the folder of answers is empty")
    return [read_text(file, "answer") for file in files]


def open_replay(run: str) -> Policy:
    """The recorded answers of a run's folder, or of a trajectory file."""
    from musaagent.policies.replay import ReplayPolicy

    if not run:
        raise UsageError("policy replay needs --answers RUN, the folder of a recorded run")
    path = Path(run)
    trajectory = read_trajectory(path / "trajectory.jsonl" if path.is_dir() else path)
    started = trajectory.all(RunStarted)
    if not started:
        raise UsageError(f"{path}: the trajectory does not begin with run_started")
    turns = {event.turn: event.answer for event in trajectory.all(AnswerReceived)}
    answers = [turns[turn] for turn in sorted(turns)]
    if not answers:
        raise UsageError(f"{path}: the recorded run has no answer to replay")
    return ReplayPolicy(answers, started[0].task_hash)
