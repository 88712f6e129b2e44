"""The command line: arguments in, one exit code out.

Exit codes: 0 solved or passed; 1 not solved or not passed; 2 bad usage or input; 3 our own failure;
4 waiting for answers from outside; 130 interrupted. Nothing heavy is imported before a command is
chosen.
"""

import argparse
import logging
import math
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeAlias, TypeVar

from musaagent import __version__
from musaagent.errors import InfraError, MusaagentError, UsageError

EXIT_OK, EXIT_NOT_PASSED, EXIT_USAGE, EXIT_FAILED = 0, 1, 2, 3
EXIT_AWAITING, EXIT_INTERRUPTED = 4, 130
TARGETS = ("host", "cuda", "musa")
ARCHS = ("mp_21", "mp_22", "mp_31")
POLICIES = ("builtin", "served", "cascade", "offline", "replay", "scripted")


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; the usage text is a --help away."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = build_parser()
    chosen = parser.parse_args(arguments)
    if chosen.command is None:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    logging.basicConfig(level=logging.WARNING, format="musaagent: %(message)s", stream=sys.stderr)
    before = signal.signal(signal.SIGTERM, _interrupt)
    code = EXIT_OK
    try:
        code = _run(chosen)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        signal.signal(signal.SIGTERM, before)
    return code


def _run(chosen: argparse.Namespace) -> int:
    from musaagent import commands, telling

    try:
        command: Callable[[argparse.Namespace], int] = getattr(
            commands, f"{chosen.command}_command"
        )
        return command(chosen)
    except MusaagentError as error:
        telling.fail(chosen, error)
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED
    except KeyboardInterrupt:
        telling.interrupted(chosen)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        raise
    except OSError as error:
        telling.fail(chosen, InfraError(f"{error.filename or 'system'}: {error.strerror}"))
        return EXIT_FAILED
    except Exception as error:
        # A fault of ours. Python would exit with 1, which says that a candidate did not pass.
        traceback.print_exc()
        telling.fail(chosen, InfraError(f"internal error: {type(error).__name__}: {error}"))
        return EXIT_FAILED


