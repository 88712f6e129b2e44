"""Elementwise ATen ops as formulas. Definitions are PyTorch's; NaN passes through as there."""

import math
from typing import Any

from musaagent.policies.builtin.body import Body, Coordinates, Scalar
from musaagent.policies.builtin.dialect import is_float
from musaagent.policies.builtin.ir import Pointwise, Value
from musaagent.policies.builtin.lowering import Call, lowers
from musaagent.policies.builtin.pointwise import Code, Operand, apply, clipped, promoted

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848, 1.0507009873554804934


def _softplus(t: Any, x: str) -> str:
    return f"({x} > {t(20)} ? {x} : {t.log1p(t.exp(x))})"


def _function(name: str) -> Code:
    return lambda t, x: getattr(t, name)(x)


# One argument, computed in the result's dtype.
_UNARY: dict[str, Code] = {
    **{
        name: _function(name)
        for name in (
            "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan",
            "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
            "erfc", "lgamma",
        )
    },
    "rsqrt": lambda t, x: f"{t(1)} / {t.sqrt(x)}",
    "reciprocal": lambda t, x: f"{t(1)} / {x}",
    "sigmoid": lambda t, x: f"{t(1)} / ({t(1)} + {t.exp('-' + x)})",
    "silu": lambda t, x: f"{x} / ({t(1)} + {t.exp('-' + x)})",
    "mish": lambda t, x: f"{x} * {t.tanh(_softplus(t, x))}",
    "selu": lambda t, x: f"{t(_SELU_SCALE)} * ({x} > {t(0)} ? {x} : "
                         f"{t(_SELU_ALPHA)} * {t.expm1(x)})",
    "relu6": lambda t, x: clipped(t, x, 0, 6),
    "hardsigmoid": lambda t, x: clipped(t, f"({x} + {t(3)})", 0, 6) + f" / {t(6)}",
    "hardswish": lambda t, x: f"{x} * {clipped(t, f'({x} + {t(3)})', 0, 6)} / {t(6)}",
    "log_sigmoid": lambda t, x: f"({x} < {t(0)} ? {x} : {t(0)}) - "
                                f"{t.log1p(t.exp('-' + t.fabs(x)))}",
    "deg2rad": lambda t, x: f"{x} * {t(math.pi / 180)}",
    "rad2deg": lambda t, x: f"{x} * {t(180 / math.pi)}",
    "sinc": lambda t, x: f"({x} == {t(0)} ? {t(1)} : {t.sin(f'{x} * {t(math.pi)}')} / "
                         f"({x} * {t(math.pi)}))",
}  # fmt: skip

