"""Sizes on a card: the task's own for trials and timing where they fit, else the batch first."""

import pytest

from musaagent.tools.cuda.sizes import fits_card, plan_bytes
from musaagent.tools.opgraph import Plan
from musaagent.tools.plan import BUDGETS, TaskScales

HEAD = "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n"
NO_INIT = "\n\ndef get_init_inputs():\n    return []\n"


def op(forward: str, sizes: str, inputs: str, init: str = "") -> str:
    body = "    def forward(self, x, *rest):\n        return " + forward + "\n"
    return f"{HEAD}{init}{body}\n\n{sizes}\n\n\ndef get_inputs():\n    return [{inputs}]\n{NO_INIT}"


ROWS = "batch_size = 4096\ndim = 393216"
IMAGES = "batch_size = 128\nchannels = 64\nheight = 128\nwidth = 128"
IMAGE = "torch.rand(batch_size, channels, height, width)"
CONV = "    def __init__(self):\n        super().__init__()\n        self.conv = nn.Conv2d(64, 128, 3)\n\n"
CASES = {
    "softmax": (op("x.softmax(1)", ROWS, "torch.rand(batch_size, dim)"), {"batch_size"}),
    "relu": (op("x.relu()", ROWS, "torch.rand(batch_size, dim)"), {"batch_size"}),
    "row norm": (
        op("x / x.abs().mean(1, keepdim=True)", ROWS, "torch.rand(batch_size, dim)"),
        {"batch_size"},
    ),
    "cumsum": (
        op("x.cumsum(1)", "batch_size = 32768\ndim = 32768", "torch.rand(batch_size, dim)"),
        {"batch_size"},
    ),
    "loss": (
        op(
            "((x - rest[0]) ** 2).mean()",
            "batch_size = 32768\ndim = 32768",
            "torch.rand(batch_size, dim), torch.rand(batch_size, dim)",
        ),
        {"batch_size"},
    ),
    "pool": (op("nn.functional.max_pool2d(x, 2)", IMAGES, IMAGE), {"batch_size"}),
    "group norm": (op("nn.functional.group_norm(x, 8)", IMAGES, IMAGE), {"batch_size"}),
    "conv": (
        op(
            "self.conv(x)",
            IMAGES.replace("128\nwidth", "64\nwidth").replace("width = 128", "width = 64"),
            IMAGE,
            CONV,
        ),
        {"batch_size"},
    ),
    "batched product": (
        op(
            "torch.bmm(x, rest[0])",
            "batch_size = 512\nm = 128\nk = 256\nn = 512",
            "torch.rand(batch_size, m, k), torch.rand(batch_size, k, n)",
        ),
        {"batch_size"},
    ),
    "tall product": (
        op(
            "x @ rest[0]",
            "M = 16384 * 4\nN = 32",
            "torch.rand(M, N), torch.rand(N, M)",
        ),
        {"M"},
    ),
    "product": (op("x @ rest[0]", "N = 1024", "torch.rand(N, N), torch.rand(N, N)"), set()),
}


@pytest.mark.parametrize("name", CASES)
def test_the_batch_alone_is_reduced_for_a_card(name: str) -> None:
    source, changed = CASES[name]
    scales = TaskScales(source)
    budget = BUDGETS["gpu"]
    found = scales.scale(budget)
    assert set(found.overrides) == changed
    assert found.reached
    assert found.footprint.within(budget)
    # Not less than needed: one step is half a batch, or a quarter where it is both sides.
    if changed:
        least = found.footprint
        assert 4 * least.elements > budget.elements or 4 * least.flops > budget.flops


def plan(**known: object) -> Plan:
    return Plan.model_validate({"task": "t", "graph": None, **known})


def test_bytes_of_a_task_that_was_not_traced_are_those_of_its_tensors() -> None:
    shapes = ("float32[4096, 393216]", "bool[8]", "bfloat16[3, 5]", "complex64[2]", "float64[]")
    known = plan(input_shapes=shapes, output_shapes=("int64[4]",))
    assert plan_bytes(known) == 4 * 4096 * 393216 + 8 + 2 * 15 + 8 * 2 + 8 + 8 * 4
    assert plan_bytes(plan(least_bytes=7, input_shapes=shapes)) == 7


def test_what_fits_is_timed_at_its_own_sizes() -> None:
    relu = plan(least_bytes=2 * 4 * 4096 * 393216)  # 12 GiB
    assert fits_card(relu, 139 << 10)
    assert not fits_card(relu, 80 << 10)
    assert not fits_card(None, 139 << 10)
    assert fits_card(plan(least_bytes=1 << 30), 0)
    assert not fits_card(relu, 0)
