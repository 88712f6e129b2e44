"""Which integers of a file are sizes, and writing others in their place."""

import ast
import random

import pytest

from musaagent.tools.scaling import Role, apply_scaling, propose_scalings

CONV = """\
import torch

class Model(torch.nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, groups=1):
        super().__init__()
        self.conv = torch.nn.Conv2d(in_channels, out_channels, kernel_size, stride, groups=groups)

    def forward(self, x):
        return self.conv(x)

batch_size = 16
in_channels = 32
out_channels = 64; note = 'größe'; kernel_size = (3, 17)
height = width = 256
stride = 2
groups = 4
eps = 1e-5
bias = True
scaled = height * 2
M, K = 1024 * 2, 1 << 12
D = 8

def get_inputs():
    local = 96
    return [torch.rand(batch_size, in_channels, height, width), torch.randn((K, 224), dtype=None),
            torch.randint(0, 1000, (batch_size, local)), torch.zeros(M, size_of=3), torch.rand(D)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, 20]
"""


def _by_name(source: str) -> dict[str, tuple[int, Role]]:
    return {c.name: (c.value, c.role) for c in propose_scalings(source)}


def test_roles() -> None:
    assert _by_name(CONV) == {
        "batch_size": (16, Role.BATCH),
        "in_channels": (32, Role.SIZE),
        "out_channels": (64, Role.SIZE),
        "kernel_size[0]": (3, Role.OPERATION),
        "kernel_size[1]": (17, Role.OPERATION),
        "height = width": (256, Role.SIZE),
        "stride": (2, Role.OPERATION),
        "groups": (4, Role.OPERATION),
        "M": (2048, Role.SIZE),
        "K": (4096, Role.SIZE),
        "D": (8, Role.STRUCTURE),
        "get_inputs.local": (96, Role.SIZE),
        "224 on line 25": (224, Role.SIZE),
        "init groups": (20, Role.STRUCTURE),
    }


def test_a_constant_passed_as_a_kernel_size_is_part_of_the_op() -> None:
    source = (
        "import torch\n"
        "class Model(torch.nn.Module):\n"
        "    def __init__(self, kernel_size):\n"
        "        super().__init__()\n"
        "    def forward(self, x):\n"
        "        return x\n"
        "k = 31\n"
        "n = 512\n"
        "def get_inputs():\n"
        "    return [torch.rand(n)]\n"
        "def get_init_inputs():\n"
        "    return [k]\n"
    )
    assert _by_name(source)["k"] == (31, Role.OPERATION)


def test_the_last_binding_counts_unless_the_first_was_read() -> None:
    dead = "height = 2048\nwidth = 2048\nheight, width = 32, 48\ndef get_inputs():\n    return []\n"
    assert _by_name(dead) == {"height": (32, Role.SIZE), "width": (48, Role.SIZE)}
    read = "n = 2048\nm = n // 2\nn = 512\ndef get_inputs():\n    return []\n"
    assert _by_name(read) == {"n": (2048, Role.SIZE), "n (2)": (512, Role.SIZE)}


def test_nested_constants_have_their_place_in_the_name() -> None:
    source = "sizes = [64, 128] * 2\ncfg = {'hidden': 768}\nopt = dict(n_embd=256, n_head=16)\n"
    assert _by_name(source) == {
        "sizes[0]": (64, Role.SIZE),
        "sizes[1]": (128, Role.SIZE),
        "cfg[hidden]": (768, Role.SIZE),
        "opt[n_embd]": (256, Role.SIZE),
        "opt[n_head]": (16, Role.STRUCTURE),
    }


def test_apply_changes_only_what_is_named() -> None:
    overrides = {"height = width": 32, "K": 64, "out_channels": 8, "224 on line 25": 7}
    changed = apply_scaling(CONV, overrides)
    expected = (
        CONV.replace("height = width = 256", "height = width = 32")
        .replace("1 << 12", "64")
        .replace("out_channels = 64", "out_channels = 8")
        .replace("(K, 224)", "(K, 7)")
    )
    assert changed == expected
    assert apply_scaling(CONV, {}) == CONV


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(KeyError):
        apply_scaling(CONV, {"nonsense": 3})


def test_any_choice_round_trips() -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    draw = random.Random(seed)
    constants = propose_scalings(CONV)
    for _ in range(50):
        picked = draw.sample(constants, draw.randint(1, len(constants)))
        overrides = {c.name: draw.choice([2, 30, 5000, 123456]) for c in picked}
        changed = apply_scaling(CONV, overrides)
        ast.parse(changed)
        assert changed.count("\n") == CONV.count("\n")
        by_place = {(c.line, i): c.value for i, c in enumerate(propose_scalings(changed))}
        wanted = {(c.line, i): overrides.get(c.name, c.value) for i, c in enumerate(constants)}
        assert by_place == wanted
