"""Real outputs of nvcc, g++, ld and clang: the feedback's first actionable line is the right one.

Each file in tests/feedback_outputs holds a faulty source, the command, what the compiler printed
(nvcc 13.0, g++ 12.2, clang 14), and the line and words that a model has to read first.
"""

import json
from pathlib import Path

import pytest

from musaagent.tools.feedback import repair_feedback
from musaagent.tools.host.diagnostics import Texts, parse
from musaagent.tools.results import Build, Status, Verdict

FILES = sorted((Path(__file__).parent.parent / "feedback_outputs").glob("*.json"))
LABEL = "cuda_sources[0]"


def test_there_are_thirty_of_three_compilers() -> None:
    assert len(FILES) >= 30
    assert {path.name.split("_")[0] for path in FILES} == {"nvcc", "gxx", "clang"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_first_actionable_line(path: Path) -> None:
    case = json.loads(path.read_text())
    texts = Texts({LABEL: case["source"]})
    found = parse(case["output"], case["tool"], texts)
    build = Build(ok=False, diagnostics=found, log_tail=case["output"])
    verdict = Verdict(status=Status.COMPILE_ERROR, target="cuda", message="no", build=build)
    lines = repair_feedback(verdict).split("\n")
    assert lines[0] == "It does not compile. Mend this error first:"
    assert case["said"] in lines[1]
    if case["line"]:
        assert lines[1].startswith(f"{LABEL}:{case['line']}:")
        assert lines[2].strip() == case["source"].split("\n")[case["line"] - 1].strip()
    assert len(lines) < 40
