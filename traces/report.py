"""The report beside the kernel: what was asked, what was proven and how, and what was not."""

from collections.abc import Iterable

from musaagent.policies.policy import PolicyAnswer
from musaagent.policies.settings import ServedSettings
from musaagent.tools.feedback import diagnostic_lines, finding_line, first_errors, sample_lines
from musaagent.tools.opgraph import Plan
from musaagent.tools.results import FindingKind, KernelResources, Profile, Status, Verdict
from musaagent.traces.schema import (
    AnswerReceived,
    BuildDone,
    Environment,
    PlanMade,
    ProfileTaken,
    ReferenceWritten,
    RunFinished,
    RunResumed,
    RunSettings,
    RunStarted,
    RunStatus,
    StopReason,
    VerdictReached,
)
from musaagent.traces.speed import speed_table
from musaagent.traces.store import Trajectory

STOP_WORDS = {
    StopReason.GOAL: "the profile had nothing left to suggest",
    StopReason.BUDGET: "every turn allowed was used",
    StopReason.REFUSED: "the policy had nothing further to offer",
    StopReason.REPEATED: "the policy offered a candidate that was already measured",
}


def render_report(trajectory: Trajectory) -> str:
    """Markdown, from the events alone. The trajectory must begin with run_started."""
    started = trajectory.all(RunStarted)[0]
    ended = trajectory.last(RunFinished)
    planned = trajectory.find(PlanMade, 0)
    plan = planned.plan if planned else None
    best = ended.best_turn if ended else None
    reached = trajectory.find(VerdictReached, best) if best is not None else None
    taken = trajectory.find(ProfileTaken, best) if best is not None else None
    verdict = reached.verdict if reached else None
    environment = _latest_environment(trajectory, started)
    sections = [
        _head(started, ended, verdict),
        _section("What was asked", _asked(started, plan)),
        _section("Where the reference is from", _written(trajectory)),
        _proven(verdict, plan, environment),
        _section("What was not proven", _not_proven(verdict, plan, started)),
        _section("Speed", speed_table(verdict.timing) if verdict and verdict.timing else []),
        _section("Kernels", _kernels(verdict, taken.profile if taken else None)),
        _section("Traps", [f"- {t.name}: {t.message}" for t in plan.traps] if plan else []),
        _section("Flags", [f"- {flag}" for flag in verdict.flags] if verdict else []),
        _section("Turns", _turns(trajectory)),
        _section("Environment", _environment(environment)),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _section(title: str, lines: Iterable[str]) -> str:
    body = "\n".join(lines)
    return f"## {title}\n\n{body}" if body else ""


def _head(started: RunStarted, ended: RunFinished | None, verdict: Verdict | None) -> str:
    status = ended.status if ended else RunStatus.FAILED
    title = f"# {started.task_name}: {status.replace('_', ' ')}"
    if ended is None:
        return f"{title}\n\nThe run is not finished."
    stop = STOP_WORDS[ended.stop]
    if status is RunStatus.SOLVED:
        return (
            f"{title}\n\n`candidate.py` (hash {ended.candidate}) is the candidate of turn "
            f"{ended.best_turn} of {ended.turns}. The run took {ended.seconds:.1f} s and ended "
            f"because {stop}."
        )
    turns = counted(ended.turns, "turn")
    lines = [f"No candidate passed in {turns}; the run ended because {stop}."]
    if verdict is not None:
        lines.append(
            f"`attempt.py` is the one that came furthest (turn {ended.best_turn}, "
            f"{verdict.status}: {_cell(verdict.message)}). **Do not use it as it is.**"
        )
    return "\n\n".join([title, *lines])


def _card(chosen: RunSettings) -> str:
    return f" for {chosen.arch}" if chosen.arch else ""


def _asked(started: RunStarted, plan: Plan | None) -> list[str]:
    chosen = started.settings
    seed = "none given: the verifier drew a secret one" if chosen.seed is None else chosen.seed
    lines = [
        f"- Op: `{started.task_name}`, content hash {started.task_hash}",
        f"- Target: {chosen.target}{_card(chosen)}, warps of {chosen.warp_size} lanes",
        f"- Policy: {chosen.policy}, at most {counted(chosen.max_turns, 'turn')}; seed: {seed}",
    ]
    if chosen.served is not None:
        lines.append(f"- Model: {_model(chosen.served)}")
    if plan is None:
        return lines
    if plan.trace_error:
        lines.append(f"- The op could not be traced: {plan.trace_error}")
    lines += [
        f"- Inputs: {_list(plan.input_shapes)}; outputs: {_list(plan.output_shapes)}",
        f"- Init inputs: `{plan.init_inputs}`" if plan.init_inputs else "",
        f"- Mode: {'train' if plan.training else 'eval'}",
        f"- Work at these shapes: {plan.flops:,} FLOPs; at least {plan.least_bytes:,} bytes "
        "must move (inputs and parameters read once, outputs written once)",
    ]
    return [line for line in lines if line]


def _model(served: ServedSettings) -> str:
    where = f" at {served.base_url}" if served.base_url else ""
    larger = f", then {served.repair_model}" if served.repair_model else ""
    drawn = f"temperature {served.temperature:g}, top-p {served.top_p:g}"
    return f"`{served.model}`{where}{larger}; {drawn}"


def _written(trajectory: Trajectory) -> list[str]:
    """Where the policy wrote the reference too, agreement with it proves less."""
    event = trajectory.last(ReferenceWritten)
    if event is None:
        return []
    return [
        "**The reference was written by the model**, from this description:",
        "",
        *[f"> {line}" for line in event.description.strip().split("\n")],
        "",
        "`task.py` holds it. What is proven below is agreement with that reference, not with the "
        "description: read it.",
    ]


def _proven(verdict: Verdict | None, plan: Plan | None, environment: Environment) -> str:
    if verdict is None:
        return ""
    if verdict.status is not Status.PASSED:
        return _section("What was found", _failure(verdict))
    passed = sum(trial.passed for trial in verdict.trials)
    worst = max((trial.worst for trial in verdict.trials), default=0.0)
    lines = [
        f"- {passed} of {len(verdict.trials)} trials agreed with the reference: "
        + "; ".join(trial.name for trial in verdict.trials),
        f"- Shapes that ran: {_list(verdict.shapes)}",
        *_scaling(plan),
        f"- Compared with: {verdict.reference or 'the reference'}",
        *[
            f"- Tolerance for {t.dtype}: atol {t.atol:g}, rtol {t.rtol:g}; {t.rule}"
            for t in verdict.tolerances
        ],
        f"- Margin: the largest error was {worst:.2%} of what was allowed",
        *_beyond(verdict),
        _checked(verdict),
        f"- Sandbox: {environment.sandbox}",
        *_build(verdict),
    ]
    return _section("What was proven, and how", lines)


def _beyond(verdict: Verdict) -> list[str]:
    """Runs at inputs, weights and sizes that the task does not draw."""
    if not verdict.probes:
        return []
    held = [probe.name for probe in verdict.probes if probe.passed]
    return [f"- Also tried, and right at {len(held)} of {len(verdict.probes)}: {', '.join(held)}"]


def _scaling(plan: Plan | None) -> list[str]:
    if plan is None or not plan.scaling:
        return []
    changed = ", ".join(f"{name}: {own} -> {ran}" for name, (own, ran) in plan.scaling.items())
    lines = [
        "- Scaled for the CPU: the op's own size constants were made smaller, and nothing else "
        f"of it was changed ({changed})"
    ]
    return lines + ([f"- {plan.scaling_note}"] if plan.scaling_note else [])


def _checked(verdict: Verdict) -> str:
    if not verdict.checked:
        return "- Checked run: none"
    remarks = [finding_line(f) for f in verdict.findings if f.kind is FindingKind.PARTIAL_WARP]
    said = "nothing was found" if not remarks else "remarks: " + "; ".join(remarks)
    if verdict.target == "cuda":
        return f"- Checked run: compute-sanitizer's checks, one call each; {said}"
    return f"- Checked run: every load and store was watched, on small shapes; {said}"


def _build(verdict: Verdict) -> list[str]:
    build = verdict.build
    if build is None:
        return []
    cached = ", from the cache" if build.cached else f", {build.compiler_seconds:.1f} s of compiler"
    kind = "Host build" if verdict.target == "host" else "Build"
    lines = [f"- {kind}: {build.level or 'none'} headers{cached}"]
    if build.real_compile:
        lines.append(f"- Real compile: {build.real_compile}")
    return lines


def _failure(verdict: Verdict) -> list[str]:
    lines = [f"{verdict.status}: {verdict.message}"]
    if verdict.build is not None:
        for diagnostic in first_errors(verdict.build)[:5]:
            lines += diagnostic_lines(diagnostic)
    for error in verdict.errors[:3]:
        lines += sample_lines(error)
    lines += [finding_line(finding) for finding in verdict.findings[:5]]
    return ["```", *lines, *verdict.details.split("\n")[-20:], "```"]


def _not_proven(verdict: Verdict | None, plan: Plan | None, started: RunStarted) -> list[str]:
    if verdict is None or verdict.status is not Status.PASSED:
        return ["- That any candidate is right."]
    lines = []
    if started.settings.target == "host":
        lines.append(
            "- Speed: the host target runs the kernel's threads on the CPU. Nothing was timed on "
            "a GPU, and no speed-up is claimed."
        )
    elif verdict.timing is None:
        lines.append("- Speed: nothing was timed, and no speed-up is claimed.")
    if plan is not None and plan.scaling:
        lines.append(
            f"- The op's own shapes ({_list(plan.input_shapes)}) were not run; what only shows at "
            "that size (an index that overflows, say) was not seen."
        )
    if not verdict.checked:
        lines.append("- That no load or store is out of bounds or races: no checked run ended.")
    if verdict.build is not None and not verdict.build.resources:
        why = verdict.build.real_compile or "it was not tried"
        lines.append(f"- That a GPU compiler accepts it: no real compile ({why}).")
    lanes = 128 if started.settings.warp_size == 32 else 32
    lines.append(f"- Warps of {lanes} lanes: only {started.settings.warp_size} were run.")
    lines.append("- Inputs of another kind than those that the op's own get_inputs() draws.")
    return lines


def _kernels(verdict: Verdict | None, profile: Profile | None) -> list[str]:
    launches = profile.launches if profile else verdict.launches if verdict else ()
    build = verdict.build if verdict else None
    resources = (profile.resources if profile else ()) or (build.resources if build else ())
    lines = []
    if launches:
        on_host = verdict is None or verdict.target == "host"
        small = verdict is not None and verdict.checked and on_host
        where = "the checked run's small" if small else "the trials'"
        lines += [
            f"Launches and bytes at {where} shapes:",
            "",
            "| kernel | grid | block | shared | launches | global read | global written |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
    for launch in launches:
        lines.append(
            f"| `{_cell(launch.kernel)}` | {_dim(launch.grid)} | {_dim(launch.block)} | "
            f"{launch.shared_bytes} B | {launch.count} | {_bytes(launch.global_read_bytes)} | "
            f"{_bytes(launch.global_write_bytes)} |"
        )
    if resources:
        lines += [
            "",
            "| kernel | arch | registers | spills (store/load) | static shared | stack |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
    for r in resources:
        lines.append(
            f"| `{_cell(r.kernel)}` | {r.arch} | {r.registers} | {r.spill_store_bytes}/"
            f"{r.spill_load_bytes} B | {r.static_shared_bytes} B | {r.stack_bytes} B |"
        )
    lines += _arithmetic(resources)
    if verdict is not None and verdict.own_share is not None:
        share = f"{verdict.own_share:.0%} of the device time of a call"
        lines += ["", f"The candidate's own kernels take {share}."]
    if profile is not None and profile.target != "host":
        told = ", ".join(f"{name} {value:.4g}" for name, value in profile.counters.items())
        lines += ["", f"Bound by {profile.bound} ({profile.engine}): {told or 'no counters'}"]
    if profile is not None and profile.suggestion:
        lines += ["", f"Still to try ({profile.engine}): {profile.suggestion}"]
    return lines


def _arithmetic(resources: Iterable[KernelResources]) -> list[str]:
    """What instructions there are beside those of float32."""
    told = []
    for r in resources:
        kinds = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in r.arithmetic.items())
        told += [f"- `{_cell(r.kernel)}` has instructions for {kinds}"] if kinds else []
    return ["", *told] if told else []


def _turns(trajectory: Trajectory) -> list[str]:
    answers = trajectory.all(AnswerReceived)
    if not answers:
        return []
    rows = [
        "| turn | asked to | outcome | time | answer | build |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for received in answers:
        reached = trajectory.find(VerdictReached, received.turn)
        built = trajectory.find(BuildDone, received.turn)
        seconds = "cached" if built and built.build.cached else ""
        if built and not built.build.cached:
            seconds = f"{built.build.seconds:.1f} s"
        outcome = _outcome(received.answer, reached)
        rows.append(
            f"| {received.turn} | {received.phase} | {_cell(outcome)} | {_time(reached)} | "
            f"{received.answer.latency_s:.1f} s | {seconds} |"
        )
    return rows


def _outcome(answer: PolicyAnswer, reached: VerdictReached | None) -> str:
    if answer.refusal:
        return f"refused: {answer.refusal}"
    if reached is None:
        return "offered a candidate of an earlier turn"
    text = f"{reached.verdict.status}: {reached.verdict.message}".rstrip(": ")
    if reached.same_as_turn is not None:
        text += f" (the candidate of turn {reached.same_as_turn})"
    return text


def _time(reached: VerdictReached | None) -> str:
    """The candidate's median, and how it compares with eager."""
    timing = reached.verdict.timing if reached else None
    if timing is None:
        return ""
    over = timing.over("eager")
    return f"{timing.candidate.median_ms:.4g} ms" + (f", {over.ratio:.2f}x eager" if over else "")


def _bytes(number: int) -> str:
    """0 is what stands where nothing was counted."""
    return f"{number:,} B" if number else "-"


def _environment(environment: Environment) -> list[str]:
    gpus = ", ".join(environment.gpus) or "none"
    return [
        f"- musaagent {environment.musaagent}, Python {environment.python}, "
        f"torch {environment.torch}",
        f"- Compilers: {environment.compiler}; {environment.nvcc}",
        f"- {environment.machine}; {environment.cpu_count} x {environment.cpu}; GPUs: {gpus}",
    ]


def _latest_environment(trajectory: Trajectory, started: RunStarted) -> Environment:
    resumed = trajectory.last(RunResumed)
    return resumed.environment if resumed else started.environment


def _list(values: Iterable[str]) -> str:
    return ", ".join(values) or "none"


def _dim(values: tuple[int, int, int]) -> str:
    return " x ".join(map(str, values))


def _cell(text: str) -> str:
    """Fit for a table: one line, no bars, not endless."""
    flat = " ".join(text.split()).replace("|", "\\|")
    return flat if len(flat) <= 300 else flat[:297] + "..."
