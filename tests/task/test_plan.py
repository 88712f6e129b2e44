"""Plans of whole tasks: scaling that runs, traps that are there and none that are not, lint."""

import functools
from typing import Any

import pytest

from musaagent.tools.lint import lint
from musaagent.tools.opgraph import Plan
from musaagent.tools.plan import plan_task
from musaagent.tools.reference import ReferenceModel, TaskCodeError
from musaagent.tools.scales import CHECK, RUN
from musaagent.tools.scaling import apply_scaling

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"


def _task(
    forward: str,
    inputs: str,
    *,
    sizes: str = "",
    layers: str = "pass",
    init: str = "",
    signature: str = "x",
) -> str:
    parameters = f", {init}" if init else ""
    return (
        f"{HEAD}{sizes}\nclass Model(nn.Module):\n"
        f"    def __init__(self{parameters}):\n        super().__init__()\n        {layers}\n"
        f"    def forward(self, {signature}):\n        {forward}\n"
        f"def get_inputs():\n    return {inputs}\n"
        f"def get_init_inputs():\n    return [{init}]\n"
    )


SOFTMAX = _task(
    "return torch.softmax(x, dim=1)",
    "[torch.rand(batch_size, dim)]",
    sizes="batch_size = 4096\ndim = 393216\n",
)

CONV_NORM = _task(
    "return self.norm(self.conv(x))",
    "[torch.randn(batch_size, in_channels, height, width)]",
    sizes="batch_size = 64\nin_channels = 32\nout_channels = 128\nkernel_size = 3\n"
    "height, width = 128, 256\n",
    layers="self.conv = nn.Conv2d(in_channels, out_channels, kernel_size);"
    " self.norm = nn.BatchNorm2d(out_channels)",
    init="in_channels, out_channels, kernel_size",
)


@functools.cache
def _plan(source: str) -> Plan:
    return plan_task(source)


def _traps(source: str) -> dict[str, str]:
    return {t.name: t.message for t in _plan(source).traps}


def test_a_large_task_is_scaled_and_the_plan_says_so() -> None:
    plan = _plan(CONV_NORM)
    assert plan.input_shapes == ("float32[64, 32, 128, 256]",)
    assert plan.output_shapes == ("float32[64, 128, 126, 254]",)
    # convolution, bias and batch norm; one more counts the batches
    assert plan.flops == 64 * 128 * 126 * 254 * (2 * 32 * 9 + 1 + 8) + 1
    assert plan.training
    assert plan.init_inputs == "[32, 128, 3]"
    assert not plan.scaling_note
    assert plan.scaling.keys() <= {"batch_size", "in_channels", "out_channels", "height", "width"}
    assert all(own > scaled for own, scaled in plan.scaling.values())
    assert plan.graph is not None
    assert plan.scaled_graph is not None
    assert [n.op for n in plan.graph.nodes] == [n.op for n in plan.scaled_graph.nodes]
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
    for scaling in (plan.scaling, plan.check_scaling):
        model = ReferenceModel(CONV_NORM, {name: new for name, (_, new) in scaling.items()})
        model.construct(0)
        assert model.expected(model.inputs(0)).reference == "float64"


def test_scaled_costs_meet_their_budgets() -> None:
    for scaling, budget in (
        (_plan(CONV_NORM).scaling, RUN),
        (_plan(CONV_NORM).check_scaling, CHECK),
    ):
        overrides = {name: new for name, (_, new) in scaling.items()}
        scaled = plan_task(apply_scaling(CONV_NORM, overrides), probe=False)
        assert 0 < scaled.flops <= budget.flops


def test_a_small_task_keeps_its_own_sizes() -> None:
    plan = plan_task(_task("return x * 2", "[torch.randn(8, 8)]"))
    assert plan.scaling == {}
    assert plan.check_scaling == {}
    assert plan.graph == plan.scaled_graph
    assert plan.scaled_shapes == plan.input_shapes == plan.check_shapes == ("float32[8, 8]",)


def test_labels_stay_below_the_scaled_classes() -> None:
    source = _task(
        "return F.cross_entropy(x, y)",
        "[torch.randn(batch_size, classes), torch.randint(0, 1000, (batch_size,))]",
        sizes="batch_size = 65536\nclasses = 1000\n",
        signature="x, y",
    )
    plan = plan_task(source)
    assert "classes" not in plan.scaling
    assert plan.scaled_shapes[0].endswith(", 1000]")


def test_sizes_inside_the_class_cannot_be_scaled_and_it_is_said() -> None:
    source = _task(
        "return self.fc(x)", "[torch.randn(8, 4096)]", layers="self.fc = nn.Linear(4096, 4096)"
    )
    plan = plan_task(source, probe=False)
    assert plan.scaling_note.startswith("no choice of the file's size constants brings it under")


def test_a_task_that_cannot_be_traced_still_has_a_plan() -> None:
    source = _task(
        "return x * 2 if float(x.sum()) > 0 else x",
        "[torch.rand(rows, 512) + 1]",
        sizes="rows = 1048576\n",
    )
    plan = plan_task(source)
    assert plan.graph is None
    assert "\n" not in plan.trace_error
    assert plan.trace_error
    assert plan.scaling["rows"][0] == 1048576
    assert plan.input_shapes == ("float32[1048576, 512]",)


def test_a_broken_task_is_its_own_fault() -> None:
    with pytest.raises(TaskCodeError, match=r"line 9, in __init__: NameError"):
        plan_task(_task("return x", "[torch.rand(4)]", layers="nonsense"))


