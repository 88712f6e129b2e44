"""What each command does: call a front door, show its answer, return the exit code."""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from musaagent import app, describing, display, evaluation, telling
from musaagent.cli import EXIT_FAILED, EXIT_NOT_PASSED, EXIT_OK
from musaagent.errors import UsageError
from musaagent.eval_settings import EvalSettings
from musaagent.opening import MODEL_POLICIES, check_model_settings
from musaagent.policies.settings import ServedSettings
from musaagent.result import RunResult, as_json, stored_result
from musaagent.rundir import default_run_dir
from musaagent.tools.musa.cards import CARDS, DEFAULT_ARCH
from musaagent.tools.results import Status
from musaagent.tools.target import BASELINES, VerifyOptions
from musaagent.tools.task import load_task

MODEL_OPTIONS = {
    "base_url": "base_url",
    "model": "model",
    "profile": "profile",
    "dialect": "dialect",
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_tokens",
    "context": "context",
    "timeout_s": "model_timeout",
    "key_env": "key_env",
    "repair_model": "repair_model",
    "repair_base_url": "repair_base_url",
    "patience": "patience",
}
"""Field of ServedSettings -> the option that sets it."""


def solve_command(chosen: argparse.Namespace) -> int:
    served = model_settings(chosen)
    if (chosen.op is None) == (chosen.describe is None):
        raise UsageError('solve needs OP, an op file, or --describe "TEXT" (one of the two)')
    with display.progress(quiet=chosen.json) as watch:
        options: app.SolveOptions = {
            "answers": chosen.answers,
            "max_turns": chosen.max_turns,
            "seed": chosen.seed,
            "warp_size": warp_size(chosen),
            "arch": arch(chosen),
            "check": chosen.check,
            "baselines": chosen.baselines or BASELINES,
            "served": served,
        }
        if chosen.describe is not None:
            result = describing.solve_described(
                chosen.describe,
                target=chosen.target,
                policy=chosen.policy,
                out=chosen.out,
                force=chosen.force,
                watch=watch,
                show=None if chosen.json else display.show_reference,
                options=options,
            )
            return telling.tell(chosen, result)
        # Named here, so that an interrupted run can say where it is.
        chosen.out = chosen.out or str(default_run_dir(load_task(chosen.op)))
        result = app.solve(
            chosen.op,
            target=chosen.target,
            policy=chosen.policy,
            out=chosen.out,
            force=chosen.force,
            observer=watch,
            live=watch.live if watch else None,
            **options,
        )
    return telling.tell(chosen, result)


def arch(chosen: argparse.Namespace) -> Literal["", "mp_21", "mp_22", "mp_31"]:
    """--arch; for target musa the card's own, or an S4000's where there is none."""
    if chosen.arch or getattr(chosen, "target", "") != "musa":
        given: Literal["", "mp_21", "mp_22", "mp_31"] = chosen.arch
        return given
    from musaagent.tools.musa.gmi import find_cards

    found = [CARDS[card.arch].arch for card in find_cards() if card.arch in CARDS]
    return found[0] if found else DEFAULT_ARCH


def warp_size(chosen: argparse.Namespace) -> Literal[32, 128]:
    """By the architecture, else --warp-size, else 32 lanes. Raises UsageError where they differ."""
    asked: Literal[32, 128] | None = chosen.warp_size
    name = arch(chosen)
    if not name:
        return asked or 32
    lanes = CARDS[name].warp_size
    if asked not in (None, lanes):
        raise UsageError(f"--warp-size {asked}: {name} has warps of {lanes} lanes")
    return lanes


def model_settings(chosen: argparse.Namespace) -> ServedSettings | None:
    """Of the policies that ask a model. Raises UsageError for an option that does not fit."""
    given = {
        name: value
        for name in MODEL_OPTIONS
        if (value := getattr(chosen, MODEL_OPTIONS[name])) is not None
    }
    if chosen.no_stream:
        given["stream"] = False
    if chosen.policy not in MODEL_POLICIES:
        if given:
            option = MODEL_OPTIONS.get(next(iter(given)), "no_stream").replace("_", "-")
            raise UsageError(f"--{option} goes with --policy {', '.join(MODEL_POLICIES)}")
        return None
    try:
        served = ServedSettings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        option = MODEL_OPTIONS[str(first["loc"][0])].replace("_", "-")
        # The value is not repeated: it may hold a key.
        raise UsageError(f"--{option}: {first['msg'].removeprefix('Value error, ')}") from None
    check_model_settings(chosen.policy, served)
    return served


