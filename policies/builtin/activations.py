"""Activations with parameters, as formulas. Definitions are PyTorch's."""

import math
from typing import Any

from musaagent.policies.builtin.body import Body, Coordinates, Scalar
from musaagent.policies.builtin.ir import Pointwise, Value
from musaagent.policies.builtin.lowering import Call, lowers
from musaagent.policies.builtin.pointwise import Code, apply, clipped
from musaagent.policies.builtin.sizes import ONE


@lowers("aten.gelu.default")
def gelu(call: Call, x: Value, approximate: str = "none") -> Value:
    def exact(t: Any, a: str) -> str:
        return f"{t(0.5)} * {a} * ({t(1)} + {t.erf(f'{a} * {t(math.sqrt(0.5))}')})"

    def with_tanh(t: Any, a: str) -> str:
        inner = f"{t(math.sqrt(2 / math.pi))} * ({a} + {t(0.044715)} * {a} * {a} * {a})"
        return f"{t(0.5)} * {a} * ({t(1)} + {t.tanh(inner)})"

    code = exact if approximate == "none" else with_tanh
    return apply(call.shape, call.dtype, (x,), code, weight=10)


@lowers("aten.leaky_relu.default")
def leaky_relu(call: Call, x: Value, slope: float = 0.01) -> Value:
    code: Code = lambda t, a: f"{a} > {t(0)} ? {a} : {a} * {t(slope)}"  # noqa: E731
    return apply(call.shape, call.dtype, (x,), code)


@lowers("aten.prelu.default")
def prelu(call: Call, x: Value, weight: Value) -> Value:
    def element(body: Body, at: Coordinates) -> Scalar:
        one = weight.numel == ONE
        where = (at[0] * 0,) if one or x.rank < 2 else (at[1],)
        a, w = body.read(x, at), body.read(weight, where)
        return body.let(f"{a.text} > 0 ? {a.text} : {a.text} * {w.text}", a.ctype, a, w)

    return Pointwise(call.shape, call.dtype, (x, weight), element)


@lowers("aten.elu.default")
def elu(call: Call, x: Value, alpha: float = 1, scale: float = 1, inner: float = 1) -> Value:
    def code(t: Any, a: str) -> str:
        grown = f"{t(alpha * scale)} * {t.expm1(f'{a} * {t(inner)}')}"
        return f"{a} > {t(0)} ? {a} * {t(scale)} : {grown}"

    return apply(call.shape, call.dtype, (x,), code, weight=10)


@lowers("aten.celu.default")
def celu(call: Call, x: Value, alpha: float = 1) -> Value:
    def code(t: Any, a: str) -> str:
        return f"{a} > {t(0)} ? {a} : {t(alpha)} * {t.expm1(f'{a} / {t(alpha)}')}"

    return apply(call.shape, call.dtype, (x,), code, weight=10)


@lowers("aten.softplus.default")
def softplus(call: Call, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    def code(t: Any, a: str) -> str:
        b = f"{a} * {t(beta)}"
        return f"{b} > {t(threshold)} ? {a} : {t.log1p(t.exp(b))} / {t(beta)}"

    return apply(call.shape, call.dtype, (x,), code, weight=20)


@lowers("aten.hardtanh.default")
def hardtanh(call: Call, x: Value, low: float = -1, high: float = 1) -> Value:
    return apply(call.shape, call.dtype, (x,), lambda t, a: clipped(t, a, low, high))


@lowers("aten.hardshrink.default")
def hardshrink(call: Call, x: Value, lambd: float = 0.5) -> Value:
    def code(t: Any, a: str) -> str:
        return f"{a} >= {t(-lambd)} && {a} <= {t(lambd)} ? {t(0)} : {a}"

    return apply(call.shape, call.dtype, (x,), code)


@lowers("aten.softshrink.default")
def softshrink(call: Call, x: Value, lambd: float = 0.5) -> Value:
    def code(t: Any, a: str) -> str:
        return (
            f"{a} > {t(lambd)} ? {a} - {t(lambd)} : {a} < {t(-lambd)} ? {a} + {t(lambd)} : "
            f"{a} * {t(0)}"
        )

    return apply(call.shape, call.dtype, (x,), code)


@lowers("aten.threshold.default")
def threshold(call: Call, x: Value, limit: float, value: float) -> Value:
    return apply(call.shape, call.dtype, (x,), lambda t, a: f"{a} <= {t(limit)} ? {t(value)} : {a}")
