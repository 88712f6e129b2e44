"""What the generator writes: how many kernels, what is fused, what it keeps of the task's text."""

import ast
from collections.abc import Callable

import pytest

from musaagent.policies.builtin.generate import Generated
from musaagent.policies.builtin.schedule import Schedule
from musaagent.policies.builtin.sizes import Refusal

Generate = Callable[..., Generated]


def op(
    forward: str, inputs: str, init: str = "pass", arguments: str = "x", prelude: str = ""
) -> str:
    return f"""
import torch
import torch.nn as nn
import torch.nn.functional as F
n = 64
{prelude}
class Model(nn.Module):
    def __init__(self):
        super(Model, self).__init__()
        {init}
    def forward(self, {arguments}):
        {forward}
def get_inputs():
    return [{inputs}]
def get_init_inputs():
    return []
"""


def kernels(made: Generated) -> list[str]:
    return [note.split(":")[0] for note in made.notes]


@pytest.mark.parametrize(
    "forward",
    [
        "return F.softmax(x * 2, -1)",
        "return x / torch.sqrt(torch.mean(x ** 2, dim=1, keepdim=True) + 1e-5)",
        "return F.layer_norm(F.gelu(x) + x, (512,)).relu()",
        "return F.group_norm(x.view(n, 32, 16), 4).view(n, -1) * 2",
        "return (x - x.amax(1, keepdim=True)).exp().sum(1)",
        "return torch.cumsum(x.flip(1), dim=1).flip(1) * 3",
        "return F.gelu(x).transpose(0, 1).reshape(8, -1)[:, 1:] + 1",
    ],
)
def test_a_chain_is_one_kernel(forward: str, generated: Generate) -> None:
    made = generated(op(forward, "torch.randn(n, 512)"))
    assert len(made.notes) == 1, made.notes


def test_without_fusion_every_reduction_stands_alone(generated: Generate) -> None:
    source = op("return F.softmax(x * 2, -1)", "torch.randn(n, 512)")
    made = generated(source, schedule=Schedule(fuse=False))
    assert kernels(made) == ["rows_kernel", "elementwise_kernel"]


def test_a_long_reduction_is_shared_out_over_blocks(generated: Generate) -> None:
    source = op("return ((x - y) ** 2).mean()", "torch.rand(4096, 4096), torch.rand(4096, 4096)",
                arguments="x, y")  # fmt: skip
    assert kernels(generated(source)) == ["partial_kernel", "rows_kernel"]
    assert kernels(generated(source, schedule=Schedule(split=False))) == ["rows_kernel"]


def test_two_sums_of_one_loss_share_a_pass(generated: Generate) -> None:
    source = op("return F.cross_entropy(x, y)", "torch.rand(9000, 100), torch.randint(0, 9, (9000,))",
                arguments="x, y")  # fmt: skip
    notes = generated(source).notes
    assert "2 reductions" in notes[1], notes
    assert len(notes) == 3


def test_epilogues_join_a_matrix_product(generated: Generate) -> None:
    source = op(
        "return F.gelu(self.l(x)) * 2 + x", "torch.randn(n, 96)", "self.l = nn.Linear(96, 96)"
    )
    made = generated(source)
    assert len(made.notes) == 1, made.notes
    assert "self.l.weight, self.l.bias" in made.text


def test_train_mode_batch_norm_updates_its_buffers(generated: Generate) -> None:
    source = op("return self.bn(x)", "torch.randn(8, 6, 40)", "self.bn = nn.BatchNorm1d(6)")
    text = generated(source).text
    for buffer in ("running_mean", "running_var", "num_batches_tracked"):
        assert f"self.bn.{buffer}" in text
    assert "in_bn_running_mean must be contiguous" in text


def test_own_shapes_beyond_int_take_wide_indices(generated: Generate) -> None:
    wide = op("return x + 1", "torch.empty(n, 2**26)")
    assert "using index_t = int64_t;" in generated(wide, {"n": 4}).text
    assert "using index_t = int;" in generated(op("return x + 1", "torch.empty(n, 8)")).text