def resume_command(chosen: argparse.Namespace) -> int:
    path = Path(chosen.run)
    answers = None
    if chosen.answers:
        from musaagent.policies.offline import read_answers

        answers = read_answers(Path(chosen.answers))
    if evaluation.is_evaluation(path):
        watch_eval = display.eval_progress(quiet=chosen.json)
        results = evaluation.go_on(
            path, answers, jobs=chosen.jobs, observer=watch_eval, base_url=chosen.base_url
        )
        code = telling.tell_evaluation(chosen, path, results)
    else:
        policy = app.offline_policy(path, answers) if answers is not None else None
        with display.progress(quiet=chosen.json) as watch:
            result = app.resume(
                path,
                policy=policy,
                observer=watch,
                live=watch.live if watch else None,
                base_url=chosen.base_url,
            )
        code = telling.tell(chosen, result)
    if answers is not None and not chosen.json:
        for remark in answers.remarks():
            display.say_error(remark)
    return code


def serve_command(chosen: argparse.Namespace) -> int:
    from musaagent import serve

    plan = serve.plan(
        chosen.size,
        model=chosen.model,
        context=chosen.context,
        gpus=chosen.gpus,
        host=chosen.host,
        port=chosen.port,
        more=chosen.vllm,
    )
    if chosen.print:
        display.show_text(plan.shell)
        return EXIT_OK
    for remark in plan.remarks:
        display.say_error(remark)
    serve.run(plan, chosen.wait, display.show_text)


def verify_command(chosen: argparse.Namespace) -> int:
    start = time.monotonic()
    options = _verify_options(chosen)
    if chosen.batch is not None:
        return _verify_batch(chosen, options)
    if chosen.op is None or chosen.candidate is None:
        raise UsageError("verify needs OP and CANDIDATE, or --batch MANIFEST --out FILE")
    verdict = app.verify(chosen.op, chosen.candidate, target=chosen.target, options=options)
    if chosen.json:
        display.print_json(telling.verify_object(chosen, verdict, time.monotonic() - start))
    else:
        display.show_verdict(verdict)
    if verdict.status is Status.INFRA_ERROR:
        return EXIT_FAILED
    return EXIT_OK if verdict.status is Status.PASSED else EXIT_NOT_PASSED


def _verify_options(chosen: argparse.Namespace) -> VerifyOptions:
    return VerifyOptions(
        seed=chosen.seed,
        trials=chosen.trials,
        check=chosen.check,
        warp_size=warp_size(chosen),
        arch=arch(chosen),
        timeout_s=chosen.timeout,
        build_timeout_s=chosen.build_timeout,
        atol=chosen.atol,
        rtol=chosen.rtol,
        allow=tuple(chosen.allow),
        timing=chosen.timing,
        baselines=chosen.baselines or BASELINES,
    )


def _verify_batch(chosen: argparse.Namespace, options: VerifyOptions) -> int:
    """Exit code 3 where a row ended in a failure of ours, 1 where one did not pass."""
    from musaagent.batch import read_manifest, verify_batch

    if chosen.op is not None:
        raise UsageError("verify takes OP and CANDIDATE, or --batch, not both")
    if chosen.out is None:
        raise UsageError("verify --batch needs --out FILE for its results")
    manifest, out = Path(chosen.batch), Path(chosen.out)
    read_manifest(manifest)  # before a target is started for nothing
    jobs = chosen.jobs or os.cpu_count() or 1
    with app.lent_target(chosen.target, compiles_only=True) as target:
        counts = verify_batch(
            manifest,
            out,
            target,
            options,
            jobs=jobs,
            observer=None if chosen.json else display.show_batch_row,
        )
    if chosen.json:
        display.print_json({"results": str(out), "statuses": counts})
    else:
        display.show_text(f"{out}: " + ", ".join(f"{n} {s}" for s, n in sorted(counts.items())))
    if counts.get(Status.INFRA_ERROR.value):
        return EXIT_FAILED
    return EXIT_OK if set(counts) == {Status.PASSED.value} else EXIT_NOT_PASSED


