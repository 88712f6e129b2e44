"""No op file: the policy writes the reference from a description, then the run goes on as ever."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from musaagent import app
from musaagent.errors import TaskError, UsageError
from musaagent.opening import lent_policy
from musaagent.policies.policy import Policy, PolicyAnswer
from musaagent.result import RunResult
from musaagent.rundir import write_whole
from musaagent.tools.candidate import content_hash
from musaagent.tools.extract import ExtractionError, extract
from musaagent.tools.target import Target
from musaagent.tools.task import load_task

if TYPE_CHECKING:
    from musaagent.display import Watch

TRIES = 3
FOLDER = Path("musaagent-runs")


def solve_described(
    description: str,
    *,
    target: str | Target = "host",
    policy: str | Policy = "served",
    out: str | Path | None = None,
    force: bool = False,
    watch: "Watch | None" = None,
    show: Callable[[str], None] | None = None,
    options: app.SolveOptions | None = None,
) -> RunResult:
    """Write the reference, show it, check that it runs, and solve it.

    Raises UsageError where the policy cannot write one, or none of its tries runs.
    """
    if not description.strip():
        raise UsageError("--describe: the description is empty")
    chosen: app.SolveOptions = {**(options or {}), "description": description}
    settings = app.settings_of(target, policy, chosen)
    live = watch.live if watch else None
    with lent_policy(policy, settings, live) as writer, app.lent_target(target) as place:
        source, answers = write_reference(description, writer, place, settings.seed or 0)
        if show is not None:
            show(source)
        name = f"described-{content_hash(description)[:8]}"
        folder = Path(out).parent if out is not None else FOLDER
        op = folder / f"{name}.py"
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(op, source)
        return app.solve(
            op,
            target=place,
            policy=writer,
            out=out,
            force=force,
            observer=watch,
            written=answers,
            **chosen,
        )


def write_reference(
    description: str, writer: Policy, target: Target, seed: int
) -> tuple[str, tuple[PolicyAnswer, ...]]:
    """A source that loads, traces and runs, and every answer on the way to it."""
    describe: Any = getattr(writer, "describe", None)
    if describe is None:
        raise UsageError(
            f"policy {writer.name} cannot write a reference; use --policy served or cascade"
        )
    answers: list[PolicyAnswer] = []
    fault = ""
    for attempt in range(TRIES):
        answer: PolicyAnswer = describe(description, fault, seed + attempt)
        answers.append(answer)
        found = extract(answer.text, None, answer.finish_reason, "Model")
        if isinstance(found, ExtractionError):
            fault = found.message
            continue
        fault = _fault(found.source, target)
        if not fault:
            return found.source, tuple(answers)
    raise TaskError(f"no usable reference in {TRIES} tries; describe it more precisely: {fault}")


def _fault(source: str, target: Target) -> str:
    """Why the reference cannot be used, as the target says; empty where it runs."""
    with tempfile.TemporaryDirectory(prefix="musaagent-") as folder:
        path = Path(folder) / "described.py"
        path.write_text(source, encoding="utf-8")
        try:
            task = load_task(path)
            target.plan(task)
        except TaskError as error:
            return str(error).replace(f"{folder}/", "")
    return ""
