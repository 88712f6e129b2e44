"""The only module that prints: results on stdout, progress and errors on stderr."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.status import Status
from rich.table import Table
from rich.text import Text

from musaagent.app import Step
from musaagent.collecting import groups, is_collection
from musaagent.collecting import summary as collection_summary
from musaagent.doctor import Findings
from musaagent.evaluation import EvalObserver, outcome_word, summary
from musaagent.lines import build_line, plan_lines, profile_lines, verdict_lines
from musaagent.policies.policy import Progress as ModelProgress
from musaagent.result import RunResult
from musaagent.tools.results import Verdict
from musaagent.traces.report import STOP_WORDS, counted
from musaagent.traces.schema import (
    AnswerReceived,
    BuildDone,
    CandidateRead,
    FeedbackGiven,
    PlanMade,
    ProfileTaken,
    RewardGiven,
    RunStarted,
    RunStatus,
    VerdictReached,
)
from musaagent.traces.speed import speed_lines
from musaagent.traces.store import Trajectory

_PIPE_WIDTH = 160
"""Columns where stdout is no terminal: tables are for reading, lines are not cut."""
_STYLES = {
    "solved": "bold green",
    "passed": "bold green",
    "not_solved": "bold yellow",
    "awaiting_model": "bold yellow",
    "failed": "bold red",
}


def print_json(value: dict[str, Any]) -> None:
    """The one object that --json promises, on one line."""
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")
    sys.stdout.flush()


def show_raw(text: str) -> None:
    """Text for another program, a patch say: not a character of it is changed."""
    sys.stdout.write(text)
    sys.stdout.flush()


def say_error(line: str) -> None:
    """One line on stderr, whatever the message holds."""
    sys.stderr.write(" ".join(_clean(line).split()) + "\n")


class Watch:
    """On a terminal: a line for every node that ends, and the node or the model at work below."""

    def __init__(self, console: Console, status: Status) -> None:
        self._console = console
        self._status = status
        self._began: dict[str, float] = {}
        self._label = "starting"

    def __call__(self, step: Step) -> None:
        if step.update is None:
            self._label = f"turn {step.turn} {step.node}" if step.turn else step.node
            self._began[step.node] = time.monotonic()
            self._status.update(self._label)
            return
        took = time.monotonic() - self._began.get(step.node, time.monotonic())
        said = step.update.get("stop") or step.update.get("outcome") or "done"
        self._console.print(Text(f"{step.node:<8} {said:<11} {took:6.1f} s"))

    def live(self, progress: ModelProgress) -> None:
        """What a model has written so far, and the line it is at."""
        doing = f"writing, {progress.answering:,} characters"
        if not progress.answering:
            doing = f"thinking, {progress.thinking:,} characters"
        head = f"{self._label}: {progress.model} {doing}, {progress.seconds:.0f} s  "
        tail = _clean(progress.tail.replace("\t", " "))
        room = max(self._console.width - len(head) - 4, 0)
        self._status.update(Text(head + tail[:room], no_wrap=True))


@contextmanager
def progress(quiet: bool) -> Iterator[Watch | None]:
    """Progress on stderr, where it is a terminal."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    with console.status("starting") as status:
        yield Watch(console, status)


class _EvalLines:
    """Without a terminal: one line on stderr for each op."""

    def begin(self, total: int, known: int) -> None:
        self.total, self.count = total, known
        say_error(f"{total} runs, {known} of them have a result already")

    def finished(self, result: RunResult) -> None:
        self.count += 1
        said = f"{result.status.value:<10} {result.seconds:6.1f} s  {_run_name(result)}"
        sys.stderr.write(f"{self.count:>4}/{self.total} {_clean(said)}\n")

    def end(self) -> None:
        pass


class _EvalBar:
    """On a terminal: a bar, and a line above it for each op."""

    def __init__(self, console: Console) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(TextColumn("{task.description}"), *columns, console=console)

    def begin(self, total: int, known: int) -> None:
        self._progress.start()
        self._task = self._progress.add_task("solving", total=total, completed=known)

    def finished(self, result: RunResult) -> None:
        said = f" {result.seconds:6.1f} s  {_run_name(result)}"
        line = Text.assemble(_status(result.status), said)
        self._progress.console.print(line)
        self._progress.advance(self._task)

    def end(self) -> None:
        self._progress.stop()