def lint_command(chosen: argparse.Namespace) -> int:
    from musaagent.tools.lint import lint

    _, plan = app.measure(chosen.op)
    report = lint(plan, name=chosen.op, strict=chosen.strict)
    if chosen.json:
        facts = as_json(plan)
        for name in ("graph", "scaled_graph", "check_graph"):
            facts.pop(name, None)
        found = "warnings" if report.warnings or plan.trace_error else "clean"
        status = "refused" if report.refused else found
        warnings = [as_json(trap) for trap in report.warnings]
        notes = [as_json(trap) for trap in report.notes]
        told = {"status": status, "op": chosen.op, "warnings": warnings, "notes": notes}
        display.print_json(told | facts)
    else:
        display.show_text(report.text)
    return EXIT_NOT_PASSED if report.refused else EXIT_OK


def port_command(chosen: argparse.Namespace) -> int:
    from musaagent.porting import port_files

    return port_files(chosen)


def show_command(chosen: argparse.Namespace) -> int:
    path = Path(chosen.run)
    if evaluation.is_evaluation(path):
        display.show_table(evaluation.read_results(path))
        return EXIT_OK
    run, trajectory = app.read_run(path)
    display.show_run(stored_result(run, trajectory), trajectory)
    return EXIT_OK


def doctor_command(chosen: argparse.Namespace) -> int:
    from musaagent.doctor import examine

    findings = examine(chosen.target)
    if chosen.json:
        display.print_json(as_json(findings))
    else:
        display.show_doctor(findings)
    return EXIT_OK if findings.ready else EXIT_NOT_PASSED


def selftest_command(chosen: argparse.Namespace) -> int:
    """Exit code 1 where the target does not open or an op is not solved."""
    from musaagent.rundir import write_whole
    from musaagent.selftest import run_selftest, summary

    report = run_selftest(
        chosen.target,
        arch=arch(chosen),
        warp_size=warp_size(chosen),
        minutes=chosen.minutes,
        observer=(lambda line: None) if chosen.json else display.say_error,
    )
    write_whole(Path(chosen.out), json.dumps(report, indent=1) + "\n")
    if chosen.json:
        display.print_json(report)
    else:
        display.show_text(f"{summary(report)}; send back {chosen.out}")
    ops = report.get("ops") or {"none": {}}
    solved = all(found.get("status") == "solved" for found in ops.values())
    return EXIT_OK if solved else EXIT_NOT_PASSED


def eval_command(chosen: argparse.Namespace) -> int:
    out = Path(chosen.out)
    if chosen.table:
        results = evaluation.read_results(out)
    elif chosen.dir is None:
        raise UsageError("eval needs DIR, a folder of op files (or --table to print RUN's table)")
    else:
        results = _evaluate(chosen, episodes=0)
    return telling.tell_evaluation(chosen, out, results)


def collect_command(chosen: argparse.Namespace) -> int:
    results = _evaluate(chosen, episodes=chosen.episodes)
    return telling.tell_evaluation(chosen, Path(chosen.out), results)


def _evaluate(chosen: argparse.Namespace, episodes: int) -> list[RunResult]:
    return evaluation.evaluate(
        Path(chosen.dir),
        Path(chosen.out),
        EvalSettings(
            target=chosen.target,
            policy=chosen.policy,
            answers=chosen.answers and str(Path(chosen.answers).resolve()),
            max_turns=chosen.max_turns,
            seed=chosen.seed,
            warp_size=warp_size(chosen),
            arch=arch(chosen),
            check=chosen.check,
            baselines=chosen.baselines or BASELINES,
            served=model_settings(chosen),
            episodes=episodes,
        ),
        jobs=chosen.jobs,
        limit=chosen.limit,
        force=chosen.force,
        observer=display.eval_progress(quiet=chosen.json),
    )
