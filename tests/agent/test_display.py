"""Progress on a terminal, and silence elsewhere."""

import os
import pty
import subprocess
import sys

import pytest

PROGRAM = """
from musaagent.app import Step
from musaagent.display import eval_progress, progress
from musaagent.result import RunResult
with progress(quiet=QUIET) as observe:
    for step in (Step("plan", 0), Step("plan", 0, {}), Step("compile", 1),
                 Step("compile", 1, {"outcome": "built"})):
        if observe is not None:
            observe(step)
bar = eval_progress(quiet=QUIET)
if bar is not None:
    bar.begin(2, 1)
    bar.finished(RunResult(status="solved", target="host", op="1_[red]op.py", seconds=1.5))
    bar.end()
"""


def run(quiet: bool, terminal: bool) -> tuple[str, str]:
    """Standard output and error of the program, the latter a terminal or a pipe."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.replace("QUIET", str(quiet))],
        stdout=subprocess.PIPE,
        stderr=slave if terminal else subprocess.PIPE,
        text=True,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        os.close(slave)
        shown = b""
        try:
            while terminal and (chunk := os.read(master, 4096)):
                shown += chunk
        except OSError:  # how a pseudo-terminal says that its last writer is gone
            pass
        finally:
            os.close(master)
        out, err = process.communicate()
    assert process.returncode == 0, err or shown
    return out, err if not terminal else shown.decode()


def test_terminal_sees_nodes_and_ops() -> None:
    out, err = run(quiet=False, terminal=True)
    assert out == ""
    assert "compile  built" in err
    assert "1_[red]op.py" in err
    assert "2/2" in err


def test_pipe_sees_only_the_ops_of_an_evaluation() -> None:
    out, err = run(quiet=False, terminal=False)
    assert out == ""
    assert err.splitlines() == [
        "2 runs, 1 of them have a result already",
        "   2/2 solved        1.5 s  1_[red]op.py",
    ]


@pytest.mark.parametrize("terminal", [True, False])
def test_json_sees_nothing(terminal: bool) -> None:
    assert run(quiet=True, terminal=terminal) == ("", "")
