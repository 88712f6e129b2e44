"""kill -9 at seeded moments of a 5-turn solve: the same result, and no finished answer twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from musaagent.traces.schema import AnswerReceived
from musaagent.traces.store import read_trajectory

FORKS = Path(__file__).with_name("forks.py")
KERNELS = ("x *", "x + 2", "x / 0", "x + x", "x * 2")
# Each run takes ten seconds; MUSAAGENT_KILL_RUNS=10 makes the fifty kills of a release.
RUNS, KILLS = int(os.environ.get("MUSAAGENT_KILL_RUNS", "4")), 5


def test_killed_at_any_moment(server: Any, toy: Any, tmp_path: Path) -> None:
    texts = [f"<think>{'w' * 300}</think>{toy.candidate(k)}" for k in KERNELS]
    replies = [{"kind": "answer", "text": t, "chunk": 16, "delay": 0.004} for t in texts]
    server.play(*replies, by_turn=True, tokenize=4)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    moments = random.Random(seed)
    with subprocess.Popen(
        [sys.executable, str(FORKS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as forks:
        kills = sum(one_run(forks, server, toy, tmp_path / str(n), moments) for n in range(RUNS))
        assert forks.stdin is not None
        forks.stdin.close()
    print(f"killed {kills} of {RUNS * KILLS} times before the end")
    assert kills >= RUNS


def one_run(forks: Any, server: Any, toy: Any, folder: Path, moments: random.Random) -> int:
    """Kill it again and again, then let it end. Returns how many kills met it alive."""
    folder.mkdir()
    (folder / "double.py").write_text(f"{toy.OP}# {folder.name}\n")
    path = folder / "run/trajectory.jsonl"
    start = len(server.requests())
    kills = 0
    for _ in range(KILLS):
        known = answered(path)
        before = len(server.requests())
        pid = begin(forks, folder, server.base_url)
        time.sleep(moments.uniform(0.02, 0.9))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        status = int(forks.stdout.readline())
        kills += os.WIFSIGNALED(status)
        again = {line["turn"] for line in server.requests()[before:]} & known
        assert not again, f"turns {again} were answered, and asked for again"
        if not os.WIFSIGNALED(status):
            break
    else:
        known, before = answered(path), len(server.requests())
        begin(forks, folder, server.base_url)
        assert int(forks.stdout.readline()) == 0
        assert not {line["turn"] for line in server.requests()[before:]} & known
    result = json.loads((folder / "told.json").read_text())
    assert (result["status"], result["turns"], result["best_turn"]) == ("solved", 5, 5)
    trajectory = read_trajectory(path)
    answers = trajectory.all(AnswerReceived)
    assert [event.turn for event in answers] == [1, 2, 3, 4, 5]
    assert [event.answer.text for event in answers] == [
        f"<think>{'w' * 300}</think>{toy.candidate(k)}" for k in KERNELS
    ]
    assert len(server.requests()) - start >= 5
    return kills


def begin(forks: Any, folder: Path, base_url: str) -> int:
    job = {"folder": str(folder), "base_url": base_url}
    print(json.dumps(job), file=forks.stdin, flush=True)
    return int(forks.stdout.readline())


def answered(path: Path) -> set[int]:
    """Turns whose answer is on disk, whole."""
    if not path.exists() or not path.read_bytes().count(b"\n"):
        return set()
    return {event.turn for event in read_trajectory(path).all(AnswerReceived)}