def test_sizes_that_differ_are_read_at_run_time(generated: Generate) -> None:
    source = op("return x.reshape(n // 2, -1).sum(1) / n", "torch.rand(n, 30)")
    text = generated(source, {"n": 6}).text
    assert "in_x.size(0) / 2" in text
    assert "TORCH_CHECK(in_x.size(1) == 30" in text


def test_a_constant_that_follows_a_size_is_computed(generated: Generate) -> None:
    source = op("return x * (1.0 / n ** 0.5)", "torch.rand(n, 30)")
    assert "1.0 / sqrt(double(in_x.size(0)))" in generated(source, {"n": 16}).text


def test_a_scalar_argument_is_guarded(generated: Generate) -> None:
    text = generated(op("return x * s", "torch.rand(n), 3.25", arguments="x, s")).text
    assert "if s != 3.25:" in text
    assert "def forward(self, x, s):" in text


def test_the_constructor_is_kept_and_what_it_needs(generated: Generate) -> None:
    prelude = """
import math
from functools import partial as later
WIDTH = int(math.sqrt(64))
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(WIDTH))
    def forward(self, x):
        return x * self.w
def unused():
    return later
"""
    init = "self.parts = nn.ModuleList([Inner(), Inner()])"
    source = op("return self.parts[1](x)", "torch.rand(3, 8)", init, prelude=prelude)
    text = generated(source).text
    tree = ast.parse(text)
    names = {n.name for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    assert names == {"Inner", "ModelNew"}
    assert "super(ModelNew, self).__init__()" in text
    assert "run_model(x, self.parts[1].w)" in text
    assert "later" not in text


def test_nested_inputs_and_outputs_keep_their_form(generated: Generate) -> None:
    source = op("return {'a': p[0] + q['k'], 'b': [p[1] * 2, None]}",
                "(torch.rand(n), torch.rand(n)), {'k': torch.rand(n)}", arguments="p, q")  # fmt: skip
    text = generated(source).text
    assert "p_0, p_1, q_k, = _tensors((p, q,))" in text
    assert "return {'a': results[0], 'b': (results[1], None, )}" in text


def test_forward_names_no_torch_op(generated: Generate) -> None:
    source = op(
        "return F.softmax(self.l(x), 1)", "torch.randn(n, 20)", "self.l = nn.Linear(20, 30)"
    )
    tree = ast.parse(generated(source).text)
    new = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "ModelNew")
    forward = next(n for n in new.body if isinstance(n, ast.FunctionDef) and n.name == "forward")
    called = {ast.unparse(n.func) for n in ast.walk(forward) if isinstance(n, ast.Call)}
    assert called == {"kernels.run_model"}


def test_musa_is_spelled_in_musa(generated: Generate) -> None:
    source = op("return F.softmax(x.half(), -1)", "torch.randn(n, 512)")
    text = generated(source, target="musa").text
    assert "cuda" not in text.lower()
    for word in ("musa_runtime.h", "getCurrentMUSAStream", "MUSAGuard", "musa_fp16.h"):
        assert word in text
    assert "__mt_bfloat16" in text


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        ("return torch.fft.fft(x).real", "no family for aten.fft_fft.default"),
        ("return torch.sort(x, 1)[0]", "no family for aten.sort"),
        (
            "return F.dropout(x, 0.5, True)",
            "no family for aten.dropout.default: random in train mode",
        ),
        ("return x.roll(3)", "no family for aten.roll.default: without dims"),
    ],
)
def test_what_is_outside_names_the_op(forward: str, reason: str, generated: Generate) -> None:
    with pytest.raises(Refusal, match=reason.replace(".", r"\.")):
        generated(op(forward, "torch.randn(n, 512)"))


def test_in_place_changes_are_followed(generated: Generate) -> None:
    source = op("y = x.clone(); y.mul_(2); y += x; return y.relu_()", "torch.randn(n, 8)")
    assert len(generated(source).notes) == 1
    changed = op("x.add_(1); return x * 2", "torch.randn(n, 8)")
    assert "in_x must be contiguous" in generated(changed).text
    view = op("y = x * 2; y[:, 0].zero_(); return y", "torch.randn(n, 8)")
    with pytest.raises(Refusal, match="in place"):
        generated(view)
