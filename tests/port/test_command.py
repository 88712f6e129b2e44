"""`musaagent port`: files in, files out, a patch, exit codes."""

import json
import subprocess
from pathlib import Path

import pytest

from musaagent.cli import main

CLEAN = "#include <cuda_runtime.h>\nvoid f() { cudaDeviceSynchronize(); }\n"
WARP = "__global__ void k(int* x) { x[0] = threadIdx.x & 31; }\n"


def test_a_file_beside_the_old_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.cu"
    path.write_text(CLEAN)
    assert main(["port", str(path)]) == 0
    assert (tmp_path / "a.mu").read_text() == CLEAN.replace("cuda", "musa")
    assert "nothing is left to a person" in capsys.readouterr().out
    assert main(["port", str(path)]) == 2
    assert "--force" in capsys.readouterr().err
    assert main(["port", str(path), "--force"]) == 0


def test_a_folder_keeps_its_shape_and_its_own_names(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "util.cuh").write_text("#pragma once\nint cudaOwnHelper();\n")
    (folder / "main.cu").write_text(
        '#include "lib/util.cuh"\nint n = cudaOwnHelper(); auto e = cudaSuccess;\n'
    )
    (folder / "notes.txt").write_text("cuda")
    assert main(["port", str(folder)]) == 0
    out = tmp_path / "src_musa"
    names = sorted(str(p.relative_to(out)) for p in out.rglob("*") if p.is_file())
    assert names == ["lib/util.muh", "main.mu"]
    assert (out / "main.mu").read_text() == (
        '#include "lib/util.muh"\nint n = cudaOwnHelper(); auto e = musaSuccess;\n'
    )


def test_something_left_to_a_person_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.cu"
    path.write_text(WARP)
    assert main(["port", str(path), "--json", "--out", str(tmp_path / "b.mu")]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["status"] == "remarks"
    assert told["counts"] == {"warp_size": 1}
    (remark,) = told["files"][0]["remarks"]
    assert remark["line"] == 1
    assert remark["text"] == WARP.strip()
    assert main(["port", str(path), "--arch", "mp_31", "--out", str(tmp_path / "c.mu")]) == 0


def test_the_patch_applies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.h"
    path.write_text(CLEAN)
    assert main(["port", str(path), "--diff"]) == 0
    patch = capsys.readouterr().out
    assert not (tmp_path / "a_musa.h").exists()
    applied = subprocess.run(
        ["git", "apply", "--unsafe-paths", f"--directory={tmp_path}", "-"],
        input=patch,
        text=True,
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert applied.returncode == 0, applied.stderr
    assert path.read_text() == CLEAN.replace("cuda", "musa")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.txt", b"cuda", "port reads"),
        ("a.cu", b"\xff\xfe\x00", "not UTF-8"),
        ("a.py", b"def (:\n", "line 1: not Python"),
        ("", b"", "no file below it"),
    ],
)
def test_bad_input_is_one_line(
    name: str, content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    if name:
        path.write_bytes(content)
    assert main(["port", str(path)]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1
