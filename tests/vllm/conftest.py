"""vLLM from its own environment, a model of random weights, and both served by `musaagent serve`."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CONTEXT = 8192
WHOLE_PROMPTS = ("--enforce-eager", "--max-num-batched-tokens", "131072")
"""vLLM 0.32 on a CPU dies of a seeded request whose prompt it takes in parts: "CPU Generator does
not use offset". So no prompt is."""
START_S = 600
"""Two slow cores take a minute; the limit is for machines that do other things too."""


@dataclass(frozen=True)
class Vllm:
    """The environment's folder."""

    folder: Path

    whole_prompts = WHOLE_PROMPTS

    @property
    def python(self) -> str:
        return str(self.folder / "bin/python")

    @property
    def environment(self) -> dict[str, str]:
        """Its program first on the PATH; one GiB for the cache, and nothing asked of a hub."""
        return {
            **os.environ,
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }

    def musaagent(self, *words: str, timeout: float = 600) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "musaagent", *words]
        return subprocess.run(
            command,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


@dataclass(frozen=True)
class Server:
    base_url: str
    model: str
    log: Path


@pytest.fixture(scope="session")
def vllm() -> Vllm:
    return Vllm(Path(os.environ["MUSAAGENT_VLLM"]))


@pytest.fixture(scope="session")
def model(vllm: Vllm, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with seeded random weights and a tokenizer."""
    folder = tmp_path_factory.mktemp("weights") / "tiny-qwen3"
    subprocess.run([vllm.python, str(HERE / "tiny_model.py"), str(folder), "7"], check=True)
    return str(folder)


@pytest.fixture(scope="session")
def server(vllm: Vllm, model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Started as a user would, with the flags of a GPU machine; ends with its command."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("serve") / "vllm.log"
    words = ["serve", "27b", "--model", model, "--gpus", "1x80", "--port", str(port)]
    words += ["--context", str(CONTEXT), "--wait", str(START_S), "--vllm", *WHOLE_PROMPTS]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "musaagent", *words],
            env=vllm.environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        said = process.stdout.readline()
        try:
            assert said == f"http://127.0.0.1:{port}/v1\n", log.read_text()[-3000:]
            yield Server(said.strip(), model, log)
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        assert process.stdout.read() == "", "vLLM's own lines belong on stderr"
    assert code == 130
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=5)