def _interrupt(signal_number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="musaagent",
        description="A PyTorch op goes in, a fast and proven native CUDA or MUSA kernel comes out.",
        epilog="Exit codes: 0 solved or passed, 1 not, 2 bad usage or input, 3 our own failure, "
        "4 waiting for answers (policy offline).",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"musaagent {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    _add_solve(commands)
    _add_verify(commands)
    _add_lint(commands)
    _add_port(commands)
    _add_show(commands)
    _add_resume(commands)
    _add_doctor(commands)
    _add_selftest(commands)
    _add_eval(commands)
    _add_collect(commands)
    _add_serve(commands)
    return parser


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def _command(commands: Commands, name: str, text: str, *, json: bool = True) -> Parser:
    parser: Parser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    if json:
        parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    return parser


def _add_solve(commands: Commands) -> None:
    parser = _command(commands, "solve", "port one op: write, prove and keep a kernel for it")
    parser.add_argument("op", metavar="OP", nargs="?", help="op file in KernelBench's format")
    parser.add_argument(
        "--describe", metavar="TEXT", help="instead of OP: the model writes the reference first"
    )
    _add_run_settings(parser)
    parser.add_argument("--out", metavar="DIR", help="run folder (./musaagent-runs/NAME-HASH)")
    parser.add_argument("--force", action="store_true", help="replace a run that is there")


def _add_run_settings(parser: Parser) -> None:
    _add_target(parser)
    parser.add_argument("--policy", choices=POLICIES, default="builtin", help="who writes")
    parser.add_argument(
        "--answers", metavar="PATH", default="", help="scripted: folder of texts; replay: a run"
    )
    parser.add_argument("--max-turns", metavar="N", type=positive, default=6)
    parser.add_argument("--seed", metavar="N", type=natural, help="default: a secret one")
    parser.add_argument(
        "--check",
        action=argparse.BooleanOptionalAction,
        help="watch every load and store before anything passes (default: yes; cuda: no)",
    )
    _add_baselines(parser)
    _add_warp_size(parser)
    _add_model_settings(parser)


def _add_baselines(parser: Parser) -> None:
    parser.add_argument(
        "--baselines",
        metavar="LIST",
        type=baselines,
        help="on a GPU: what the time is taken beside (default: eager,compile,graph)",
    )


def _add_model_settings(parser: Parser) -> None:
    """Every default is None: what was not given is the settings' own affair."""
    group = parser.add_argument_group("the model (policies served, cascade and offline)")
    group.add_argument("--base-url", metavar="URL", help="OpenAI-compatible, ends in /v1")
    group.add_argument("--model", metavar="NAME", help="as the server names it")
    group.add_argument("--profile", choices=("auto", "musacoder", "general"), help="prompts (auto)")
    group.add_argument("--dialect", choices=("auto", "cuda", "musa"), help="kernels (by target)")
    group.add_argument("--temperature", metavar="X", type=tolerance, help="0.7")
    group.add_argument("--top-p", metavar="X", type=positive_float, help="0.95")
    group.add_argument("--max-tokens", metavar="N", type=positive, help="of an answer (32768)")
    group.add_argument("--context", metavar="N", type=positive, help="window (asked of the server)")
    group.add_argument("--model-timeout", metavar="S", type=positive_float, help="silence (600)")
    group.add_argument("--key-env", metavar="NAME", help="variable with the key (OPENAI_API_KEY)")
    group.add_argument("--no-stream", action="store_true", help="ask for answers in one piece")
    group.add_argument("--repair-model", metavar="NAME", help="cascade: the larger model")
    group.add_argument("--repair-base-url", metavar="URL", help="cascade: where it is served")
    group.add_argument("--patience", metavar="N", type=positive, help="cascade: turns stalled (2)")


def _add_verify(commands: Commands) -> None:
    parser = _command(commands, "verify", "judge one candidate beside its op")
    parser.add_argument("op", metavar="OP", nargs="?", help="op file in KernelBench's format")
    parser.add_argument(
        "candidate", metavar="CANDIDATE", nargs="?", help="file that defines ModelNew"
    )
    parser.add_argument(
        "--batch",
        metavar="MANIFEST",
        help="judge many: a JSON object {id, task, candidate} a line, with both paths",
    )
    parser.add_argument("--out", metavar="FILE", help="with --batch: results, a line each; goes on")
    parser.add_argument("--jobs", metavar="N", type=positive, help="with --batch: rows at a time")
    parser.add_argument(
        "--timing",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="on a GPU: take the time of what passed (default: yes)",
    )
    _add_baselines(parser)
    _add_target(parser)
    parser.add_argument(
        "--check", action="store_true", help="run once more with every load and store watched"
    )
    parser.add_argument("--trials", metavar="N", type=positive, default=5)
    parser.add_argument("--seed", metavar="N", type=natural, help="default: a secret one")
    parser.add_argument("--timeout", metavar="S", type=positive_float, default=60.0)
    parser.add_argument("--build-timeout", metavar="S", type=positive_float, help="by target")
    parser.add_argument("--atol", metavar="X", type=tolerance, help="default: by dtype")
    parser.add_argument("--rtol", metavar="X", type=tolerance, help="default: by dtype")
    parser.add_argument(
        "--allow",
        metavar="WHAT",
        action="append",
        choices=("vendor-libs",),
        default=[],
        help="vendor-libs: kernels of cuBLAS, cuDNN and their kind may do the work",
    )
    _add_warp_size(parser)


def _add_lint(commands: Commands) -> None:
    parser = _command(commands, "lint", "check an op file; say what any kernel for it must mind")
    parser.add_argument("op", metavar="OP", help="op file in KernelBench's format")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where there is a trap")


def _add_port(commands: Commands) -> None:
    text = "CUDA to MUSA: rewrite a candidate, a source file or a folder; say what is left to do"
    parser = _command(commands, "port", text)
    parser.add_argument("path", metavar="PATH", help="a .py candidate, a .cu, .cpp or .h, a folder")
    parser.add_argument("--out", metavar="PATH", help="(DIR_musa, NAME.mu, NAME_musa.py)")
    parser.add_argument("--diff", action="store_true", help="print a patch; write only with --out")
    parser.add_argument("--force", action="store_true", help="replace files that are there")
    parser.add_argument(
        "--arch", choices=ARCHS, default="mp_22", help="the card to check for (mp_22: S4000)"
    )


def _add_show(commands: Commands) -> None:
    parser = _command(commands, "show", "print a run, turn by turn, or an evaluation", json=False)
    parser.add_argument("run", metavar="RUN", help="folder of a run or of an evaluation")


def _add_resume(commands: Commands) -> None:
    parser = _command(commands, "resume", "go on with a run, or an evaluation, that was stopped")
    parser.add_argument("run", metavar="RUN", help="folder of the run or of the evaluation")
    parser.add_argument("--answers", metavar="FILE", help="policy offline: results of its batch")
    parser.add_argument("--base-url", metavar="URL", help="of the model, where it has moved")
    parser.add_argument("--jobs", metavar="N", type=positive, help="evaluation: ops at a time")


def _add_doctor(commands: Commands) -> None:
    parser = _command(commands, "doctor", "say what this machine has, and what is missing")
    parser.add_argument("--target", choices=TARGETS, help="only this one; exit with 1 if not ready")


def _add_selftest(commands: Commands) -> None:
    text = "five minutes on a machine with a card; writes one file to send back"
    parser = _command(commands, "selftest", text)
    parser.add_argument("--target", choices=TARGETS, default="musa", help="(musa)")
    parser.add_argument("--out", metavar="FILE", default="musaagent-selftest.json")
    parser.add_argument("--minutes", metavar="N", type=positive_float, default=5.0, help="(5)")
    _add_warp_size(parser)


def _add_eval(commands: Commands) -> None:
    text = "solve every op of a folder, side by side; goes on where it was stopped"
    parser = _command(commands, "eval", text)
    parser.add_argument("dir", metavar="DIR", nargs="?", help="folder of op files")
    parser.add_argument("--out", metavar="RUN", required=True, help="folder of the evaluation")
    _add_run_settings(parser)
    parser.add_argument(
        "--jobs", metavar="N", type=positive, help="at a time (one a core; a model: 16)"
    )
    parser.add_argument("--limit", metavar="N", type=positive, help="only the first N ops")
    parser.add_argument("--force", action="store_true", help="solve again what has a result")
    parser.add_argument("--table", action="store_true", help="only print the table of RUN")


def _add_collect(commands: Commands) -> None:
    text = "solve every op of a folder several times and keep all trajectories; goes on"
    parser = _command(commands, "collect", text)
    parser.add_argument("dir", metavar="DIR", help="folder of op files")
    parser.add_argument("--out", metavar="RUN", required=True, help="folder of the collection")
    parser.add_argument(
        "--episodes",
        metavar="N",
        type=positive,
        default=8,
        help="of each op, each with a sampling seed of its own (8); a larger number adds some",
    )
    _add_run_settings(parser)
    parser.add_argument(
        "--jobs", metavar="N", type=positive, help="episodes at a time (one a core; a model: 16)"
    )
    parser.add_argument("--limit", metavar="N", type=positive, help="only the first N ops")
    parser.add_argument("--force", action="store_true", help="solve again what has a result")


def _add_serve(commands: Commands) -> None:
    text = "serve a model with vLLM until interrupted; prints its base URL once it answers"
    parser = _command(commands, "serve", text, json=False)
    parser.add_argument(
        "size", metavar="SIZE", nargs="?", default="27b", help="MusaCoder's: 27b (default) or 9b"
    )
    parser.add_argument("--model", metavar="NAME", help="weights: a folder or a hub name")
    parser.add_argument(
        "--context", metavar="N", type=positive, default=40960, help="tokens (40960)"
    )
    parser.add_argument(
        "--gpus", metavar="NxGIB", help="describe them, as 4x48; default: what is found here"
    )
    parser.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="(127.0.0.1)")
    parser.add_argument("--port", metavar="N", type=positive, default=8000, help="(8000)")
    parser.add_argument(
        "--wait", metavar="S", type=positive_float, default=1800.0, help="for its health (1800)"
    )
    parser.add_argument("--print", action="store_true", help="print the command only")
    parser.add_argument(
        "--vllm",
        metavar="FLAG",
        nargs=argparse.REMAINDER,
        default=[],
        help="everything after it goes to vLLM as it is",
    )


