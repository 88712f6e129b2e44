"""The sizes beside its own that a task is run at on a card: small ones, found on the CPU."""

from pathlib import Path

from musaagent.tools import scales
from musaagent.tools.cuda.sizes import sizes_for
from musaagent.tools.cuda.target import CudaTarget
from musaagent.tools.musa.target import MusaTarget
from musaagent.tools.task import check_task

OP = """
import torch
import torch.nn as nn

rows = 4096
features = 16384

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)

def get_inputs():
    return [torch.rand(rows, features)]

def get_init_inputs():
    return []
"""


def test_they_are_few_enough_for_a_cpu_and_odd_where_asked() -> None:
    task = check_task(Path("op.py"), OP)
    with CudaTarget() as target:
        check = sizes_for(target, task, "check")
        odd = sizes_for(target, task, "odd")
        assert check is not None
        assert check["rows"] * check["features"] <= scales.CHECK.elements
        assert odd is not None
        assert {odd["rows"] % 2, odd["features"] % 2} == {1}
        target.forget(task)
        assert sizes_for(target, task, "check") == check


def test_a_musa_card_runs_the_own_sizes_alone() -> None:
    with MusaTarget() as target:
        assert sizes_for(target, check_task(Path("op.py"), OP), "odd") is None
