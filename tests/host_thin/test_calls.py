"""Python arguments to C++ and back, by pybind11's rules."""

import re
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.usefixtures("no_leak")


def test_an_input_comes_back_as_the_same_object(functions: ModuleType) -> None:
    x = torch.randn(2, 3)
    parameter = torch.nn.Parameter(torch.ones(2))
    assert functions.same(x) is x
    assert functions.same(x=x) is x
    assert functions.same(parameter) is parameter
    assert functions.undefined() is None


def test_sequences_tuples_maps_and_defaults(functions: ModuleType) -> None:
    a, b = torch.randn(2), torch.randn(3)
    assert functions.reversed([a, b])[1] is a
    assert functions.triple(a)[1:] == (0.5, "text")
    assert functions.triple(a, s="q", f=2)[1:] == (2.0, "q")
    named = functions.named({"w": a})
    assert named["w"] is a
    assert named["extra"].tolist() == [0.0]
    assert functions.product() == 6
    assert functions.product(torch.Size([4, 5])) == 20
    assert functions.total((1, 2, np.int64(3))) == 6
    assert functions.pair([1, 2]) == [2, 1]


def test_what_converts(functions: ModuleType) -> None:
    assert functions.number(True) == 1.0
    assert functions.number(torch.tensor(2.5)) == 2.5
    assert functions.narrow(np.int32(7)) == 7
    assert functions.narrow(True) == 1
    assert functions.narrow(torch.tensor(4)) == 4
    assert functions.flag(1) is True
    assert functions.flag(None) is False
    assert functions.dtype_name(torch.bfloat16) == "BFloat16"
    assert functions.no_bias(None)
    assert functions.no_bias()
    assert not functions.no_bias(torch.ones(1))
    assert functions.triple(torch.ones(1), np.float32(0.25))[1] == 0.25
    assert functions.adder(3) == 8
    assert functions.nothing(torch.ones(1)) is None


REFUSED: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("same", (), {}),
    ("same", (3,), {}),
    ("same", (None,), {}),
    ("same", (torch.ones(1), torch.ones(1)), {}),
    ("same", (torch.ones(1),), {"y": 2}),
    ("same", (torch.ones(1),), {"x": torch.ones(1)}),
    ("undefined", (1,), {}),
    ("narrow", (1.5,), {}),
    ("narrow", (1 << 31,), {}),
    ("narrow", ("1",), {}),
    ("narrow", (), {"value": 1}),
    ("byte", (-1,), {}),
    ("byte", (256,), {}),
    ("flag", ("yes",), {}),
    ("total", ([1.5],), {}),
    ("total", ("12",), {}),
    ("pair", ([1, 2, 3],), {}),
    ("triple", (torch.ones(1), "x"), {}),
    ("dtype_name", ("float32",), {}),
    ("no_bias", (1,), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), REFUSED)
def test_what_does_not_convert(
    functions: ModuleType, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match=re.escape(f"{name}(): incompatible function arguments")):
        getattr(functions, name)(*args, **kwargs)


def test_the_refusal_states_the_signature(functions: ModuleType) -> None:
    with pytest.raises(TypeError) as caught:
        functions.triple(1)
    expected = (
        "(x: torch.Tensor, f: float = 0.5, s: str = 'text') -> tuple[torch.Tensor, float, str]"
    )
    assert expected in str(caught.value)
    assert "Invoked with: 1" in str(caught.value)


def test_overloads_are_tried_in_turn(functions: ModuleType) -> None:
    assert functions.overloaded(torch.ones(1, 1)) == 2
    assert functions.overloaded("a") == "a!"
    assert functions.__dict__["lambda"](torch.ones(3, 4)) == 4
    assert functions.__dict__["lambda"](torch.ones(3, 4), d=0) == 3


def test_metadata_is_torchs(functions: ModuleType) -> None:
    x = torch.randn(6, 4)[2:, 1:3]
    assert functions.metadata(x) == [2, 8, 2, 4, 9, 0, 1, 0, 0, 4, 0, 1, 1, 0, 32, 0]
    image = torch.zeros(1, 2, 3, 4, dtype=torch.half).to(memory_format=torch.channels_last)
    assert functions.metadata(image)[5] == 0
    assert functions.metadata(image)[13] == 1
    assert functions.metadata(torch.nn.Parameter(torch.ones(1)))[10] == 1
    told = functions.told(torch.ones(2, 3))
    assert told == "float Float cuda:0 [2, 3] CUDAFloatType 1.5 1"


def test_a_kept_tensor_lives_until_cpp_drops_it(functions: ModuleType) -> None:
    from musaagent.tools.host import bridge

    before = bridge.runtime().held_count
    functions.keep(torch.arange(3))
    assert bridge.runtime().held_count == before + 1
    assert functions.recall().tolist() == [0, 1, 2]
    functions.forget()
    assert functions.recall() is None
