"""The command that serves a model, and that it refuses what cannot fit; vLLM is a stand-in here."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from musaagent.cli import main
from musaagent.errors import MusaagentError
from musaagent.serve import GIB, SIZES, parse_gpus, plan, tensor_parallel

STAND_IN = """#!{python}
import os, sys, threading, time
from http.server import BaseHTTPRequestHandler, HTTPServer
assert sys.argv[1] == "serve", sys.argv
if "fails" in sys.argv[2]:
    sys.exit(7)
print("a line of vLLM's own log", flush=True)
start = time.monotonic()
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if time.monotonic() - start > 1 else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_): pass
if "ends" in sys.argv[2]:
    threading.Timer(3, os._exit, [0]).start()
port = int(sys.argv[sys.argv.index("--port") + 1])
HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in front of the PATH that holds a `vllm`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "vllm"
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.mark.parametrize(
    ("size", "gpus", "context", "parallel"),
    [
        ("27b", "1x80", 40960, 1),
        ("27b", "1x141", 40960, 1),
        ("27b", "2x48", 40960, 2),
        ("27b", "4x24", 32768, 4),
        ("27b", "8x16", 40960, 8),
        ("9b", "1x48", 40960, 1),
        ("9b", "2x16", 16384, 2),
        ("27b", "3x48", 40960, 2),
    ],
)
def test_fewest_gpus_that_hold_it(size: str, gpus: str, context: int, parallel: int) -> None:
    assert tensor_parallel(SIZES[size], size, context, parse_gpus(gpus)) == parallel


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"gpus": "1x48"}, "does not fit: weights 52 GiB"),
        ({"gpus": "1x80", "context": 262144}, "shorter --context"),
        ({"gpus": "two"}, "is not COUNTxGIB"),
        ({"gpus": "0x80"}, "above 0"),
        ({"size": "7b"}, "no size '7b'"),
        ({"size": "9b", "gpus": "1x80"}, "give --model FOLDER"),
        ({"gpus": "1x80", "port": 70000}, "between 1 and 65535"),
    ],
)
def test_refusals_have_their_reason(words: dict[str, object], said: str) -> None:
    with pytest.raises(MusaagentError, match=said):
        plan(**({"size": "27b"} | words))  # type: ignore[arg-type]


def test_print_shows_the_command_only(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--print", "--gpus", "4x48", "--port", "8123"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert out.strip() == (
        "vllm serve MooreThreads/MusaCoder-27B --host 127.0.0.1 --port 8123 "
        "--served-model-name MooreThreads/MusaCoder-27B --max-model-len 40960 "
        "--tensor-parallel-size 2 --gpu-memory-utilization 0.92 --enable-prefix-caching "
        "--logprobs-mode processed_logprobs --max-logprobs 20"
    )


def test_without_vllm_it_takes_uvx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "uvx").write_text("#!/bin/sh\n")
    (tmp_path / "uvx").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert plan("27b", gpus="1x80").command[:4] == ("uvx", "--from", "vllm>=0.10", "vllm")
    (tmp_path / "uvx").unlink()
    with pytest.raises(MusaagentError, match="install uv"):
        plan("27b", gpus="1x80")


def test_musa_flags(path: Path) -> None:
    planned = plan("27b", gpus="musa:8x80")
    assert "--enforce-eager" in planned.command
    assert planned.shell.startswith("VLLM_WORKER_MULTIPROC_METHOD=spawn vllm serve")


def test_gpus_are_read_from_nvidia_smi(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    smi = path / "nvidia-smi"
    smi.write_text("#!/bin/sh\nprintf '49140\\n49140\\n'\n")
    smi.chmod(0o755)
    assert main(["serve", "--print"]) == 0
    assert "--tensor-parallel-size 2" in capfd.readouterr().out
    smi.write_text("#!/bin/sh\nexit 9\n")
    assert main(["serve", "--print"]) == 3
    said = capfd.readouterr().err
    assert said.startswith("musaagent serve: ")
    assert "--gpus" in said


GMI = """\
---------------------------------------------------------------------
ID   Name                 |PCIe                |%GPU  Mem
     Device Type   Perf   |Pcie Lane Width     |Temp  MPC Capable
+-------------------------------------------------------------------+
0    MTT S4000            |00000000:2a:00.0    |0%    641MiB(49152MiB)
     Physical      P0     |16x(16x)            |52C   YES
1    MTT S4000            |00000000:3a:00.0    |0%    10MiB(49152MiB)
     Physical      P0     |16x(16x)            |51C   YES
Processes:
0    1123      /usr/lib/xorg/Xorg                   2MiB
"""


def test_gpus_are_read_from_mthreads_gmi(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (path / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    (path / "nvidia-smi").chmod(0o755)
    gmi = path / "mthreads-gmi"
    gmi.write_text(f"#!/bin/sh\ncat <<'END'\n{GMI}END\n")
    gmi.chmod(0o755)
    assert main(["serve", "--print"]) == 0
    said = capfd.readouterr().out
    assert "--tensor-parallel-size 2" in said
    assert "--enforce-eager" in said
    gmi.write_text("#!/bin/sh\necho no device\n")
    assert main(["serve", "--print"]) == 3
    assert "--gpus musa:8x80" in capfd.readouterr().err


def test_flags_for_vllm_come_last(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["serve", "--print", "--gpus", "1x80", "--vllm", "--max-model-len", "8192", "--seed=1"]
    assert main(words) == 0
    assert capfd.readouterr().out.rstrip().endswith(" 20 --max-model-len 8192 --seed=1")


def test_a_port_in_use_is_no_server_of_ours(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert main(["serve", "--gpus", "1x80", "--port", port]) == 2
    assert f"--port {port} is in use by another program" in capfd.readouterr().err


def test_it_waits_says_the_url_and_ends_with_it(path: Path, tmp_path: Path) -> None:
    port = 18000 + os.getpid() % 2000
    command = [sys.executable, "-m", "musaagent", "serve", "--gpus", "1x80", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"http://127.0.0.1:{port}/v1\n"
        health = f"http://127.0.0.1:{port}/health"
        assert urllib.request.urlopen(health, timeout=10).status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 130
    deadline = time.monotonic() + 10
    while True:
        try:
            urllib.request.urlopen(health, timeout=1)
        except OSError:
            break
        assert time.monotonic() < deadline, "the server outlived serve"
        time.sleep(0.1)


def test_a_server_that_dies_is_our_failure(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--gpus", "1x80", "--model", "fails", "--port", "18999"]) == 3
    assert "vLLM ended with exit code 7 before it was ready" in capfd.readouterr().err


def test_a_server_that_ends_later_is_one_too(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    assert main(["serve", "--gpus", "1x80", "--model", "ends", "--port", port]) == 3
    out, err = capfd.readouterr()
    assert out == f"http://127.0.0.1:{port}/v1\n"
    assert "vLLM ended by itself with exit code 0" in err


def test_sizes_are_stated_in_gib() -> None:
    assert SIZES["27b"].weights_gib * GIB > 27.8e9 * 2 * 0.99
