"""The traced graph: names, metadata, nesting, and no memory taken; costs read off it."""

import math
import resource

import pytest

from musaagent.tools.cost import flops, least_bytes
from musaagent.tools.opgraph import OpGraph, TensorMeta
from musaagent.tools.reference import TaskCodeError
from musaagent.tools.trace import shape_text, trace

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"


def _task(forward: str, inputs: str, layers: str = "pass", signature: str = "x") -> str:
    return (
        f"{HEAD}class Model(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n        {layers}\n"
        f"    def forward(self, {signature}):\n        {forward}\n"
        f"def get_inputs():\n    return {inputs}\n"
    )


def _graph(source: str) -> OpGraph:
    traced = trace(source)
    assert traced.error == ""
    assert traced.graph is not None
    return traced.graph


def _ops(graph: OpGraph) -> list[str]:
    return [node.op for node in graph.nodes]


def test_composite_operations_stay_whole() -> None:
    graph = _graph(
        _task(
            "return F.softmax(self.bn(self.conv(x)), dim=1).sum(), F.layer_norm(x, (8,)),"
            " F.scaled_dot_product_attention(x, x, x), F.cross_entropy(x[0, 0], y)",
            "[torch.rand(2, 3, 8, 8), torch.randint(0, 8, (8,))]",
            "self.conv = nn.Conv2d(3, 4, 3); self.bn = nn.BatchNorm2d(4)",
            "x, y",
        )
    )
    assert [op for op in _ops(graph) if "select" not in op] == [
        "aten.conv2d.default",
        "aten.add_.Tensor",
        "aten.batch_norm.default",
        "aten.softmax.int",
        "aten.sum.default",
        "aten.layer_norm.default",
        "aten.scaled_dot_product_attention.default",
        "aten.cross_entropy_loss.default",
    ]


def test_values_have_their_names_and_paths() -> None:
    graph = _graph(
        _task(
            "return self.net[0](x) * self.scale + self.table",
            "[torch.rand(5, 7)]",
            "self.net = nn.Sequential(nn.Linear(7, 3)); self.scale = nn.Parameter(torch.ones(3));"
            " self.register_buffer('table', torch.zeros(3))",
        )
    )
    assert [(v.name, shape_text(v.meta)) for v in graph.inputs] == [("x", "float32[5, 7]")]
    assert {v.path: v.meta.shape for v in graph.parameters} == {
        "net.0.weight": (3, 7),
        "net.0.bias": (3,),
        "scale": (3,),
    }
    assert [v.path for v in graph.buffers] == ["table"]
    linear, multiply, add = graph.nodes
    weight = next(v.name for v in graph.parameters if v.path == "net.0.weight")
    assert linear.args[:2] == ({"ref": "x"}, {"ref": weight})
    assert multiply.args[0] == {"ref": linear.name}
    assert add.outputs == (TensorMeta(shape=(5, 3), stride=(3, 1), dtype="float32"),)
    assert graph.outputs == ({"ref": add.name},)


def test_nested_inputs_outputs_and_scalars() -> None:
    graph = _graph(
        _task(
            "return {'a': [pair[0] * n, pair[1]], 'n': n}, table['m'] + 1",
            "[(torch.rand(2), torch.rand(3)), {'m': torch.arange(4)}, 3]",
            signature="pair, table, n",
        )
    )
    assert [v.name for v in graph.inputs] == ["pair_0", "pair_1", "table_m"]
    assert graph.scalar_inputs == ("n = 3",)
    first, second = graph.nodes
    assert graph.outputs == (
        {"a": [{"ref": first.name}, {"ref": "pair_1"}], "n": 3},
        {"ref": second.name},
    )


def test_multi_output_operations_use_getitem() -> None:
    graph = _graph(_task("return torch.max(x, dim=1)", "[torch.rand(3, 5)]"))
    maximum, values, indices = graph.nodes
    assert [m.dtype for m in maximum.outputs] == ["float32", "int64"]
    assert (values.op, values.args) == ("getitem", ({"ref": maximum.name}, 0))
    assert (indices.op, indices.args) == ("getitem", ({"ref": maximum.name}, 1))


def test_plain_arguments_survive_json() -> None:
    graph = _graph(
        _task(
            "return x.masked_fill(x > 0, float('-inf')).to(torch.float16).contiguous("
            "memory_format=torch.channels_last)",
            "[torch.rand(2, 3, 4, 4)]",
        )
    )
    assert OpGraph.model_validate_json(graph.model_dump_json()) == graph
    fill = next(n for n in graph.nodes if "masked_fill" in n.op)
    assert fill.args[2] == -math.inf
    flat = [a for n in graph.nodes for a in (*n.args, *n.kwargs.values())]
    assert {"dtype": "float16"} in flat
    assert {"memory_format": "channels_last"} in flat


def test_in_place_calls_and_views_are_kept() -> None:
    graph = _graph(_task("y = x.view(6); y.add_(1); return y.t()", "[torch.rand(2, 3)]"))
    assert _ops(graph) == ["aten.view.default", "aten.add_.Tensor", "aten.t.default"]


