"""`musaagent serve`: vLLM with a MusaCoder model, from vLLM's own environment.

vLLM pins a torch of its own, so it is never installed beside musaagent: a `vllm` on the PATH is
taken, else `uvx` makes an environment for it.
"""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import urlsplit

from musaagent.errors import InfraError, ToolchainMissing, UsageError
from musaagent.machine import run_tool

VLLM = "vllm>=0.10"
GIB = 2**30
_SHARE = 0.92
"""Part of each GPU's memory that vLLM may take."""
_OVERHEAD_GIB = 4.0
"""CUDA context, activations and graphs, on each GPU."""
_MUSA_ROW = re.compile(r"^\d+\s+MTT\b.*\dMiB\((\d+)MiB\)", re.MULTILINE)
"""A card in mthreads-gmi's table: used memory, and in brackets the whole. Seen in outputs that
Moore Threads and users published for versions 1.14 to 2.4; not run on such a card."""
_STDERR = 2
_POLL_S = 1.0
_STOP_S = 20.0


@dataclass(frozen=True)
class Size:
    """What a model of a size takes. Weights in bf16; the cache as if every layer kept one."""

    weights_gib: float
    cache_bytes_per_token: int
    model: str = ""
    """Public weights; empty where none are known."""


SIZES = {
    # 27.8e9 parameters, 64 layers; 8 key and value heads of 128 are an upper estimate.
    "27b": Size(52.0, 64 * 2 * 8 * 128 * 2, "MooreThreads/MusaCoder-27B"),
    "9b": Size(18.0, 40 * 2 * 8 * 128 * 2),
}


@dataclass(frozen=True)
class Gpus:
    count: int
    gib: float
    """Memory of the smallest one."""
    kind: str = "cuda"


@dataclass(frozen=True)
class ServePlan:
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    base_url: str
    remarks: tuple[str, ...] = ()

    @property
    def shell(self) -> str:
        """The command as a shell takes it."""
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.environment]
        return " ".join([*settings, shlex.join(self.command)])


def plan(
    size: str,
    *,
    model: str | None = None,
    context: int = 40960,
    gpus: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    more: Sequence[str] = (),
) -> ServePlan:
    """The command; `more` are flags of vLLM's own, put last so that they win.

    Raises UsageError for a wrong choice, ToolchainMissing for what cannot fit.
    """
    known = SIZES.get(size.lower())
    if known is None:
        raise UsageError(f"no size {size!r}; MusaCoder has {' and '.join(sorted(SIZES))}")
    name = model or known.model
    if not name:
        raise UsageError(f"no public weights of the {size} are known; give --model FOLDER")
    if not 1 <= port <= 65535:
        raise UsageError(f"--port {port} is not between 1 and 65535")
    found = parse_gpus(gpus) if gpus else find_gpus()
    parallel = tensor_parallel(known, size, context, found)
    flags = [
        *("--host", host, "--port", str(port)),
        *("--served-model-name", name),
        *("--max-model-len", str(context)),
        *("--tensor-parallel-size", str(parallel)),
        *("--gpu-memory-utilization", f"{_SHARE:g}"),
        "--enable-prefix-caching",
        # Log-probabilities after temperature and top-p: those that the sampler drew with.
        *("--logprobs-mode", "processed_logprobs", "--max-logprobs", "20"),
    ]
    environment: tuple[tuple[str, str], ...] = ()
    remarks = [f"{parallel} of {found.count} GPUs with {found.gib:.0f} GiB each"]
    if found.kind == "musa":
        flags.append("--enforce-eager")
        environment = (("VLLM_WORKER_MULTIPROC_METHOD", "spawn"),)
        remarks.append("MUSA: needs a vLLM with the vllm-musa plugin on the PATH")
    command = (*_launcher(found.kind), "serve", name, *flags, *more)
    return ServePlan(command, environment, f"http://{_reachable(host)}:{port}/v1", tuple(remarks))