@pytest.mark.parametrize(
    ("name", "source", "part"),
    [
        ("zeros_pass", SOFTMAX, "an all-zero output passes (|error| <= 0.01 + 0.01 * |expected|"),
        (
            "constant_output",
            _task("return torch.softmax(x.sum(1, keepdim=True), 1)", "[torch.randn(64, 32)]"),
            "an output of 1 everywhere passes",
        ),
        (
            "constant_output",
            _task(
                "return self.table + 1e-4 * x",
                "[torch.randn(64, 32)]",
                layers="self.table = nn.Parameter(torch.randn(32))",
            ),
            "the output for other inputs passes",
        ),
        (
            "identity_passes",
            _task("return F.relu(x)", "[torch.rand(512, 64)]"),
            "a copy of input 0 passes as the output",
        ),
        (
            "identity_passes",
            _task("return F.hardtanh(torch.tanh(x))", "[torch.randn(512, 64)]"),
            "the output of aten.tanh.default alone passes: the 1 later steps",
        ),
        (
            "dead_parameter",
            _task(
                "return self.norm(self.fc(x))",
                "[torch.randn(32, 16)]",
                layers="self.fc = nn.Linear(16, 8); self.norm = nn.BatchNorm1d(8)",
            ),
            "no influence on the output: fc.bias (each changed by itself)",
        ),
        (
            "train_mode_batchnorm",
            CONV_NORM,
            "norm in train mode: normalises by the batch's own statistics",
        ),
        (
            "random_forward",
            _task("return F.dropout(x, 0.3)", "[torch.randn(64, 64)]"),
            "forward draws random numbers",
        ),
        (
            "int32_overflow",
            _task("return x * 2", "[torch.randn(n, 65536)]", sizes="n = 32768\n"),
            "mul, input x: up to 2147483648 elements",
        ),
        (
            "grid_limit",
            _task("return x * 2", "[torch.randn(n, 4)]", sizes="n = 70000\n"),
            "dimension 0 of x is 70000; dimension 0 of the output is 70000: over 65535",
        ),
        (
            "grid_limit",
            _task("return x * 2", "[torch.randn(n, n, 4)]", sizes="n = 512\n"),
            "the first two dimensions of x make 262144",
        ),
        ("tf32_reference", CONV_NORM, "conv2d in float32"),
        (
            "tf32_reference",
            "import torch\ntorch.set_float32_matmul_precision('high')\n"
            + _task("return x @ x", "[torch.randn(64, 64)]"),
            "the file itself switches it on",
        ),
        (
            "too_small_to_time",
            _task("return x * 2", "[torch.randn(64, 64)]"),
            "32768 bytes and 4096 operations",
        ),
    ],
)
def test_traps_are_found(name: str, source: str, part: str) -> None:
    traps = _traps(source)
    assert name in traps
    assert part in traps[name]
    assert "\n" not in traps[name]


def test_an_honest_task_has_no_traps() -> None:
    source = _task(
        "return F.gelu(x + y, approximate='tanh') * self.scale",
        "[torch.randn(rows, dim), torch.randn(dim)]",
        sizes="rows = 8192\ndim = 2048\n",
        layers="self.scale = nn.Parameter(torch.randn(2048) + 2)",
        signature="x, y",
    ).replace("torch.randn(2048) + 2", "torch.randn(dim) + 2")
    assert _traps(source) == {}


@pytest.mark.parametrize(
    "source",
    [
        _task("return x.double() @ x.double()", "[torch.randn(64, 64)]"),
        _task("return F.batch_norm(x, None, None, training=True)", "[torch.randn(64, 64)]"),
        _task("return F.dropout(x, 0.0)", "[torch.randn(64, 64)]"),
    ],
)
def test_what_only_looks_like_a_trap(source: str) -> None:
    assert not _traps(source).keys() & {"tf32_reference", "random_forward", "zeros_pass"}


def _lint(source: str, **options: Any) -> Any:
    return lint(_plan(source), name="op", **options)


def test_lint_says_all_and_strict_refuses() -> None:
    report = _lint(SOFTMAX)
    assert [t.name for t in report.warnings] == ["zeros_pass"]
    assert not report.refused
    lines = report.text.splitlines()
    assert lines[0] == "op"
    assert "  inputs   float32[4096, 393216]" in lines
    assert "  calls    aten.softmax.int" in lines
    assert any(line.startswith("  cpu run  float32[") and "-> " in line for line in lines)
    assert any(line.startswith("  warning  zeros_pass: ") for line in lines)
    assert lines[-1] == "  1 warning, 0 to mind"
    strict = _lint(SOFTMAX, strict=True)
    assert strict.refused
    assert strict.text.splitlines()[-1] == "  refused (strict): 1 warning, 0 to mind"


def test_lint_does_not_refuse_for_notes() -> None:
    source = CONV_NORM.replace(
        "nn.Conv2d(in_channels, out_channels, kernel_size)",
        ("nn.Conv2d(in_channels, out_channels, kernel_size, bias=False)"),
    )
    report = _lint(source, strict=True)
    assert [t.name for t in report.notes] == ["train_mode_batchnorm", "tf32_reference"]
    assert not report.warnings
    assert not report.refused


def test_a_step_without_influence_is_told() -> None:
    plan = plan_task(_task("return x * 2 + 0 * torch.sin(x)", "[torch.randn(8, 8)]"))
    (told,) = [trap.message for trap in plan.traps if trap.name == "dead_step"]
    assert "aten.sin.default" in told
    assert "aten.add" not in told
    assert "  note     dead_step" in lint(plan).text
