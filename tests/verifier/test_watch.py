"""What counts as left behind by a call."""

import os
from pathlib import Path

import pytest

from musaagent.tools.watch import Leftovers


def test_new_files_are_left_behind_but_not_what_is_mounted_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lent, own = tmp_path / "lent", tmp_path / "own"
    lent.mkdir()
    own.mkdir()
    really = os.path.ismount
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) == str(lent) or really(path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = Leftovers(native_threads=False)
    (lent / "module.so").touch()
    (own / "result.bin").touch()
    assert before.found() == ["file own/result.bin"]
