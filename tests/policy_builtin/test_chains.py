"""Random chains of ops that nobody wrote by hand, through the real host target."""

import random
from collections.abc import Callable

import pytest

from musaagent.tools.results import Status, Verdict

_UNARY = (
    "torch.tanh({})", "F.gelu({})", "F.silu({})", "F.relu({}) + 0.1", "({}).abs().sqrt()",
    "torch.sigmoid({}) * 2", "({}) * 0.5 - 1", "({}).clamp(-0.7, 0.9)", "F.softplus({})",
    "F.hardswish({})", "F.leaky_relu({}, 0.3)", "({}).sin()", "-({})",
)  # fmt: skip
_BINARY = ("({}) + ({})", "({}) * ({})", "({}) - ({})", "torch.maximum({}, {})",
           "({}) / (({}).abs() + 1)", "torch.where({} > 0, {}, 0.25)")  # fmt: skip
_KEEPING = (
    "({x}).sum({d}, keepdim=True)", "({x}).mean({d}, keepdim=True)",
    "({x}).amax({d}, keepdim=True)", "({x}).std({d}, keepdim=True)",
    "({x}).logsumexp({d}, keepdim=True)",
)  # fmt: skip
_ALONG = (
    "F.softmax({x}, {d})", "F.log_softmax({x}, {d})", "({x}).cumsum({d}) * 0.1",
    "F.normalize({x}, dim={d})", "({x}).flip({d})", "({x}).roll(1, {d})",
    "torch.cat([{x}, {x}], {d}).narrow({d}, 1, x.size({d}))",
)  # fmt: skip
_ENDS = (
    "({x}).sum()", "({x}).mean({d})", "({x}).max({d})", "({x}).argmin({d})", "({x}).var({d})",
    "({x}).transpose(0, 2).flatten(1)", "({x}).permute(1, 2, 0) * 2", "({x}) > 0.2",
    "({x})[:, 1:].norm()", "({x}).reshape(-1)", "({x}).amax(({d}, 0))", "({x}).prod({d})",
)  # fmt: skip


def chain(random_: random.Random) -> str:
    """The text of one output: ops over x (n, c, w), y (c, w) and z (n, 1, w)."""
    text = random_.choice(["x", "x", "x + y", "x * z"])
    for _ in range(random_.randint(1, 5)):
        kind = random_.random()
        d = random_.choice([0, 1, 2, -1, -2])
        if kind < 0.45:
            text = random_.choice(_UNARY).format(text)
        elif kind < 0.65:
            text = random_.choice(_BINARY).format(text, random_.choice(["x", "y", "z", "y * z"]))
        elif kind < 0.85:
            text = random_.choice(_ALONG).format(x=text, d=d)
        else:
            text = f"({text}) - {random_.choice(_KEEPING).format(x=text, d=d)}"
    if random_.random() < 0.7:
        text = random_.choice(_ENDS).format(x=text, d=random_.choice([1, 2, -1]))
    return text


def task(seed: int, outputs: int = 10) -> str:
    random_ = random.Random(seed)
    sizes = [random_.choice([3, 5, 8, 17, 33, 64]) for _ in range(3)]
    lines = ",\n            ".join(chain(random_) for _ in range(outputs))
    return f"""
import torch
import torch.nn as nn
import torch.nn.functional as F

batch, channels, width = {sizes[0]}, {sizes[1]}, {sizes[2]}


class Model(nn.Module):
    def forward(self, x, y, z):
        return (
            {lines},
        )


def get_inputs():
    x, y = torch.randn(batch, channels, width), torch.randn(channels, width)
    return [x, y, torch.randn(batch, 1, width)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("seed", [11, 12])
def test_random_chains(seed: int, first_verdict: Callable[..., Verdict]) -> None:
    source = task(seed)
    print("seed", seed, source)
    verdict = first_verdict(source)
    assert verdict.status is Status.PASSED, (verdict.message, verdict.details[-2000:])
    assert not verdict.findings