def test_constants_carry_their_number() -> None:
    graph = _graph(_task("return torch.min(x, torch.tensor(0.25)).detach()", "[torch.rand(4)]"))
    (constant,) = graph.constants
    assert constant.value == 0.25
    assert _ops(graph) == ["aten.min.other"]


def test_huge_shapes_take_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    graph = _graph(
        _task(
            "return self.fc(x)",
            "[torch.rand(65536, 65536)]",
            "self.fc = nn.Linear(65536, 65536)",
        )
    )
    assert graph.nodes[0].outputs[0].shape == (65536, 65536)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kilobytes


def test_constructors_that_look_at_values_are_built_for_real() -> None:
    graph = _graph(
        _task(
            "return self.fc(x) * self.rate",
            "[torch.rand(2, 3)]",
            "self.rate = torch.linspace(0, 1, 3)[1].item(); self.fc = nn.Linear(3, 3)",
        )
    )
    assert [v.path for v in graph.parameters] == ["fc.weight", "fc.bias"]
    assert graph.nodes[-1].args[1] == 0.5


def test_a_forward_that_cannot_be_traced_says_so_in_one_line() -> None:
    traced = trace(_task("return x * 2 if x.sum() > 0 else x", "[torch.rand(4)]"))
    assert traced.graph is None
    assert traced.error
    assert "\n" not in traced.error
    assert [shape_text(m) for m in traced.inputs] == ["float32[4]"]


def test_a_forward_that_fails_names_its_line() -> None:
    traced = trace(_task("return x @ torch.ones(3, 3)", "[torch.rand(4, 4)]"))
    assert traced.error.startswith("line 10, in forward: RuntimeError: ")


def test_a_constructor_that_fails_is_the_tasks_fault() -> None:
    with pytest.raises(TaskCodeError, match="line 8, in __init__: ZeroDivisionError"):
        trace(_task("return x", "[torch.rand(4)]", "self.a = 1 / 0"))


@pytest.mark.parametrize(
    ("forward", "inputs", "layers", "expected"),
    [
        ("return x @ x", "[torch.rand(4, 4)]", "pass", 2 * 4**3),
        ("return torch.bmm(x, x)", "[torch.rand(3, 4, 4)]", "pass", 3 * 2 * 4**3),
        ("return self.l(x)", "[torch.rand(5, 7)]", "self.l = nn.Linear(7, 3)", 5 * 3 * (14 + 1)),
        (
            "return self.l(x)",
            "[torch.rand(2, 4, 9, 9)]",
            "self.l = nn.Conv2d(4, 6, 3, groups=2, bias=False)",
            2 * (2 * 6 * 7 * 7) * (2 * 9),
        ),
        (
            "return self.l(x)",
            "[torch.rand(2, 4, 9)]",
            "self.l = nn.ConvTranspose1d(4, 6, 3, bias=False)",
            2 * (2 * 4 * 9) * (6 * 3),
        ),
        (
            "return torch.einsum('bij,jk->bik', x, x[0].T)",
            "[torch.rand(2, 3, 4)]",
            "pass",
            2 * 2 * 3 * 4 * 3,
        ),
        (
            "return self.l(x)[0]",
            "[torch.rand(7, 2, 3)]",
            "self.l = nn.LSTM(3, 5)",
            2 * (7 * 2) * (20 * 3 + 20 * 5),
        ),
        ("return F.relu(x)", "[torch.rand(10, 10)]", "pass", 100),
        ("return x.sum(1)", "[torch.rand(10, 10)]", "pass", 100),
        ("return x.T.reshape(-1)", "[torch.rand(10, 10)]", "pass", 0),
        ("return F.max_pool2d(x, 3, 1)", "[torch.rand(1, 1, 5, 5)]", "pass", 9 * 9),
        (
            "return F.scaled_dot_product_attention(x, x, x)",
            "[torch.rand(1, 2, 3, 4)]",
            "pass",
            2 * 3 * 3 * (8 + 8 + 5),
        ),
    ],
)
def test_flops(forward: str, inputs: str, layers: str, expected: int) -> None:
    assert flops(_graph(_task(forward, inputs, layers))) == expected


@pytest.mark.parametrize(
    ("forward", "inputs", "layers", "expected"),
    [
        ("return x + 1", "[torch.rand(10)]", "pass", 80),
        ("return x.half() + 1", "[torch.rand(10)]", "pass", 60),
        ("return self.l(x)", "[torch.rand(5, 7)]", "self.l = nn.Linear(7, 3)", 4 * (35 + 24 + 15)),
        ("return x + x", "[torch.rand(1, 5).expand(100, 5)]", "pass", 4 * (5 + 500)),
        (
            "return self.e(x)",
            "[torch.tensor([1, 2])]",
            "self.e = nn.Embedding(1000, 4)",
            16 + 32 + 32,
        ),
        (
            "return self.b(x)",
            "[torch.rand(8, 4)]",
            "self.b = nn.BatchNorm1d(4, affine=False)",
            # input, output; running mean and variance and the counter, each read and written
            2 * 128 + 2 * (16 + 16 + 8),
        ),
    ],
)
def test_least_bytes(forward: str, inputs: str, layers: str, expected: int) -> None:
    assert least_bytes(_graph(_task(forward, inputs, layers))) == expected
