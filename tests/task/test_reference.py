"""The task's module run for inputs, weights and expected values; its own failures in one line."""

from collections.abc import Iterator

import pytest
import torch

from musaagent.tools.reference import ReferenceModel, TaskCodeError, call_arguments

HEAD = "import torch\nimport torch.nn as nn\n\n"


def _task(body: str, inputs: str, init: str = "[]", constructor: str = "") -> str:
    setup = f"    def __init__(self{constructor}\n" if constructor else ""
    return (
        f"{HEAD}class Model(nn.Module):\n{setup}"
        f"    def forward(self, *args, **kwargs):\n{body}"
        f"\ndef get_inputs():\n    return {inputs}\n\ndef get_init_inputs():\n    return {init}\n"
    )


LINEAR = _task(
    "        return torch.relu(self.fc(args[0]))\n",
    "[torch.randn(5, 7)]",
    "[7, 3]",
    ", i, o):\n        super().__init__()\n        self.fc = nn.Linear(i, o)",
)

NORM = _task(
    "        return self.bn(args[0])\n",
    "[torch.randn(6, 4)]",
    constructor="):\n        super().__init__()\n        self.bn = nn.BatchNorm1d(4)",
)


@pytest.fixture(autouse=True)
def _default_dtype_stays() -> Iterator[None]:
    before = torch.get_default_dtype()
    yield
    assert torch.get_default_dtype() == before


def test_seeds_decide_weights_and_inputs() -> None:
    model, twin = ReferenceModel(LINEAR), ReferenceModel(LINEAR)
    model.construct(11)
    twin.construct(11)
    assert all(torch.equal(a, twin.state()[name]) for name, a in model.state().items())
    assert list(model.state()) == ["fc.weight", "fc.bias"]
    assert torch.equal(model.inputs(3)[0], twin.inputs(3)[0])
    assert not torch.equal(model.inputs(3)[0], model.inputs(4)[0])
    twin.construct(12)
    assert not torch.equal(model.state()["fc.weight"], twin.state()["fc.weight"])


def test_native_and_float64_values() -> None:
    model = ReferenceModel(LINEAR)
    module = model.construct(1)
    inputs = model.inputs(2)
    got = model.expected(inputs)
    weight, bias = (model.state()[f"fc.{n}"] for n in ("weight", "bias"))
    exact = torch.relu(inputs[0].double() @ weight.double().T + bias.double())
    assert got.tree == {"kind": "tensor", "index": 0}
    assert got.native[0].dtype == torch.float32
    assert got.exact is not None
    assert torch.allclose(got.exact[0], exact, rtol=1e-14, atol=1e-14)
    assert torch.allclose(got.native[0].double(), exact, rtol=1e-5, atol=1e-6)
    assert got.reference == "float64"
    assert module.training
    assert not got.changed_inputs
    assert not got.random


def test_running_statistics_are_returned_and_the_module_is_left_as_it_was() -> None:
    model = ReferenceModel(NORM)
    model.construct(0)
    inputs = model.inputs(0)
    first, second = model.expected(inputs), model.expected(inputs)
    x = inputs[0]
    assert torch.allclose(first.buffers["bn.running_mean"], 0.1 * x.mean(0), atol=1e-6)
    assert int(first.buffers["bn.num_batches_tracked"]) == 1
    assert torch.equal(first.buffers["bn.running_mean"], second.buffers["bn.running_mean"])
    assert int(model.state()["bn.num_batches_tracked"]) == 0
    wide = first.exact_buffers["bn.running_mean"]
    assert wide.dtype == torch.float64
    assert torch.allclose(wide, 0.1 * x.double().mean(0), rtol=1e-14, atol=1e-14)