def _run_name(result: RunResult) -> str:
    return result.op if result.episode is None else f"{result.op}, episode {result.episode}"


def eval_progress(quiet: bool) -> EvalObserver | None:
    if quiet:
        return None
    console = Console(stderr=True)
    return _EvalBar(console) if console.is_terminal else _EvalLines()


def show_reference(source: str) -> None:
    """The reference that a model wrote, before it is relied on."""
    out = _stdout()
    out.print(Text("The model wrote this reference; read it, for it decides what is correct:"))
    for line in source.rstrip("\n").split("\n"):
        _line(out, f"    {line}")


def show_result(result: RunResult) -> None:
    """What solve and resume tell a person."""
    out = _stdout()
    stop = f"; {STOP_WORDS[result.stop]}" if result.stop else ""
    out.print(
        Text.assemble(
            _status(result.status),
            f"  {result.op}  {counted(result.turns, 'turn')}, {result.seconds:.1f} s{stop}",
        )
    )
    if result.candidate:
        _line(out, f"kernel   {result.candidate}")
        timing = result.verdict.timing if result.verdict else None
        for line in speed_lines(timing) if timing else ():
            _line(out, f"speed    {line.strip()}")
    elif result.attempt:
        _line(out, f"attempt  {result.attempt} (did not pass)")
    if result.status is RunStatus.AWAITING_MODEL:
        _line(out, f"requests {result.run}/requests.jsonl")
    else:
        _line(out, f"report   {result.run}/report.md")
    _line(out, f"turns    musaagent show {result.run}")
    if result.reason:
        _line(out, f"why      {result.reason}")
    for flag in result.flags:
        _line(out, f"flag     {flag}")


def show_verdict(verdict: Verdict) -> None:
    out = _stdout()
    head = f"  {verdict.message}" if verdict.message else f"  on target {verdict.target}"
    out.print(Text.assemble(_status(verdict.status), _clean(head)))
    for line in verdict_lines(verdict):
        _line(out, line)


def show_batch_row(row: dict[str, Any]) -> None:
    """One finished row of `verify --batch`."""
    verdict = row["verdict"] or {}
    message = row["error"] or verdict.get("message") or ""
    head = f"  {row['id']}" + (f"  {message}" if message else "")
    _stdout().print(Text.assemble(_status(row["status"]), _clean(head)))


def show_text(text: str) -> None:
    out = _stdout()
    for line in text.split("\n"):
        _line(out, line)


def show_run(result: RunResult, trajectory: Trajectory) -> None:
    """A run for a person: every turn with its evidence."""
    out = _stdout()
    started = trajectory.all(RunStarted)[0]
    status = result.status if result.stop else "unfinished"
    out.print(Text.assemble(_status(status), f"  {started.task_name}  {result.run}"))
    chosen, machine = started.settings, started.environment
    _line(out, f"target {chosen.target}, policy {chosen.policy}, {started.time:%Y-%m-%d %H:%M} UTC")
    _line(out, f"{machine.cpu_count} x {machine.cpu}, torch {machine.torch}, {machine.compiler}")
    for remark in trajectory.remarks:
        _line(out, f"remark: {remark}")
    if planned := trajectory.find(PlanMade, 0):
        for line in plan_lines(planned.plan):
            _line(out, line)
    for received in trajectory.all(AnswerReceived):
        _show_turn(out, trajectory, received, best=received.turn == result.best_turn)
    if result.reason:
        _line(out, f"\n{result.reason}")


def show_table(results: list[RunResult]) -> None:
    """Status by file, and the sums below; of a collection, a line for each task."""
    if is_collection(results):
        _show_collection(results)
        return
    table = Table("file", "status", "turns", "outcome", "seconds", "reason", box=None)
    for result in results:
        table.add_row(
            _clean(result.op),
            _status(result.status),
            str(result.turns),
            outcome_word(result),
            f"{result.seconds:.1f}",
            Text(_clean(result.reason), overflow="ellipsis", no_wrap=True),
        )
    out = _stdout()
    out.print(table)
    sums = summary(results)
    _line(
        out,
        f"{sums['total']} ops: {sums['solved']} solved, {sums['not_solved']} not solved, "
        f"{sums['failed']} failed, {sums['awaiting_model']} waiting; "
        f"{sums['seconds']:.0f} s of solving",
    )
    for reason, count in sums["reasons"].items():
        _line(out, f"    {count} x {reason}")


