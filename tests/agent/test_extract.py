"""From answers as models give them to a candidate, or to a located reason."""

import pytest

from musaagent.tools.candidate import Candidate
from musaagent.tools.extract import ExtractionError, extract, extraction_verdict

CODE = "import torch\n\nclass ModelNew:\n    pass\n"


def fenced(code: str, language: str = "python", fence: str = "```") -> str:
    return f"{fence}{language}\n{code.rstrip()}\n{fence}"


@pytest.mark.parametrize(
    "answer",
    [
        fenced(CODE),
        fenced(CODE, "py"),
        fenced(CODE, ""),
        fenced(CODE, "Python"),
        fenced(CODE, "python", "~~~"),
        fenced(CODE, "python title=kernel.py", "````"),
        f"Here it is:\n\n{fenced(CODE)}\nDone.",
        f"<think>\n{fenced('class ModelNew: 1/0')}\n</think>\n{fenced(CODE)}",
        f"no tag before\n</think>{fenced(CODE)}<|im_end|>",
        f"{fenced(CODE)}\n<|im_end|>\n<|endoftext|>",
        f"{fenced('int x;', 'cpp')}\n{fenced(CODE)}\n{fenced('int y;', 'cuda')}",
        f"{fenced('class ModelNew: 1', 'python')}\nBetter:\n{fenced(CODE)}",
        f"{fenced(CODE)}\nUse it so:\n{fenced('model = ModelNew()')}",
        f"{fenced(CODE)}\nTest:\n{fenced('broken (')}",
        CODE,
        CODE + "<|im_end|>",
        fenced(CODE).replace("\n", "\r\n"),
        f"```python\n{CODE}",
    ],
)
def test_finds_the_candidate(answer: str) -> None:
    found = extract(answer, parent="0" * 16)
    assert found == Candidate(CODE, "0" * 16)


@pytest.mark.parametrize(
    "code",
    [
        "class Fast:\n    pass\n\nModelNew = Fast\n",
        "try:\n    class ModelNew:\n        pass\nexcept ImportError:\n    ModelNew = None\n",
        "if True:\n    class ModelNew:\n        pass\n",
        "from kernels import Net as ModelNew\n",
        "pattern = '\\d'\nclass ModelNew:\n    pass\n",
        'class ModelNew:\n    end = "</think>"\n',
        'class ModelNew:\n    start = "<think>"\n',
        'class ModelNew:\n    """\n    ```python\n    ModelNew()\n    ```\n    """\n',
    ],
)
def test_other_ways_to_define_it(code: str) -> None:
    assert extract(code) == Candidate(code)


@pytest.mark.parametrize(
    ("answer", "fault", "line", "said"),
    [
        ("", "empty", 0, "empty"),
        ("<think>done</think>\n<|im_end|>", "empty", 0, "empty"),
        ("<think>first I will", "unfinished_thinking", 0, "inside its thinking"),
        ("I cannot do this.", "no_code", 0, "no Python code block"),
        (fenced("int x;", "cpp"), "no_code", 0, "no Python code block"),
        (fenced("x = 1\n"), "no_model_new", 0, "defines ModelNew"),
        (fenced("def f():\n    class ModelNew:\n        pass\n"), "no_model_new", 0, "ModelNew"),
        (fenced("x = 1\nclass ModelNew:\n  def f(:\n"), "syntax", 3, "invalid Python"),
        (f"```python\n{CODE}\ndef f():\n    return (1,", "cut_off", 7, "cut off"),
        ("x = 1\nclass ModelNew:\n  def f(:\n", "syntax", 3, "invalid Python"),
        (fenced("class ModelNew:\n    x = '\0'\n"), "syntax", 0, "null bytes"),
    ],
)
def test_says_why_there_is_none(answer: str, fault: str, line: int, said: str) -> None:
    found = extract(answer)
    assert isinstance(found, ExtractionError)
    assert (found.fault, found.line) == (fault, line)
    assert said in found.message


def test_last_block_with_the_class_decides_even_when_broken() -> None:
    found = extract(f"{fenced(CODE)}\nNow faster:\n{fenced('class ModelNew(:')}")
    assert isinstance(found, ExtractionError)
    assert found.fault == "syntax"


def test_verdict_carries_the_line() -> None:
    found = extract(fenced("class ModelNew:\n  def f(:\n"))
    assert isinstance(found, ExtractionError)
    verdict = extraction_verdict(found, "host")
    assert verdict.status == "extraction_error"
    assert verdict.message == "invalid Python: invalid syntax, line 2: def f(:"


def test_deep_nesting_is_a_value_not_a_crash() -> None:
    found = extract("x = " + "(" * 100_000 + "\nclass ModelNew: pass")
    assert isinstance(found, ExtractionError)