def test_nested_outputs_and_inputs_of_every_kind() -> None:
    source = _task(
        "        pair, table, n, f, flag, none = args\n"
        "        assert none is None and flag is True\n"
        "        return {'a': (pair[0] + n, [pair[1] * f]), 'n': n, 'b': table['m'] > 0}\n",
        "[(torch.ones(2), torch.ones(3)), {'m': torch.arange(4)}, 3, 0.5, True, None]",
    )
    model = ReferenceModel(source)
    model.construct(0)
    got = model.expected(model.inputs(0))
    a = got.tree["items"]["a"]
    assert a["kind"] == "tuple"
    assert a["items"][1]["kind"] == "list"
    assert got.tree["items"]["n"] == {"kind": "value", "value": 3}
    assert [t.dtype for t in got.native] == [torch.float32, torch.float32, torch.bool]
    assert got.native[0].tolist() == [4.0, 4.0]
    assert got.exact is not None
    assert got.exact[1].tolist() == [0.5] * 3


def test_a_named_tuple_is_a_tuple() -> None:
    source = _task("        return torch.max(args[0], 1)\n", "[torch.randn(3, 5)]")
    model = ReferenceModel(source)
    model.construct(0)
    got = model.expected(model.inputs(0))
    assert got.tree["kind"] == "tuple"
    assert [t.dtype for t in got.native] == [torch.float32, torch.int64]


def test_integer_outputs_have_no_float64_run() -> None:
    source = _task("        return args[0] + 1\n", "[torch.arange(6)]")
    model = ReferenceModel(source)
    model.construct(0)
    got = model.expected(model.inputs(0))
    assert got.exact is None
    assert got.reference == "int64: no floating outputs"


def test_half_precision_is_widened() -> None:
    source = _task("        return args[0] * args[0]\n", "[torch.full((3,), 1.001).bfloat16()]")
    model = ReferenceModel(source)
    model.construct(0)
    got = model.expected(model.inputs(0))
    assert got.native[0].dtype == torch.bfloat16
    assert got.exact is not None
    assert got.exact[0].dtype == torch.float64


def test_tensors_made_in_forward_and_kept_outside_the_state_are_widened_too() -> None:
    source = _task(
        "        return args[0] @ self.table + torch.ones(2) @ torch.eye(2)\n",
        "[torch.randn(3, 2)]",
        constructor="):\n        super().__init__()\n        self.table = torch.randn(2, 2)",
    )
    model = ReferenceModel(source)
    model.construct(0)
    got = model.expected(model.inputs(0))
    assert got.reference == "float64"
    assert got.exact is not None
    assert got.exact[0].dtype == torch.float64


def test_a_float64_run_that_fails_says_why() -> None:
    source = _task("        return args[0] @ torch.ones(2, 2).float()\n", "[torch.randn(3, 2)]")
    model = ReferenceModel(source)
    model.construct(0)
    got = model.expected(model.inputs(0))
    assert got.exact is None
    assert got.reference.startswith(
        "float32: the float64 run fails (line 6, in forward: RuntimeErr"
    )


def test_random_forwards_are_noticed() -> None:
    dropout = _task("        return nn.functional.dropout(args[0], 0.5)\n", "[torch.ones(64)]")
    model = ReferenceModel(dropout)
    model.construct(0)
    got = model.expected(model.inputs(0))
    assert got.random
    assert got.exact is None
    assert got.reference == "float32: forward draws random numbers"
    void = ReferenceModel(dropout.replace("0.5", "0.0"))
    void.construct(0)
    assert not void.expected(void.inputs(0)).random


def test_inputs_changed_in_place_are_named_and_the_callers_are_not_touched() -> None:
    source = _task(
        "        args[1].mul_(2)\n        return args[0] + args[1]\n",
        "[torch.ones(3), torch.ones(3)]",
    )
    model = ReferenceModel(source)
    model.construct(0)
    inputs = model.inputs(0)
    got = model.expected(inputs)
    assert got.changed_inputs == [1]
    assert inputs[1].tolist() == [1.0] * 3


def test_modules_that_keep_state_in_python_start_anew() -> None:
    source = _task(
        "        self.hidden = self.hidden + args[0]\n        return self.hidden\n",
        "[torch.ones(2)]",
        constructor="):\n        super().__init__()\n        self.hidden = torch.zeros(2)",
    )
    model = ReferenceModel(source)
    model.construct(0)
    for _ in range(2):
        assert model.expected(model.inputs(0)).native[0].tolist() == [1.0, 1.0]