def _add_target(parser: Parser) -> None:
    parser.add_argument("--target", choices=TARGETS, default="host", help="where it is run")


def _add_warp_size(parser: Parser) -> None:
    parser.add_argument("--warp-size", type=int, choices=(32, 128), help="lanes (32, or by --arch)")
    _add_arch(parser)


def _add_arch(parser: Parser) -> None:
    parser.add_argument(
        "--arch", choices=ARCHS, default="", help="Moore Threads card: S80, S4000, S5000"
    )


def positive(text: str) -> int:
    return _number(text, int, "a whole number above 0", lambda value: value > 0)


def natural(text: str) -> int:
    return _number(text, int, "a whole number, 0 or above", lambda value: 0 <= value < 2**63)


def positive_float(text: str) -> float:
    return _number(text, float, "a number above 0", lambda value: value > 0)


def tolerance(text: str) -> float:
    return _number(text, float, "a number, 0 or above", lambda value: value >= 0)


def baselines(text: str) -> tuple[str, ...]:
    from musaagent.tools.target import BASELINES

    names = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    if set(names) - set(BASELINES):
        raise argparse.ArgumentTypeError(f"{text!r} is no list out of {', '.join(BASELINES)}")
    return names


N = TypeVar("N", int, float)


def _number(text: str, convert: Callable[[str], N], needed: str, fits: Callable[[N], bool]) -> N:
    try:
        value = convert(text)
        if math.isfinite(value) and fits(value):
            return value
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not {needed}")
