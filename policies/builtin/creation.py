"""Tensors made from nothing, and conversions between dtypes."""

from typing import Any

from musaagent.policies.builtin.body import Body, Coordinates, Scalar
from musaagent.policies.builtin.ir import Value
from musaagent.policies.builtin.lowering import Call, lowers
from musaagent.policies.builtin.pointwise import Code, apply, converted, filled, of_coordinates
from musaagent.policies.builtin.sizes import Num, Real


@lowers("aten.to.dtype", "aten.to.dtype_layout", "aten.to.device", "aten._to_copy.default",
        "aten.to.other", "aten.type_as.default")  # fmt: skip
def to(call: Call, x: Value, *unused: Any, **also_unused: Any) -> Value:
    return converted(x, call.dtype)


@lowers(
    "aten.zeros_like.default", "aten.zeros.default", "aten.new_zeros.default", "aten.zero.default"
)
def zeros(call: Call, *unused: Any, **also_unused: Any) -> Value:
    return filled(call.shape, call.dtype, 0)


@lowers("aten.ones_like.default", "aten.ones.default", "aten.new_ones.default")
def ones(call: Call, *unused: Any, **also_unused: Any) -> Value:
    return filled(call.shape, call.dtype, 1)


@lowers("aten.full_like.default", "aten.full.default", "aten.new_full.default")
def full(call: Call, like: Any, *value: Any, **unused: Any) -> Value:
    given: Any = unused.get("fill_value", value[-1] if value else None)
    return filled(call.shape, call.dtype, given)


@lowers("aten.scalar_tensor.default", "aten.fill.Scalar")
def scalar_tensor(call: Call, first: Any, value: Any = None, **unused: Any) -> Value:
    return filled(call.shape, call.dtype, first if value is None else value)


@lowers("aten.arange.default", "aten.arange.start", "aten.arange.start_step")
def arange(call: Call, *bounds: Num | Real | float, **unused: Any) -> Value:
    start: Num | Real | float = bounds[0] if len(bounds) > 1 else 0
    step = bounds[2] if len(bounds) > 2 else 1

    def element(body: Body, at: Coordinates) -> Scalar:
        k = body.as_scalar(at[0])
        counted = of_coordinates(call.shape, "int64", lambda b, a: k)
        formula: Code = lambda t, i, a, s: f"{a} + {i} * {s}"  # noqa: E731
        return apply(call.shape, call.dtype, (counted, start, step), formula).compute(body, at)

    return of_coordinates(call.shape, call.dtype, element)


@lowers("aten.eye.default", "aten.eye.m")
def eye(call: Call, *unused: Any, **also_unused: Any) -> Value:
    def element(body: Body, at: Coordinates) -> Scalar:
        row, column = (body.as_scalar(i) for i in at)
        one = body.let(f"{row.text} == {column.text}", "bool", row, column)
        return body.cast(one, "float")

    return converted(of_coordinates(call.shape, "float32", element), call.dtype)
