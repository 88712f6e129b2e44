"""The one-shot example of the prompts is right itself: a model copies what it sees."""

from pathlib import Path

import pytest

from musaagent.app import verify
from musaagent.policies.prompting import prompt_text
from musaagent.tools.target import VerifyOptions


@pytest.mark.parametrize("dialect", ["cuda", "musa"])
def test_one_shot_example_passes(dialect: str, tmp_path: Path) -> None:
    op, candidate = tmp_path / "add.py", tmp_path / "candidate.py"
    op.write_text(prompt_text("example_reference.txt"))
    candidate.write_text(prompt_text(f"example_answer.{dialect}.txt"))
    verdict = verify(op, candidate, options=VerifyOptions(check=True))
    assert verdict.status == "passed", verdict.message
