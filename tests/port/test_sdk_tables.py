"""torch_musa's own mapping files are read where they are installed."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from musaagent.tools.port import sdk_tables


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "torch_musa" / "utils" / "mapping"
    folder.mkdir(parents=True)
    (tmp_path / "torch_musa" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("MUSA_HOME", str(tmp_path / "none"))
    sys.modules.pop("torch_musa", None)
    sdk_tables.find_tables.cache_clear()
    yield folder
    sdk_tables.find_tables.cache_clear()


def test_tables_of_torch_musa_are_used(installed: Path) -> None:
    (installed / "general.json").write_text(
        json.dumps({"cudaNewCall": "musaNewCall2", "cu": "mu", "cuda_new.h": "musa_newer.h"})
    )
    (installed / "broken.json").write_text("{not json")
    tables = sdk_tables.find_tables()
    assert tables.word("cudaNewCall") == "musaNewCall2"
    assert tables.header("cuda_new.h") == "musa_newer.h"
    assert tables.word("cu") is None  # a fragment, and a variable of many programs
    assert tables.word("cudaMalloc") == "musaMalloc"
    assert "general.json" in tables.source
    assert "broken.json" not in tables.source


def test_without_them_the_rules_are_ours(installed: Path) -> None:
    assert sdk_tables.find_tables().source == "musaagent's own rules"