# One argument, of floats and integers alike.
_PLAIN: dict[str, Code] = {
    "relu": lambda t, x: f"{x} < {t(0)} ? {t(0)} : {x}",
    "neg": lambda t, x: f"-{x}",
    "abs": lambda t, x: t.fabs(x) if t.ctype in ("float", "double") else f"{x} < 0 ? -{x} : {x}",
    "square": lambda t, x: f"{x} * {x}",
    "sign": lambda t, x: f"{t.ctype}({x} > {t(0)}) - {t.ctype}({x} < {t(0)})",
    "bitwise_not": lambda t, x: f"!{x}" if t.ctype == "bool" else f"~{x}",
    "positive": lambda t, x: x,
}
_PLAIN["sgn"] = _PLAIN["sign"]
_ROUNDING: dict[str, Code] = {
    "floor": lambda t, x: t.floor(x),
    "ceil": lambda t, x: t.ceil(x),
    "trunc": lambda t, x: t.trunc(x),
    "round": lambda t, x: t.rint(x),
    "frac": lambda t, x: f"{x} - {t.trunc(x)}",
}
# Results are bool; computed in the argument's dtype.
_TESTS: dict[str, Code] = {
    "isnan": lambda t, x: f"{x} != {x}",
    "isinf": lambda t, x: f"{t.fabs(x)} == {t(math.inf)}",
    "isfinite": lambda t, x: f"{t.fabs(x)} < {t(math.inf)}",
    "logical_not": lambda t, x: f"!({x} != {t(0)})",
}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_BINARY: dict[str, Code] = {
    "mul": lambda t, x, y: f"{x} && {y}" if t.ctype == "bool" else f"{x} * {y}",
    "maximum": lambda t, x, y: f"({x} != {x} || {x} > {y}) ? {x} : {y}",
    "minimum": lambda t, x, y: f"({x} != {x} || {x} < {y}) ? {x} : {y}",
    "fmax": lambda t, x, y: t.fmax(x, y) if t.ctype in ("float", "double") else
                            f"{x} > {y} ? {x} : {y}",
    "fmin": lambda t, x, y: t.fmin(x, y) if t.ctype in ("float", "double") else
                            f"{x} < {y} ? {x} : {y}",
    "atan2": lambda t, x, y: t.atan2(x, y),
    "hypot": lambda t, x, y: t.hypot(x, y),
    "copysign": lambda t, x, y: t.copysign(x, y),
    "fmod": lambda t, x, y: t.fmod(x, y) if t.ctype in ("float", "double") else f"{x} % {y}",
    "remainder": lambda t, x, y: _modulo(t, x, y),
    "xlogy": lambda t, x, y: f"{y} != {y} ? {y} : {x} == {t(0)} ? {t(0)} : {x} * {t.log(y)}",
    "logaddexp": lambda t, x, y: _log_add_exp(t, x, y),
    "bitwise_and": lambda t, x, y: f"{x} & {y}",
    "bitwise_or": lambda t, x, y: f"{x} | {y}",
    "bitwise_xor": lambda t, x, y: f"{x} ^ {y}",
    "heaviside": lambda t, x, y: f"{x} != {x} ? {x} : {x} == {t(0)} ? {y} : "
                                 f"{t.ctype}({x} > {t(0)})",
}  # fmt: skip
_CHEAP = {"rsqrt", "sqrt", "reciprocal", "relu6", "hardsigmoid", "hardswish", "deg2rad", "rad2deg"}


def _log_add_exp(t: Any, x: str, y: str) -> str:
    apart = t.fabs(f"{x} - {y}")
    return f"{x} == {y} ? {x} + {t.log(t(2))} : {t.fmax(x, y)} + {t.log1p(t.exp('-' + apart))}"


def _modulo(t: Any, x: str, y: str) -> str:
    if t.ctype in ("float", "double"):
        r = t.fmod(x, y)
        return f"{r} != {t(0)} && (({r} < {t(0)}) != ({y} < {t(0)})) ? {r} + {y} : {r}"
    return f"(({x} % {y}) + {y}) % {y}"


def _register_tables() -> None:
    for name, code in _UNARY.items():
        weight = 1 if name in _CHEAP else 10
        lowers(f"aten.{name}.default")(_unary(code, weight))
    for name, code in _PLAIN.items():
        lowers(f"aten.{name}.default")(_unary(code, 1))
    for name, code in _ROUNDING.items():
        lowers(f"aten.{name}.default")(_rounding(code))
    for name, code in _TESTS.items():
        lowers(f"aten.{name}.default")(_test(code))
    for name, code in _BINARY.items():
        names = [f"aten.{name}.{o}" for o in ("default", "Tensor", "Scalar", "Scalar_Tensor")]
        names += [f"aten.{name}.{o}" for o in ("Scalar_Self", "Scalar_Other")]
        lowers(*names)(_binary(code))
    for name in ("max", "min"):
        lowers(f"aten.{name}.other")(_binary(_BINARY[f"{name}imum"]))
    for sign in ("and", "or", "xor"):
        code = _BINARY[f"bitwise_{sign}"]
        lowers(f"aten.__{sign}__.Tensor", f"aten.__{sign}__.Scalar")(_binary(code))
    for name, sign in _COMPARISONS.items():
        lowers(f"aten.{name}.Tensor", f"aten.{name}.Scalar")(_comparison(sign))
    for name, sign in {"and": "&&", "or": "||", "xor": "!="}.items():
        lowers(f"aten.logical_{name}.default")(_logical(sign))


def _unary(code: Code, weight: int) -> Any:
    return lambda call, x: apply(call.shape, call.dtype, (x,), code, weight=weight)


def _rounding(code: Code) -> Any:
    def lower(call: Call, x: Value) -> Value:
        return apply(call.shape, call.dtype, (x,), code) if is_float(x.dtype) else x

    return lower