def _show_collection(results: list[RunResult]) -> None:
    table = Table("file", "episodes", "solved", "turns", "mean score", "outcomes", box=None)
    for group in groups(results):
        score = "" if group.mean_score is None else f"{group.mean_score:.2f}"
        counts = (str(len(group.results)), str(group.solved), str(group.turns))
        table.add_row(_clean(group.op), *counts, score, Text(_clean(group.outcomes)))
    out = _stdout()
    out.print(table)
    sums = collection_summary(results)
    _line(
        out,
        f"{sums['total']} episodes of {counted(sums['tasks'], 'task')}: {sums['solved']} solved, "
        f"{sums['not_solved']} not solved, {sums['failed']} failed, "
        f"{sums['awaiting_model']} waiting; {sums['token_exact']} with exact tokens",
    )


def show_doctor(findings: Findings) -> None:
    out = _stdout()
    _line(out, f"{findings.python}; torch {findings.torch or 'none'}")
    _line(out, f"{findings.cpu_count} x {findings.cpu}; GPUs: {', '.join(findings.gpus) or 'none'}")
    for name, version in findings.compilers.items():
        _line(out, f"{name}: {version or 'not found'}")
    _line(out, f"sandbox: {findings.sandbox}")
    _line(out, f"cache: {findings.cache} ({findings.cache_bytes / 1e6:.0f} MB)")
    for target in findings.targets:
        word = Text("ready", style="bold green") if target.ready else Text("no", style="bold red")
        out.print(Text.assemble(f"target {target.name}: ", word, f"  {target.remark}"))
        for need in target.needs:
            mark = "ok" if need.ok else "missing" if need.required else "absent (optional)"
            remedy = "" if need.ok or not need.remedy else f" -> {need.remedy}"
            _line(out, f"    {need.name}: {mark}: {need.detail}{remedy}")


def _show_turn(out: Console, trajectory: Trajectory, received: AnswerReceived, best: bool) -> None:
    turn = received.turn
    out.print()
    out.rule(f"turn {turn}: {received.phase}{' (best)' if best else ''}", align="left")
    if told := trajectory.find(FeedbackGiven, turn):
        _block(out, "feedback", told.text)
    answer = received.answer
    usage = ", ".join(f"{count} {name}" for name, count in answer.usage.items())
    model = f" {answer.model}" if answer.model not in ("", received.policy) else ""
    _line(out, f"answer: {received.policy}{model}, {answer.latency_s:.1f} s {usage}".rstrip())
    for remark in answer.remarks:
        _line(out, f"    {remark}")
    if answer.refusal:
        _line(out, f"refused: {answer.refusal}")
    if read := trajectory.find(CandidateRead, turn):
        lines = read.source.count("\n")
        _line(out, f"candidate: {read.candidate}, {lines} lines, parent {read.parent or 'none'}")
    if built := trajectory.find(BuildDone, turn):
        _line(out, build_line(built.build))
    if reached := trajectory.find(VerdictReached, turn):
        verdict = reached.verdict
        text = f"  {verdict.message}" if verdict.message else ""
        out.print(Text.assemble("verdict: ", _status(verdict.status), _clean(text)))
        for line in verdict_lines(verdict):
            _line(out, f"    {line}")
    if taken := trajectory.find(ProfileTaken, turn):
        for line in profile_lines(taken.profile):
            _line(out, line)
    if given := trajectory.find(RewardGiven, turn):
        nu = given.reward.speedup
        earned = "" if nu is None else f", with a speed-up of {nu:.2f} over eager"
        _line(out, f"reward: {given.reward.score:g}{earned}")


def _block(out: Console, title: str, text: str) -> None:
    _line(out, f"{title}:")
    for line in text.split("\n"):
        _line(out, f"    {line}")


def _status(status: str) -> Text:
    return Text(str(status), style=_STYLES.get(str(status), "bold red"))


class _Out(Console):
    def on_broken_pipe(self) -> None:
        """Rich would exit with 1 here; the command line decides that itself."""
        raise BrokenPipeError


def _stdout() -> Console:
    return _Out() if sys.stdout.isatty() else _Out(width=_PIPE_WIDTH)


def _line(out: Console, text: str) -> None:
    out.print(Text(_clean(text)), soft_wrap=True)


def _clean(text: str) -> str:
    """Without control characters: candidate text must not write to the terminal's own controls."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
