"""Softmax and the normalisations, said with reductions and elementwise values."""

from collections.abc import Sequence
from typing import Any

from musaagent.policies.builtin.ir import Value
from musaagent.policies.builtin.lowering import Call, lowers
from musaagent.policies.builtin.pointwise import Code, add, apply, converted, div, mul
from musaagent.policies.builtin.reductions import (
    average,
    count_of,
    delivered,
    exp_sum,
    moments,
    total,
    wide,
)
from musaagent.policies.builtin.sizes import ONE, Num, num, product
from musaagent.policies.builtin.views import keep_dims, reshape_to, wrapped

_EPSILON = {"float64": 2.220446049250313e-16, "float16": 0.0009765625, "bfloat16": 0.0078125}


@lowers("aten.softmax.int", "aten._softmax.default", "aten.special_softmax.default")
def softmax(call: Call, x: Value, dim: int, dtype: Any = None) -> Value:
    top, summed = exp_sum(_in(x, dtype), _dims(x, dim), True)
    code: Code = lambda t, a, m, s: f"{t.exp(f'{a} - {m}')} / {s}"  # noqa: E731
    made = apply(x.shape, top.dtype, (x, top, summed), code, weight=14)
    return delivered(made, call)


@lowers("aten.log_softmax.int", "aten._log_softmax.default", "aten.special_log_softmax.default")
def log_softmax(call: Call, x: Value, dim: int, dtype: Any = None) -> Value:
    top, summed = exp_sum(_in(x, dtype), _dims(x, dim), True)
    code: Code = lambda t, a, m, s: f"{a} - {m} - {t.log(s)}"  # noqa: E731
    return delivered(apply(x.shape, top.dtype, (x, top, summed), code, weight=14), call)


def _in(x: Value, dtype: Any) -> Value:
    return converted(x, dtype) if isinstance(dtype, str) else x


def _dims(x: Value, dim: int) -> tuple[int, ...]:
    return (wrapped(dim, x.rank),) if x.rank else ()


def standardised(x: Value, middle: Value, variance: Value, eps: float) -> Value:
    """(x - mean) / sqrt(variance + eps)."""
    code: Code = lambda t, a, m, v: f"({a} - {m}) * ({t(1)} / {t.sqrt(f'{v} + {t(eps)}')})"  # noqa: E731
    return apply(x.shape, middle.dtype, (x, middle, variance), code, weight=4)


def affine_map(x: Value, weight: Value | None, bias: Value | None) -> Value:
    """x * weight + bias, either of which may be missing."""
    if weight is not None:
        x = mul(x, weight, x.dtype)
    return x if bias is None else add(x, bias, x.dtype)


def _biased(x: Value, dims: Sequence[int]) -> tuple[Value, Value]:
    middle, squares = moments(x, dims, True)
    return middle, div(squares, count_of(x, dims), squares.dtype)


@lowers("aten.layer_norm.default")
def layer_norm(
    call: Call, x: Value, shape: Sequence[Any], weight: Value | None = None,
    bias: Value | None = None, eps: float = 1e-5, cudnn: bool = True,
) -> Value:  # fmt: skip
    dims = range(x.rank - len(shape), x.rank)
    made = standardised(x, *_biased(x, dims), eps)
    return delivered(affine_map(made, weight, bias), call)