def _test(code: Code) -> Any:
    def lower(call: Call, x: Value) -> Value:
        exact = x.dtype if is_float(x.dtype) or "!(" in code(_probe, "x") else "float32"
        return apply(call.shape, call.dtype, (x,), code, compute=exact)

    return lower


def _binary(code: Code) -> Any:
    return lambda call, x, y: apply(call.shape, call.dtype, (x, y), code, weight=2)


def _comparison(sign: str) -> Any:
    def lower(call: Call, x: Operand, y: Operand) -> Value:
        code: Code = lambda t, a, b: f"{a} {sign} {b}"  # noqa: E731
        return apply(call.shape, call.dtype, (x, y), code, compute=promoted((x, y)))

    return lower


def _logical(sign: str) -> Any:
    def lower(call: Call, x: Value, y: Value) -> Value:
        code: Code = lambda t, a, b: f"{a} {sign} {b}"  # noqa: E731
        return apply(call.shape, call.dtype, (x, y), code, compute="bool")

    return lower


class _Probe:
    """Stands in for `Types` where only the shape of a formula is asked."""

    ctype = "float"

    def __call__(self, value: float) -> str:
        return "0"

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: "f"


_probe = _Probe()
_register_tables()


@lowers("aten.add.Tensor", "aten.add.Scalar")
def add(call: Call, x: Operand, y: Operand, alpha: Operand = 1) -> Value:
    return _scaled_sum(call, x, y, alpha, "+")


@lowers("aten.sub.Tensor", "aten.sub.Scalar")
def sub(call: Call, x: Operand, y: Operand, alpha: Operand = 1) -> Value:
    return _scaled_sum(call, x, y, alpha, "-")


@lowers("aten.rsub.Scalar", "aten.rsub.Tensor")
def rsub(call: Call, x: Operand, y: Operand, alpha: Operand = 1) -> Value:
    return _scaled_sum(call, y, x, alpha, "-")


def _scaled_sum(call: Call, x: Operand, y: Operand, alpha: Operand, sign: str) -> Value:
    if alpha == 1:
        if call.dtype == "bool":
            return apply(call.shape, call.dtype, (x, y), lambda t, a, b: f"{a} || {b}")
        return apply(call.shape, call.dtype, (x, y), lambda t, a, b: f"{a} {sign} {b}")
    return apply(call.shape, call.dtype, (x, y, alpha), lambda t, a, b, c: f"{a} {sign} {c} * {b}")


@lowers("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor",
        "aten.div.Tensor_mode", "aten.div.Scalar_mode")  # fmt: skip
def div(call: Call, x: Operand, y: Operand, rounding_mode: str | None = None) -> Value:
    whole = not is_float(call.dtype)
    forms: dict[str | None, Code] = {
        None: lambda t, a, b: f"{a} / {b}",
        "trunc": lambda t, a, b: f"{a} / {b}" if whole else t.trunc(f"{a} / {b}"),
        "floor": lambda t, a, b: _floor_quotient(a, b) if whole else t.floor(f"{a} / {b}"),
    }
    return apply(call.shape, call.dtype, (x, y), forms[rounding_mode], weight=4)


def _floor_quotient(a: str, b: str) -> str:
    return f"{a} / {b} - (({a} % {b} != 0 && (({a} < 0) != ({b} < 0))) ? 1 : 0)"