def tensor_parallel(known: Size, size: str, context: int, gpus: Gpus) -> int:
    """The fewest GPUs that hold the weights and one full context. Raises ToolchainMissing."""
    cache = known.cache_bytes_per_token * context / GIB
    best = 0.0
    for parallel in (1, 2, 4, 8):
        if parallel > gpus.count:
            break
        room = parallel * (gpus.gib * _SHARE - _OVERHEAD_GIB)
        best = max(best, room)
        if known.weights_gib + cache <= room:
            return parallel
    raise ToolchainMissing(
        f"MusaCoder-{size} does not fit: weights {known.weights_gib:.0f} GiB (bf16) and one "
        f"context of {context} tokens {cache:.1f} GiB, and {gpus.count} x {gpus.gib:.0f} GiB leave "
        f"{best:.0f} GiB; take more GPUs, a shorter --context or a smaller size"
    )


def parse_gpus(text: str) -> Gpus:
    """`4x48`, or `musa:8x80`."""
    kind, _, sizes = text.rpartition(":")
    count, _, gib = sizes.lower().partition("x")
    if kind not in ("", "cuda", "musa") or not count.isdecimal() or not gib.isdecimal():
        raise UsageError(f"--gpus {text!r} is not COUNTxGIB, as 4x48 or musa:8x80")
    if not int(count) or not int(gib):
        raise UsageError(f"--gpus {text!r}: both numbers must be above 0")
    return Gpus(int(count), float(gib), kind or "cuda")


def find_gpus() -> Gpus:
    """Raises ToolchainMissing where there is none."""
    query = run_tool("nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits")
    sizes = [float(word) for word in (query or "").split() if word.replace(".", "").isdecimal()]
    if sizes:
        return Gpus(len(sizes), min(sizes) / 1024)
    table = run_tool("mthreads-gmi") or ""
    sizes = [float(size) for size in _MUSA_ROW.findall(table)]
    if sizes:
        return Gpus(len(sizes), min(sizes) / 1024, "musa")
    if shutil.which("mthreads-gmi"):
        raise ToolchainMissing(
            "mthreads-gmi names no GPU with its memory; describe them, as --gpus musa:8x80"
        )
    raise ToolchainMissing(
        "no GPU was found (nvidia-smi, mthreads-gmi); to print the command for another machine, "
        "describe its GPUs, as --gpus 2x80"
    )


def run(planned: ServePlan, wait_s: float, say: Callable[[str], None]) -> NoReturn:
    """Start it, wait for its health, say the base URL, and stay until interrupted.

    What vLLM prints goes to stderr, so that stdout holds the base URL alone. Raises InfraError
    where it ends by itself, and UsageError for a port that is taken.
    """
    _expect_free(planned)
    environment = {**_own_environment(), **dict(planned.environment)}
    with subprocess.Popen(
        planned.command, env=environment, start_new_session=True, stdout=_STDERR
    ) as process:
        try:
            _await_health(planned, process, wait_s)
            say(planned.base_url)
            # An engine that dies takes the server with it, and its exit code may be 0.
            raise InfraError(f"vLLM ended by itself with exit code {process.wait()}; see its log")
        finally:
            _stop(process)


def _expect_free(planned: ServePlan) -> None:
    """Raises UsageError where another server would answer for ours."""
    address = urlsplit(planned.base_url)
    try:
        with socket.create_connection((str(address.hostname), address.port or 80), timeout=1):
            pass
    except OSError:
        return
    raise UsageError(f"--port {address.port} is in use by another program; give another --port")


def _await_health(planned: ServePlan, process: "subprocess.Popen[bytes]", wait_s: float) -> None:
    health = planned.base_url.removesuffix("/v1") + "/health"
    # A proxy that the environment names does not lead to this machine.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        if (code := process.poll()) is not None:
            raise InfraError(f"vLLM ended with exit code {code} before it was ready")
        try:
            with direct.open(health, timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(_POLL_S)
    raise InfraError(f"vLLM was not ready after {wait_s:g} s; give --wait more, or see its log")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Its workers too: they are in its process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            continue


def _launcher(kind: str) -> tuple[str, ...]:
    if shutil.which("vllm"):
        return ("vllm",)
    if kind == "musa":
        raise ToolchainMissing("no vllm on the PATH; install vllm-musa in Moore Threads' image")
    if shutil.which("uvx"):
        return ("uvx", "--from", VLLM, "vllm")
    raise ToolchainMissing("neither vllm nor uvx is on the PATH; install uv (pip install uv)")


def _own_environment() -> dict[str, str]:
    """Without our virtual environment: vLLM brings its own."""
    hidden = {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"}
    return {name: value for name, value in os.environ.items() if name not in hidden}


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::") else host
