"""The command line's contract: exit codes, one line for bad input, one object for --json."""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from musaagent import commands
from musaagent.cli import _run as run_command
from musaagent.cli import build_parser, main
from musaagent.errors import UsageError
from musaagent.tools.musa.gmi import find_cards

ENDED_RUN = Path(__file__).parents[1] / "traces" / "golden_v1.jsonl"
KEYS = {"status", "target", "candidate", "run", "turns", "verdict", "flags", "seconds"}


def musaagent(*words: object, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "musaagent", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=300,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path, toy: Any) -> Path:
    """One of everything that a path on the command line can be."""
    (tmp_path / "op.py").write_text(toy.OP)
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "binary.py").write_bytes(b"\x7fELF\xff\x00\x01")
    (tmp_path / "broken.py").write_text("class Model(:\n")
    (tmp_path / "candidate.py").write_text("class ModelNew:\n    pass\n")
    (tmp_path / "dir").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run/trajectory.jsonl").write_bytes(ENDED_RUN.read_bytes())
    (tmp_path / "corrupt").mkdir()
    (tmp_path / "corrupt/trajectory.jsonl").write_text("{}\n")
    (tmp_path / "void").mkdir()
    (tmp_path / "void/trajectory.jsonl").write_text("")
    return tmp_path


def cpu_seconds_of_children() -> float:
    """Other tests that run beside this one do not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_help_is_fast_and_light() -> None:
    program = (
        "import sys, time; start = time.perf_counter()\n"
        "from musaagent.cli import build_parser; build_parser().format_help()\n"
        "heavy = {'torch', 'langgraph', 'pydantic', 'numpy', 'rich'} & set(sys.modules)\n"
        "print(heavy or 'light')"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert said.stdout.strip() == "light"
    times = []
    for _ in range(3):
        start = cpu_seconds_of_children()
        assert musaagent("--help").returncode == 0
        times.append(cpu_seconds_of_children() - start)
    print(f"musaagent --help: {min(times):.3f} s of CPU")
    assert min(times) < 0.5


def test_every_command_has_help() -> None:
    top = musaagent("--help").stdout
    for command in ("solve", "verify", "lint", "show", "resume", "doctor", "eval"):
        assert command in top
        assert musaagent(command, "--help").returncode == 0
    assert musaagent("--version").stdout.startswith("musaagent 0.")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "usage: "),
        ("dance", "invalid choice: 'dance'"),
        ("solve", "solve needs OP, an op file, or --describe"),
        ("solve op.py --describe x", "one of the two"),
        ("solve op.py --model m", "--model goes with --policy served, offline, cascade"),
        ("solve op.py --policy served", "policy served needs --model NAME"),
        ("solve op.py --policy served --model m", "needs --base-url http://HOST:PORT/v1"),
        ("solve op.py --policy served --model m --base-url x/v1", "--base-url: must be an http"),
        ("solve op.py --policy cascade --model m --base-url http://h/v1", "--repair-model"),
        ("solve op.py --policy served --model m --key-env sk-123", "NAME of an environment"),
        ("solve op.py --policy replay", "needs --answers RUN"),
        ("serve 7b", "no size '7b'"),
        ("solve op.py --max-turns 0", "'0' is not a whole number above 0"),
        ("solve op.py --max-turns -3", "'-3' is not a whole number above 0"),
        ("solve op.py --max-turns many", "'many' is not a whole number"),
        ("solve op.py --seed -1", "'-1' is not a whole number, 0 or above"),
        ("solve op.py --target tpu", "invalid choice: 'tpu'"),
        ("solve op.py --policy oracle", "invalid choice: 'oracle'"),
        ("solve op.py --warp-size 64", "invalid choice: 64"),
        ("solve op.py --max 3", "unrecognized arguments: --max 3"),
        ("solve none.py", "none.py: no such file"),
        ("solve dir", "dir: is a directory"),
        ("solve empty.py", "empty.py: the file is empty"),
        ("solve binary.py", "binary.py, line 1: not UTF-8 text"),
        ("solve broken.py", "broken.py, line 1: syntax error"),
        ("solve candidate.py", "ModelNew alone is a candidate"),
        ("solve op.py --out op.py", "op.py is a file; --out needs a folder"),
        ("solve op.py --out op.py/below", "cannot write in op.py/below"),
        ("solve op.py --out run", "run already holds a run; give --force"),
        ("solve op.py --policy scripted", "policy scripted needs --answers DIR"),
        ("solve op.py --policy scripted --answers none", "none: no such folder"),
        ("verify op.py", "needs OP and CANDIDATE"),
        ("verify op.py none.py", "none.py: No such file"),
        ("verify op.py dir", "dir: is a directory"),
        ("verify op.py empty.py", "empty.py: the file is empty"),
        ("verify op.py binary.py", "binary.py: not UTF-8 text"),
        ("verify broken.py candidate.py", "broken.py, line 1: syntax error"),
        ("verify op.py candidate.py --timeout nan", "'nan' is not a number above 0"),
        ("verify op.py candidate.py --timeout -1", "'-1' is not a number above 0"),
        ("verify op.py candidate.py --atol -1", "'-1' is not a number, 0 or above"),
        ("verify op.py candidate.py --trials 0", "'0' is not a whole number above 0"),
        ("lint none.py", "none.py: no such file"),
        ("show none", "none: no such run"),
        ("show dir", "dir is no run"),
        ("show op.py", "op.py is no run"),
        ("show corrupt", "corrupt/trajectory.jsonl:1: no trajectory event"),
        ("show void", "holds no event"),
        ("resume none", "none: no such run"),
        ("resume dir", "dir is no run"),
        ("resume corrupt", "corrupt/trajectory.jsonl:1: no trajectory event"),
        ("eval", "required: --out"),
        ("eval --out e", "eval needs DIR"),
        ("eval none --out e", "none: no such folder"),
        ("eval dir --out e", "dir: no .py file"),
        ("eval dir --out e --jobs 0", "'0' is not a whole number above 0"),
        ("eval --out dir --table", "dir is no evaluation"),
        ("doctor --target tpu", "invalid choice: 'tpu'"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    words: str,
    said: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """In this process, because there are many: what a process adds is tested below."""
    before = sorted(folder.rglob("*"))
    monkeypatch.chdir(folder)
    try:
        code: object = main(words.split())
    except SystemExit as ended:
        code = ended.code
    out, err = capfd.readouterr()
    assert code == 2
    assert out == ""
    assert said in err
    if words:
        assert err.count("\n") == 1
        assert err.startswith("musaagent")
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("words", ["solve none.py", "solve op.py --max-turns x"])
def test_bad_input_in_a_process(words: str, folder: Path) -> None:
    done = musaagent(*words.split(), cwd=folder)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_target_to_come_is_our_failure(folder: Path) -> None:
    done = musaagent("solve", "op.py", "--target", "musa", "--json", cwd=folder)
    assert done.returncode == 3
    assert "target musa cannot run here" in done.stderr
    answer = json.loads(done.stdout)
    assert answer.keys() >= KEYS
    assert (answer["status"], answer["error"]["type"]) == ("failed", "ToolchainMissing")
    assert not (folder / "musaagent-runs").exists()


@pytest.mark.parametrize("words", ["solve none.py", "verify none.py op.py", "resume none"])
def test_json_has_its_object_for_bad_input_too(words: str, folder: Path) -> None:
    done = musaagent(*words.split(), "--json", cwd=folder)
    assert done.returncode == 2
    assert done.stdout.count("\n") == 1
    assert json.loads(done.stdout).keys() >= KEYS | {"error"}


def test_fault_of_ours_is_never_exit_1(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command(argparse.Namespace(command="nonsense", json=True)) == 3
    out, err = capfd.readouterr()
    assert json.loads(out)["error"]["message"].startswith("internal error: AttributeError")
    assert "Traceback" in err


def test_fault_of_the_file_system_is_one_line(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "out/eval.json").mkdir(parents=True)
    assert main(["eval", str(folder / "dir"), "--out", str(folder / "out")]) == 2  # no ops
    (folder / "dir/op.py").write_text((folder / "op.py").read_text())
    capfd.readouterr()
    assert main(["eval", str(folder / "dir"), "--out", str(folder / "out")]) == 3
    out, err = capfd.readouterr()
    assert out == ""
    assert err == f"musaagent eval: {folder}/out/eval.json: Is a directory\n"


def test_trajectory_that_lacks_its_candidate(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = folder / "run/trajectory.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"kind": "candidate"' not in line))
    assert main(["resume", str(folder / "run")]) == 2
    assert "has no candidate of turn 4" in capfd.readouterr().err


def test_unwritable_out(folder: Path) -> None:
    if os.geteuid() == 0:
        out = "/proc/out"
    else:
        (folder / "dir").chmod(0o500)
        out = "dir/out"
    done = musaagent("solve", "op.py", "--out", out, cwd=folder)
    assert done.returncode == 2
    assert f"cannot write in {out}" in done.stderr


def test_show_prints_a_run_for_a_person(folder: Path) -> None:
    done = musaagent("show", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    for fact in (
        "solved  softmax",
        "turn 1: write",
        "turn 4: repair (best)",
        "cuda_sources[0]:12:9: error: 'idx' was not declared in this scope",
        "    y[idx] = 0;",
        "[0, 4095]: expected 0.1, got nan",
        "only the last column",
        "partial_warp in softmax_rows, block (0, 0, 0), thread (16, 0, 0), cuda_sources[0]:20",
        "launched softmax_rows x1: grid (64, 1, 1), block (256, 1, 1)",
        "softmax_rows on sm_90: 28 registers",
        "2.50 s: build 1.50, run 1.00",
        "next: read each row once",
        "reward: 1",
        "12.5 s 900 prompt_tokens, 1200 completion_tokens",
    ):
        assert fact in done.stdout
    assert "\x1b" not in done.stdout


def test_shown_text_cannot_steer_the_terminal(folder: Path) -> None:
    path = folder / "run/trajectory.jsonl"
    path.write_text(path.read_text().replace("read each row once", "\\u001b[2Jgone\\u0007"))
    done = musaagent("show", "run", cwd=folder)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


def test_reader_that_leaves_is_no_error(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "musaagent", "show", "run"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_resume_of_a_finished_run_writes_its_files(folder: Path) -> None:
    done = musaagent("resume", "run", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer.keys() >= KEYS
    assert (answer["status"], answer["turns"], answer["best_turn"]) == ("solved", 4, 4)
    assert answer["candidate"] == "run/candidate.py"
    assert (folder / "run/candidate.py").read_text() == "# candidate 4\nclass ModelNew:\n    pass\n"
    assert "# softmax: solved" in (folder / "run/report.md").read_text()


def test_doctor_says_what_is_here() -> None:
    done = musaagent("doctor", "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == (0 if answer["status"] == "ready" else 1)
    assert [target["name"] for target in answer["targets"]] == ["host", "cuda", "musa"]
    for target in answer["targets"]:
        for need in target["needs"]:
            assert need["ok"] or need["remedy"], need
    assert musaagent("doctor", "--target", "musa").returncode == 1


def test_doctor_imports_no_torch() -> None:
    program = (
        "import sys; from musaagent.cli import main; main(['doctor', '--json'])\n"
        "print('torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.strip() == "False"


def test_interrupt_before_a_run_is_quiet(folder: Path) -> None:
    """Whenever it comes, a signal ends in 130 and one line, never in a traceback."""
    process = subprocess.Popen(
        [sys.executable, "-m", "musaagent", "solve", "op.py", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    deadline = time.monotonic() + 60
    while not list(folder.glob("musaagent-runs/*/trajectory.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.count("\n") == 1
    assert "interrupted; go on with: musaagent resume musaagent-runs/op-" in err
    answer = json.loads(out)
    assert answer["status"] == "failed"
    assert Path(folder / answer["run"]).is_dir()


def test_an_architecture_decides_the_warp_size() -> None:
    parser = build_parser()
    for arch, lanes in (("mp_21", 128), ("mp_22", 128), ("mp_31", 32)):
        assert commands.warp_size(parser.parse_args(["solve", "op.py", "--arch", arch])) == lanes
    assert commands.warp_size(parser.parse_args(["solve", "op.py"])) == 32
    on_musa = parser.parse_args(["solve", "op.py", "--target", "musa"])
    assert commands.arch(on_musa) == "mp_22" or find_cards()
    assert commands.arch(parser.parse_args(["solve", "op.py"])) == ""
    given = ["solve", "op.py", "--arch", "mp_22", "--warp-size", "32"]
    with pytest.raises(UsageError, match="mp_22 has warps of 128 lanes"):
        commands.warp_size(parser.parse_args(given))
