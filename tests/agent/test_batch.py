"""verify --batch, with the toy target."""

import json
from pathlib import Path

import pytest

from musaagent.batch import finished_ids, read_manifest
from musaagent.errors import UsageError


def test_manifest_rows_and_their_faults(tmp_path: Path) -> None:
    manifest = tmp_path / "m.jsonl"
    row = {"id": "a", "task": "op.py", "candidate": "c.py"}
    manifest.write_text(json.dumps(row) + "\n\n")
    (read,) = read_manifest(manifest)
    assert (read.id, read.task, read.candidate) == ("a", tmp_path / "op.py", tmp_path / "c.py")
    for text, words in (
        ("{", "line 1: not JSON"),
        ('{"id": "a"}', "line 1: a row needs"),
        (json.dumps(row) + "\n" + json.dumps(row), "line 2: the id 'a' is there twice"),
        ("\n \n", "is empty"),
    ):
        manifest.write_text(text)
        with pytest.raises(UsageError, match=words):
            read_manifest(manifest)


def test_a_half_written_line_is_cut_off(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    out.write_text('{"id": "a", "status": "passed"}\n{"id": "b", "sta')
    assert finished_ids(out) == {"a"}
    assert out.read_text().endswith("}\n")
    assert finished_ids(tmp_path / "none.jsonl") == set()
    out.write_text("text\n")
    with pytest.raises(UsageError, match="line 1: not a result"):
        finished_ids(out)