def test_code_written_for_a_gpu_runs_here() -> None:
    source = _task(
        "        x = args[0].cuda() + torch.ones(3, device='cuda:0').to('cuda')\n"
        "        return self.fc.to(torch.device('cuda'))(x)\n",
        "[torch.randn(2, 3).to(device='cuda')]",
        constructor="):\n        super().__init__()\n        self.fc = nn.Linear(3, 3).cuda()",
    )
    model = ReferenceModel(source)
    model.construct(0)
    assert model.expected(model.inputs(0)).native[0].device.type == "cpu"


def test_tf32_is_off_whatever_the_file_sets() -> None:
    source = "import torch\ntorch.set_float32_matmul_precision('medium')\n" + LINEAR
    model = ReferenceModel(source)
    assert model.asked_for_tf32
    assert torch.get_float32_matmul_precision() == "highest"
    assert not ReferenceModel(LINEAR).asked_for_tf32


def test_overrides_change_the_sizes() -> None:
    source = HEAD + (
        "batch_size = 4096\ndim = 8192\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
        "        return x\n\ndef get_inputs():\n    return [torch.rand(batch_size, dim)]\n"
    )
    model = ReferenceModel(source, {"batch_size": 2, "dim": 6})
    assert model.init_inputs(0) == []
    assert model.inputs(0)[0].shape == (2, 6)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], ([1, 2], {})),
        ((1,), ([1], {})),
        ({"a": 1}, ([], {"a": 1})),
        ([[1], {"a": 2}], ([1], {"a": 2})),
        ([[], {}], ([], {})),
    ],
)
def test_argument_forms(values: object, expected: object) -> None:
    assert call_arguments(values) == expected


def test_dict_init_inputs_are_keywords() -> None:
    source = LINEAR.replace("return [7, 3]", "return [[], {'i': 7, 'o': 3}]")
    model = ReferenceModel(source)
    model.construct(0)
    assert model.state()["fc.weight"].shape == (3, 7)


def _run(source: str) -> None:
    model = ReferenceModel(source)
    model.construct(0)
    model.expected(model.inputs(0))


IDENTITY = _task("        return args[0]\n", "[torch.ones(2)]")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "import nonsense_module\n",
            "line 1, in <module>: ModuleNotFoundError: No module named 'nonsense_module'",
        ),
        ("raise SystemExit(3)\n", "line 1, in <module>: SystemExit: 3"),
        ("x = 1\n", "defines no class Model"),
        ("class Model: pass\n", "defines no function get_inputs"),
        (
            IDENTITY.replace("class Model(nn.Module)", "class Model"),
            "Model() makes a Model, not a torch.nn.Module",
        ),
        (
            IDENTITY.replace("return []", "return [1, 2]"),
            "Model(*get_init_inputs()): TypeError: ",
        ),
        (
            IDENTITY.replace("[torch.ones(2)]", "1 / 0"),
            "line 9, in get_inputs: ZeroDivisionError: division by zero",
        ),
        (
            IDENTITY.replace("[torch.ones(2)]", "7"),
            "get_inputs() and get_init_inputs() return a list, not a int",
        ),
        (
            IDENTITY.replace("[torch.ones(2)]", "[object()]"),
            "get_inputs()[0]: a object is neither tensor nor plain value",
        ),
        (
            IDENTITY.replace("return args[0]\n", "return args[0] @ torch.ones(3, 3)\n"),
            "line 6, in forward: RuntimeError: ",
        ),
        (
            IDENTITY.replace("return args[0]\n", "return {1, 2}\n"),
            "forward: a set is neither tensor nor plain value",
        ),
        (
            IDENTITY.replace("return args[0]\n", "raise ValueError('two\\nlines')\n"),
            "line 6, in forward: ValueError: two",
        ),
    ],
)
def test_the_tasks_own_failures_are_one_line(source: str, message: str) -> None:
    with pytest.raises(TaskCodeError) as error:
        _run(source)
    said = str(error.value)
    assert said.startswith(message) if message.endswith(": ") else said == message
    assert "\n" not in said