@lowers("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(call: Call, x: Operand, y: Operand) -> Value:
    return div(call, x, y, "floor")


_POWERS: dict[float, Code] = {
    1.0: lambda t, x: x,
    2.0: lambda t, x: f"{x} * {x}",
    3.0: lambda t, x: f"{x} * {x} * {x}",
    4.0: lambda t, x: f"({x} * {x}) * ({x} * {x})",
    0.5: lambda t, x: t.sqrt(x),
    -0.5: lambda t, x: f"{t(1)} / {t.sqrt(x)}",
    -1.0: lambda t, x: f"{t(1)} / {x}",
    -2.0: lambda t, x: f"{t(1)} / ({x} * {x})",
}


@lowers("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar",
        "aten.float_power.Tensor_Scalar", "aten.float_power.Tensor_Tensor")  # fmt: skip
def power(call: Call, x: Operand, y: Operand) -> Value:
    if isinstance(y, (int, float)) and float(y) in _POWERS:
        return apply(call.shape, call.dtype, (x,), _POWERS[float(y)])
    if not is_float(call.dtype):
        raise call.refuse("an integer power other than 1 to 4")
    return apply(call.shape, call.dtype, (x, y), lambda t, a, b: t.pow(a, b), weight=20)


@lowers("aten.clamp.default", "aten.clamp.Tensor", "aten.clip.default", "aten.clip.Tensor")
def clamp(call: Call, x: Value, min: Operand | None = None, max: Operand | None = None) -> Value:
    value: Value = x
    if min is not None:
        code: Code = lambda t, a, b: f"{a} < {b} ? {b} : {a}"  # noqa: E731
        value = apply(call.shape, call.dtype, (value, min), code)
    if max is not None:
        code = lambda t, a, b: f"{a} > {b} ? {b} : {a}"  # noqa: E731
        value = apply(call.shape, call.dtype, (value, max), code)
    return value


@lowers("aten.clamp_min.default", "aten.clamp_min.Tensor")
def clamp_min(call: Call, x: Value, low: Operand) -> Value:
    return clamp(call, x, low)


@lowers("aten.clamp_max.default", "aten.clamp_max.Tensor")
def clamp_max(call: Call, x: Value, high: Operand) -> Value:
    return clamp(call, x, None, high)


@lowers("aten.nan_to_num.default")
def nan_to_num(
    call: Call, x: Value, nan: float | None = None, posinf: float | None = None,
    neginf: float | None = None,
) -> Value:  # fmt: skip
    most = {
        "float16": 65504.0,
        "bfloat16": 3.3895313892515355e38,
        "float64": 1.7976931348623157e308,
    }
    top = most.get(x.dtype, 3.4028234663852886e38)

    def code(t: Any, a: str) -> str:
        high = t(top if posinf is None else posinf)
        low = t(-top if neginf is None else neginf)
        return (
            f"{a} != {a} ? {t(nan or 0)} : {a} == {t(math.inf)} ? {high} : "
            f"{a} == {t(-math.inf)} ? {low} : {a}"
        )

    return apply(call.shape, call.dtype, (x,), code)


@lowers("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def where(call: Call, condition: Value, x: Operand, y: Operand) -> Value:
    def element(body: Body, at: Coordinates) -> Scalar:
        chosen = apply(call.shape, "bool", (condition,), lambda t, a: a)
        a = apply(call.shape, call.dtype, (x,), lambda t, v: v)
        b = apply(call.shape, call.dtype, (y,), lambda t, v: v)
        c, p, q = (body.read(v, at) for v in (chosen, a, b))
        return body.let(f"{c.text} ? {p.text} : {q.text}", p.ctype, c, p, q)

    sources = [v for v in (condition, x, y) if isinstance(v, Value)]
    return Pointwise(call.shape, call.dtype, sources, element)


@lowers("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(call: Call, x: Value, mask: Value, value: Operand) -> Value:
    return where(call, mask, value, x)


@lowers("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(call: Call, x: Value, end: Value, weight: Operand) -> Value:
    code: Code = lambda t, a, b, w: f"{a} + {w} * ({b} - {a})"  # noqa: E731
    return apply(call.shape, call.dtype, (x, end, weight), code)


@lowers("aten.addcmul.default")
def addcmul(call: Call, x: Value, a: Value, b: Value, value: Operand = 1) -> Value:
    code: Code = lambda t, c, p, q, v: f"{c} + {v} * {p} * {q}"  # noqa: E731
    return apply(call.shape, call.dtype, (x, a, b, value), code)


@lowers("aten.addcdiv.default")
def addcdiv(call: Call, x: Value, a: Value, b: Value, value: Operand = 1) -> Value:
    code: Code = lambda t, c, p, q, v: f"{c} + {v} * ({p} / {q})"  # noqa: E731
    return apply(call.shape, call.dtype, (x, a, b, value), code)


@lowers("aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default")
def dropout(call: Call, x: Value, p: float, train: bool) -> Value:
    if train and p > 0:
        raise call.refuse("random in train mode")
    return x
