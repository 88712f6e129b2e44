"""nvcc from NVIDIA's wheels (`musaagent[nvcc]`): found and used where no toolkit is in reach."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from musaagent.tools.host.toolchain import nvidia_wheels

MARK = "# === candidate ==="
CANDIDATES = Path(__file__).resolve().parent.parent / "candidates"
WHEELS = [p for folder in nvidia_wheels() for p in folder.glob("*/bin/nvcc")]

pytestmark = pytest.mark.skipif(not WHEELS, reason="no nvcc wheels here: `uv sync --extra nvcc`")


def musaagent(*arguments: str) -> dict[str, object]:
    """`--json` of a command that sees no nvcc on its PATH and no CUDA_HOME."""
    env = {k: v for k, v in os.environ.items() if k not in ("CUDA_HOME", "CUDA_PATH")}
    folders = env["PATH"].split(os.pathsep)
    env["PATH"] = os.pathsep.join(f for f in folders if not Path(f, "nvcc").exists())
    done = subprocess.run(
        [sys.executable, "-m", "musaagent", *arguments, "--target", "cuda", "--json"],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_doctor_finds_the_wheels() -> None:
    (target,) = musaagent("doctor")["targets"]  # type: ignore[misc]
    nvcc = next(need for need in target["needs"] if need["name"] == "nvcc")
    assert nvcc["ok"]
    assert str(WHEELS[0]) in nvcc["detail"]


def test_a_candidate_is_built_with_the_wheels_alone(tmp_path: Path) -> None:
    op, _, answer = (CANDIDATES / "softmax_warp.py").read_text().partition(MARK)
    # Another text than the one that other tests build: no build of theirs is found in the cache.
    answer = answer.replace("softmax_warp_kernel", "softmax_of_the_wheels")
    (tmp_path / "op.py").write_text(op)
    (tmp_path / "candidate.py").write_text(answer)
    found = musaagent("verify", str(tmp_path / "op.py"), str(tmp_path / "candidate.py"))
    verdict: dict[str, object] = found["verdict"]  # type: ignore[assignment]
    build: dict[str, object] = verdict["build"]  # type: ignore[assignment]
    assert build["ok"], build["log_tail"]
    assert build["level"] == "split"
    (resources,) = build["resources"]  # type: ignore[misc]
    assert resources["kernel"] == "softmax_of_the_wheels"