@lowers("aten.native_layer_norm.default")
def native_layer_norm(
    call: Call, x: Value, shape: Sequence[Any], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    dims = range(x.rank - len(shape), x.rank)
    middle, spread = _biased(x, dims)
    made = affine_map(standardised(x, middle, spread, eps), weight, bias)
    code: Code = lambda t, v: f"{t(1)} / {t.sqrt(f'{v} + {t(eps)}')}"  # noqa: E731
    inverse = apply(spread.shape, spread.dtype, (spread,), code)
    return delivered(made, call, 0), delivered(middle, call, 1), delivered(inverse, call, 2)


@lowers("aten.rms_norm.default")
def rms_norm(
    call: Call, x: Value, shape: Sequence[Any], weight: Value | None = None,
    eps: float | None = None,
) -> Value:  # fmt: skip
    dims = range(x.rank - len(shape), x.rank)
    small = _EPSILON.get(x.dtype, 1.1920928955078125e-07) if eps is None else eps
    squares = average(mul(x, x, wide(x.dtype)), dims, True, x.dtype)
    code: Code = lambda t, a, v: f"{a} * ({t(1)} / {t.sqrt(f'{v} + {t(small)}')})"  # noqa: E731
    made = apply(x.shape, squares.dtype, (x, squares), code, weight=4)
    return delivered(affine_map(made, weight, None), call)


@lowers("aten.group_norm.default")
def group_norm(
    call: Call, x: Value, groups: int, weight: Value | None = None, bias: Value | None = None,
    eps: float = 1e-5, cudnn: bool = True,
) -> Value:  # fmt: skip
    batch = x.shape[0]
    rest = product(x.shape[1:]) // num(groups)
    grouped = reshape_to(x, (batch, num(groups), rest))
    made = reshape_to(standardised(grouped, *_biased(grouped, (2,)), eps), x.shape)
    return delivered(affine_map(made, _channels(weight, x), _channels(bias, x)), call)


def _channels(parameter: Value | None, x: Value) -> Value | None:
    """A per-channel parameter, shaped to broadcast over x's dim 1."""
    if parameter is None:
        return None
    return reshape_to(parameter, (x.shape[1], *[ONE] * (x.rank - 2)))


def _bare(x: Value) -> Value:
    """A statistic with kept dims, as a vector over its one dim that is not 1."""
    return reshape_to(x, (x.numel,))


@lowers("aten.batch_norm.default")
def batch_norm(
    call: Call, x: Value, weight: Value | None, bias: Value | None, running_mean: Value | None,
    running_var: Value | None, training: bool, momentum: float, eps: float, cudnn: bool = True,
) -> Value:  # fmt: skip
    dims = [d for d in range(x.rank) if d != 1]
    if training:
        middle, spread = _biased(x, dims)
        if running_mean is not None and running_var is not None:
            n = count_of(x, dims)
            unbiased = mul(spread, _ratio(n), spread.dtype)
            _run(call, running_mean, _bare(middle), momentum)
            _run(call, running_var, _bare(unbiased), momentum)
    else:
        if running_mean is None or running_var is None:
            raise call.refuse("evaluation without running statistics")
        middle = _statistic(running_mean, x)
        spread = _statistic(running_var, x)
    made = standardised(x, middle, spread, eps)
    return delivered(affine_map(made, _channels(weight, x), _channels(bias, x)), call)


def _statistic(running: Value, x: Value) -> Value:
    return keep_dims(running, [d for d in range(x.rank) if d != 1])


def _ratio(n: Num) -> Value:
    """n / (n - 1), which makes a biased variance unbiased."""
    code: Code = lambda t, a: f"{a} / ({a} - {t(1)})"  # noqa: E731
    return apply((), "float64", (n,), code)


def _run(call: Call, running: Value, now: Value, momentum: float) -> None:
    """The exponential moving average that training keeps."""
    code: Code = lambda t, a, b: f"{t(1 - momentum)} * {a} + {t(momentum)} * {b}"  # noqa: E731
    call.module.update(running, apply(running.shape, running.dtype, (running, now), code))


@lowers("aten.instance_norm.default")
def instance_norm(
    call: Call, x: Value, weight: Value | None, bias: Value | None, running_mean: Value | None,
    running_var: Value | None, use_input_stats: bool, momentum: float, eps: float,
    cudnn: bool = True,
) -> Value:  # fmt: skip
    dims = range(2, x.rank)
    if use_input_stats:
        middle, spread = _biased(x, dims)
        if running_mean is not None and running_var is not None:
            unbiased = mul(spread, _ratio(count_of(x, dims)), spread.dtype)
            _run(call, running_mean, _bare(average(middle, (0,), False, "float32")), momentum)
            _run(call, running_var, _bare(average(unbiased, (0,), False, "float32")), momentum)
    else:
        if running_mean is None or running_var is None:
            raise call.refuse("evaluation without running statistics")
        middle, spread = _statistic(running_mean, x), _statistic(running_var, x)
    made = standardised(x, middle, spread, eps)
    return delivered(affine_map(made, _channels(weight, x), _channels(bias, x)), call)


@lowers("aten.cosine_similarity.default")
def cosine_similarity(call: Call, x: Value, y: Value, dim: int = 1, eps: float = 1e-8) -> Value:
    crossed = mul(x, y, wide(call.dtype))
    dims = (wrapped(dim, crossed.rank),)
    dtype = crossed.dtype
    dot, xx, yy = (
        total(v, dims, False, dtype) for v in (crossed, mul(x, x, dtype), mul(y, y, dtype))
    )
    if x.shape != y.shape:
        raise call.refuse("of tensors that broadcast")

    def code(t: Any, d: str, a: str, b: str) -> str:
        ends = (t.fmax(t.sqrt(v), t(eps)) for v in (a, b))
        return f"{d} / ({' * '.join(ends)})"

    return delivered(apply(dot.shape, dtype, (dot, xx, yy), code), call)
