"""Op files of every form load; broken ones give one exact line."""

import subprocess
import sys
from pathlib import Path

import pytest

from musaagent.errors import TaskError
from musaagent.tools.candidate import content_hash
from musaagent.tools.task import load_task

GOOD = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return x * self.scale

def get_inputs():
    return [torch.rand(4, 8)]

def get_init_inputs():
    return [2.0]
"""


def _write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "op.py"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_task_is_its_text(tmp_path: Path) -> None:
    task = load_task(_write(tmp_path, GOOD))
    assert task.name == "op"
    assert task.source == GOOD
    assert task.hash == content_hash(GOOD)
    assert load_task(str(task.path)) == task


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    assert load_task(_write(tmp_path, b"\xef\xbb\xbf" + GOOD.encode())).source == GOOD


def test_loading_executes_nothing_and_needs_no_torch(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    path = _write(tmp_path, f"open({str(marker)!r}, 'w')\n" + GOOD)
    code = (
        "import sys; from musaagent.tools.task import load_task;"
        f" load_task({str(path)!r}); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert not marker.exists()


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("nn.Module", "torch.nn.Module"),
        GOOD.replace("import torch.nn as nn", "from torch.nn import Module").replace(
            "nn.Module", "Module"
        ),
        GOOD.replace(
            "class Model(nn.Module)", "class Base(nn.Module):\n    pass\n\nclass Model(Base)"
        ),
        GOOD.replace("class Model(", "class Net(") + "\nModel = Net\n",
        GOOD.replace("class Model(nn.Module)", "class Model(nn.Linear)"),
        GOOD.replace("def get_init_inputs():\n    return [2.0]\n", "").replace(
            "self, scale", "self, scale=1.0"
        ),
        GOOD + "\nget_inputs = lambda: []\n",
        "try:\n    import fast\nexcept ImportError:\n    fast = None\nif True:\n    pass\n" + GOOD,
        "from ops import *\n\ndef get_inputs():\n    return []\n",
        GOOD.replace(
            "    def forward(self, x):\n        return x * self.scale\n", "    forward = abs\n"
        ),
        GOOD.replace("def get_inputs():", "def get_inputs(batch=4):"),
    ],
)
def test_forms_seen_in_the_wild(tmp_path: Path, text: str) -> None:
    assert load_task(_write(tmp_path, text)).source == text


FORM = "a task defines class Model (a torch.nn.Module) and get_inputs()"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f": the file is empty; {FORM}"),
        ("\n  \n", f": the file is empty; {FORM}"),
        (b"x = 1\ny = '\xff'\n", ", line 2: not UTF-8 text; save the file as UTF-8"),
        (
            "import torch\n\nclass Model(nn.Module:\n",
            ", line 3: syntax error: invalid syntax",
        ),
        ("def f():\nreturn 1\n", None),
        ("import torch\n", f": no class Model; {FORM}"),
        (
            GOOD.replace("Model(", "ModelNew("),
            f": no class Model; {FORM}; ModelNew alone is a candidate, not a task",
        ),
        (
            GOOD.replace("class Model(nn.Module)", "class Model"),
            ", line 4: class Model does not derive from torch.nn.Module",
        ),
        (
            GOOD.replace("class Model(nn.Module)", "class Model(object)"),
            ", line 4: class Model does not derive from torch.nn.Module",
        ),
        (
            GOOD.replace("class Model(nn.Module)", "class Base: pass\nclass Model(Base)"),
            ", line 5: class Model does not derive from torch.nn.Module",
        ),
        (
            GOOD.replace("class Model(nn.Module)", "def Model()"),
            f", line 4: Model is a function; {FORM}",
        ),
        (
            GOOD.replace("def forward", "def forwards"),
            ", line 4: class Model has no method forward",
        ),
        (GOOD.replace("def get_inputs", "def inputs"), f": no function get_inputs; {FORM}"),
        (
            GOOD.replace("def get_inputs()", "async def get_inputs()"),
            ", line 12: get_inputs is not a plain function",
        ),
        (
            GOOD.replace("def get_inputs()", "def get_inputs(batch, *, dim)"),
            ", line 12: get_inputs is called without arguments, but needs batch, dim",
        ),
        (
            GOOD.replace("def get_init_inputs()", "def get_init_inputs(seed)"),
            ", line 15: get_init_inputs is called without arguments, but needs seed",
        ),
        (
            GOOD.replace("get_init_inputs", "init_inputs"),
            ", line 5: Model needs scale, but the file has no get_init_inputs()",
        ),
    ],
)
def test_a_broken_file_gets_one_line(
    tmp_path: Path, text: str | bytes, message: str | None
) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(TaskError) as error:
        load_task(path)
    said = str(error.value)
    assert "\n" not in said
    if message is None:  # CPython's own words, which differ between versions
        assert said.startswith(f"{path}, line 2: syntax error: ")
    else:
        assert said == f"{path}{message}"


def test_a_path_that_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(TaskError) as missing:
        load_task(tmp_path / "none.py")
    assert str(missing.value) == f"{tmp_path}/none.py: no such file"
    with pytest.raises(TaskError) as folder:
        load_task(tmp_path)
    assert str(folder.value) == f"{tmp_path}: is a directory; give one op file"


def test_null_bytes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError) as error:
        load_task(_write(tmp_path, "x = 1\0\n"))
    assert str(error.value).startswith(str(tmp_path / "op.py"))
    assert "\n" not in str(error.value)
