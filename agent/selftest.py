"""`musaagent selftest`: five minutes on a machine with a card, one file to send back.

Everything is tried, nothing ends it early: what fails is written down as it failed. The file holds
no paths of the user's programs and no names of users or hosts beyond what the tools print.
"""

import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from musaagent import __version__
from musaagent.app import open_target, solve
from musaagent.errors import MusaagentError
from musaagent.result import as_json
from musaagent.tools.musa import questions
from musaagent.tools.target import Target, VerifyOptions

FORMAT = 1
TOOLS = (
    ("mcc", "--version"),
    ("musa_version_query",),
    ("musaInfo",),
    ("mthreads-gmi",),
    ("mcu", "--help"),
    ("msys", "--version"),
)
_TOOL_TIMEOUT_S = 30
_MOST_OUTPUT = 20000
_HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
_OP = """class Model(nn.Module):
{init}    def forward(self, {names}):
        return {result}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""
OPS: dict[str, str] = {}
"""Small ops of every kind that the builtin policy writes, by name."""


def _op(name: str, result: str, inputs: str, names: str = "x", init: str = "") -> None:
    made = (
        f"    def __init__(self):\n        super().__init__()\n        {init}\n\n" if init else ""
    )
    OPS[name] = _HEAD + _OP.format(init=made, names=names, result=result, inputs=inputs)


_op("add_relu", "torch.relu(x + y)", "torch.randn(64, 1024), torch.randn(64, 1024)", "x, y")
_op("row_sum", "x.sum(-1)", "torch.randn(128, 4096)")
_op("softmax", "torch.softmax(x, -1)", "torch.randn(128, 1000)")
_op("gelu_half", "F.gelu(x)", "torch.randn(64, 1024).half()")
_op("matmul", "x @ y", "torch.randn(96, 128), torch.randn(128, 80)", "x, y")
_op("cumsum", "torch.cumsum(x, 1)", "torch.randn(32, 500)")
_op("conv2d", "self.conv(x)", "torch.randn(2, 8, 20, 20)", init="self.conv = nn.Conv2d(8, 12, 3)")
_op(
    "grouped_conv_transpose3d",  # known to be wrong in torch_musa on an S4000
    "self.conv(x)",
    "torch.randn(1, 4, 5, 6, 7)",
    init="self.conv = nn.ConvTranspose3d(4, 8, 3, groups=2)",
)


def run_selftest(
    target_name: str,
    *,
    arch: str = "",
    warp_size: Any = 32,
    minutes: float = 5.0,
    observer: Callable[[str], None] = lambda line: None,
    ops: dict[str, str] | None = None,
) -> dict[str, Any]:
    """All that is to be sent back. Raises nothing for what fails on the way."""
    deadline = time.monotonic() + 60 * minutes
    report: dict[str, Any] = {
        "format": FORMAT,
        "musaagent": __version__,
        "target": target_name,
        "arch": arch,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
    report["tools"] = {line[0]: _output(line) for line in TOOLS}
    report["torch"] = _versions()
    observer("opening the target")
    try:
        target = open_target(target_name)
    except MusaagentError as error:
        report["error"] = str(error)
        return report
    try:
        report["capabilities"] = [vars(c) for c in target.capabilities()]
        observer("asking the card")
        report["answers"] = _tried(lambda: _ask(target, arch, warp_size))
        report["ops"] = {}
        for name, text in (ops or OPS).items():
            if time.monotonic() > deadline:
                report["ops"][name] = {"left_out": "the time was up"}
                continue
            observer(f"op {name}")
            report["ops"][name] = _tried(lambda t=text: _solve(target, t, arch, warp_size))  # type: ignore[misc]
    finally:
        target.close()
    report["seconds"] = round(60 * minutes - (deadline - time.monotonic()), 1)
    return report


def summary(report: dict[str, Any]) -> str:
    """One line for the terminal."""
    if "error" in report:
        return f"the target does not open: {report['error']}"
    ops = report["ops"]
    solved = sum(1 for found in ops.values() if found.get("status") == "solved")
    answers = report["answers"]
    lanes = answers.get("warp_size", answers.get("error"))
    return f"{solved} of {len(ops)} ops solved; warpSize: {lanes}"


def _solve(target: Target, text: str, arch: Any, warp_size: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="musaagent-selftest-") as folder:
        path = Path(folder) / "op.py"
        path.write_text(text, encoding="utf-8")
        result = solve(
            path,
            target=target,
            policy="builtin",
            out=Path(folder) / "run",
            max_turns=2,
            trials=2,
            arch=arch,
            warp_size=warp_size,
        )
        told = as_json(result)
        source = Path(result.candidate or result.attempt or "")
        told["source"] = source.read_text(encoding="utf-8") if source.is_file() else ""
        for name in ("run", "candidate", "attempt", "op"):
            told.pop(name, None)
        return told


def _ask(target: Any, arch: str, warp_size: Any) -> dict[str, Any]:
    """The whole list, or what every card should compile where it does not."""
    try:
        return _ask_list(target, questions.QUESTIONS, arch, warp_size)
    except Exception as error:
        few = _ask_list(target, questions.BASIC, arch, warp_size)
        return few | {"refused": f"{type(error).__name__}: {error}"}


def _ask_list(
    target: Any, asked: tuple[tuple[str, str], ...], arch: str, warp_size: Any
) -> dict[str, Any]:
    """Past the verifier: there is no reference for what nobody knows."""
    import torch

    from musaagent.tools import trees
    from musaagent.tools.arrays import value_from_wire
    from musaagent.tools.wire import encode_tensors

    options = VerifyOptions(arch=arch, warp_size=warp_size)
    if target.name == "host":
        session = target.open_candidate(options, checked=False)
    else:
        session = target.open_session(options, target.pool.gpus[0])
    try:
        session.setup()
        source = questions.candidate(asked)
        session.request({"op": "import", "source": source}, doing="import")
        made, _ = trees.flatten([], "init")
        header = {"op": "construct", "seed": 0, "init": made, "tensors": [], "state_names": []}
        session.request(header, doing="construct ModelNew")
        tree, tensors = trees.flatten([torch.zeros(1)], "inputs")
        metas, blobs = encode_tensors(tensors)
        run = {"op": "run", "seed": 0, "inputs": tree, "tensors": metas}
        answer, out = session.request(
            run | session.order_fields(0, 0), list(blobs), doing="run forward"
        )
    finally:
        session.close()
    value = value_from_wire("answers", answer["tensors"][0], out[0])
    return questions.read(value.array, asked)


def _tried(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    start = time.monotonic()
    try:
        found = call()
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}"[:2000]}
    return found | {"took_s": round(time.monotonic() - start, 1)}


def _output(line: tuple[str, ...]) -> str:
    tool = shutil.which(line[0])
    if tool is None:
        return "not found"
    try:
        done = subprocess.run(
            [tool, *line[1:]], capture_output=True, text=True, timeout=_TOOL_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    return (done.stdout + done.stderr)[:_MOST_OUTPUT]


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("torch", "torch_musa", "torchada", "mthreads-ml-py", "triton"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
