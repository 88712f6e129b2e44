"""Reductions over dims: sums, products, extremes, tests, moments and norms."""

import math
from collections.abc import Sequence
from typing import Any

from musaagent.policies.builtin.dialect import is_float, is_integer
from musaagent.policies.builtin.ir import Pointwise, Reduction, Value
from musaagent.policies.builtin.lowering import Call, lowers
from musaagent.policies.builtin.pointwise import Code, apply, converted, div, mul, sub
from musaagent.policies.builtin.reducers import (
    ArgExtreme,
    ExpSum,
    Extreme,
    Moments,
    Place,
    Product,
    Reducer,
    Sum,
    Truth,
)
from musaagent.policies.builtin.sizes import ZERO, Num, Real, product
from musaagent.policies.builtin.views import keep_dims, reshape_to, wrapped

Dims = int | Sequence[int] | None


def dims_of(x: Value, dim: Dims) -> tuple[int, ...]:
    """Which dims a reduction is over; none or an empty list means all."""
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(x.rank))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return tuple(sorted({wrapped(d, x.rank) for d in dims})) if x.rank else ()


def count_of(x: Value, dims: Sequence[int]) -> Num:
    return product(x.shape[d] for d in dims)


def reduce(
    sources: Sequence[Value], dims: Sequence[int], reducer: Reducer, keepdim: bool
) -> tuple[Value, ...]:
    """The reduction's fields, with the dims kept as 1 where asked."""
    fields = Reduction(sources, dims, reducer).fields
    return tuple(keep_dims(f, dims) for f in fields) if keepdim else tuple(fields)


def wide(dtype: str) -> str:
    """The dtype of an intermediate result: never narrower than float32."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def total(x: Value, dims: Sequence[int], keepdim: bool, dtype: str) -> Value:
    """The sum, as an intermediate of at least float32."""
    (made,) = reduce((x,), dims, Sum(x.dtype, (wide(dtype),)), keepdim)
    return made


def average(x: Value, dims: Sequence[int], keepdim: bool, dtype: str) -> Value:
    return div(total(x, dims, keepdim, dtype), count_of(x, dims), wide(dtype))


def moments(x: Value, dims: Sequence[int], keepdim: bool) -> tuple[Value, Value]:
    """Mean and sum of squared deviations."""
    dtype = wide(x.dtype)
    mean, squares = reduce((x,), dims, Moments(x.dtype, (dtype, dtype)), keepdim)
    return mean, squares


def exp_sum(x: Value, dims: Sequence[int], keepdim: bool) -> tuple[Value, Value]:
    """Maximum, and the sum of exp(x - maximum)."""
    dtype = wide(x.dtype)
    top, summed = reduce((x,), dims, ExpSum(x.dtype, (dtype, dtype)), keepdim)
    return top, summed


def delivered(value: Value, call: Call, k: int = 0) -> Value:
    """An intermediate in the traced result's shape and dtype."""
    return converted(reshape_to(value, call.outputs[k].shape), call.outputs[k].dtype)


@lowers("aten.sum.default", "aten.sum.dim_IntList")
def sum_(call: Call, x: Value, dim: Dims = None, keepdim: bool = False, **unused: Any) -> Value:
    dims = dims_of(x, dim)
    (made,) = reduce((x,), dims, Sum(x.dtype, (wide(call.dtype),)), keepdim)
    return delivered(made, call)


@lowers("aten.mean.default", "aten.mean.dim")
def mean(call: Call, x: Value, dim: Dims = None, keepdim: bool = False, **unused: Any) -> Value:
    return delivered(average(x, dims_of(x, dim), keepdim, call.dtype), call)


@lowers("aten.prod.default", "aten.prod.dim_int")
def prod(call: Call, x: Value, dim: Dims = None, keepdim: bool = False, **unused: Any) -> Value:
    (made,) = reduce((x,), dims_of(x, dim), Product(x.dtype, (wide(call.dtype),)), keepdim)
    return delivered(made, call)


def _extreme(call: Call, x: Value, dim: Dims, keepdim: bool, largest: bool) -> Value:
    reducer = Extreme(x.dtype, (x.dtype,), largest)
    (made,) = reduce((x,), dims_of(x, dim), reducer, keepdim)
    return delivered(made, call)


@lowers("aten.amax.default", "aten.max.default")
def amax(call: Call, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _extreme(call, x, dim, keepdim, True)


@lowers("aten.amin.default", "aten.min.default")
def amin(call: Call, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _extreme(call, x, dim, keepdim, False)


def _with_place(
    call: Call, x: Value, dim: int, keepdim: bool, largest: bool
) -> tuple[Value, Value]:
    reducer = ArgExtreme(x.dtype, (x.dtype, "int64"), largest)
    value, place = reduce((x,), dims_of(x, dim), reducer, keepdim)
    return delivered(value, call, 0), delivered(place, call, 1)


@lowers("aten.max.dim")
def max_dim(call: Call, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    return _with_place(call, x, dim, keepdim, True)


@lowers("aten.min.dim")
def min_dim(call: Call, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    return _with_place(call, x, dim, keepdim, False)


@lowers("aten.aminmax.default")
def aminmax(
    call: Call, x: Value, dim: int | None = None, keepdim: bool = False
) -> tuple[Value, Value]:
    low = _extreme(call, x, dim, keepdim, False)
    return low, _extreme(call, x, dim, keepdim, True)


def _place(call: Call, x: Value, dim: int | None, keepdim: bool, largest: bool) -> Value:
    reducer = Place(x.dtype, ("int64",), largest)
    (made,) = reduce((x,), dims_of(x, dim), reducer, keepdim)
    return delivered(made, call)


@lowers("aten.argmax.default")
def argmax(call: Call, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return _place(call, x, dim, keepdim, True)


@lowers("aten.argmin.default")
def argmin(call: Call, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return _place(call, x, dim, keepdim, False)


def _truth(call: Call, x: Value, dim: Dims, keepdim: bool, every: bool) -> Value:
    yes = x if x.dtype == "bool" else converted(x, "bool")
    (made,) = reduce((yes,), dims_of(x, dim), Truth("bool", ("bool",), every), keepdim)
    return delivered(made, call)


@lowers("aten.any.default", "aten.any.dim", "aten.any.dims")
def any_(call: Call, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _truth(call, x, dim, keepdim, False)


@lowers("aten.all.default", "aten.all.dim", "aten.all.dims")
def all_(call: Call, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _truth(call, x, dim, keepdim, True)


@lowers("aten.count_nonzero.default", "aten.count_nonzero.dim_IntList")
def count_nonzero(call: Call, x: Value, dim: Dims = None) -> Value:
    ones = converted(converted(x, "bool"), "int64")
    return delivered(total(ones, dims_of(x, dim), False, "int64"), call)


# --- moments -----------------------------------------------------------------------------------


def variance(
    x: Value, dims: Sequence[int], keepdim: bool, correction: float
) -> tuple[Value, Value]:
    """Mean and variance, with the divisor n - correction (never below 0, as in torch)."""
    middle, squares = moments(x, dims, keepdim)
    n = count_of(x, dims)
    if float(correction).is_integer():
        c = int(correction)
        divisor: Num | float = n - c
        if not n - c >= ZERO:
            divisor = 0.0
    elif n.literal:
        divisor = max(n.own - correction, 0.0)
    else:
        divisor = 0.0
    return middle, div(squares, divisor, squares.dtype)


def _correction(unbiased: Any, correction: Any) -> float:
    if isinstance(correction, (int, float)) and not isinstance(correction, bool):
        return float(correction)
    return 1.0 if unbiased is None or unbiased else 0.0


@lowers("aten.var.default", "aten.var.dim", "aten.var.correction")
def var(
    call: Call, x: Value, dim: Any = None, unbiased: Any = None, keepdim: bool = False,
    *, correction: Any = None,
) -> Value:  # fmt: skip
    dim, unbiased = _var_arguments(call, dim, unbiased)
    made = variance(x, dims_of(x, dim), keepdim, _correction(unbiased, correction))[1]
    return delivered(made, call)


@lowers("aten.std.default", "aten.std.dim", "aten.std.correction")
def std(
    call: Call, x: Value, dim: Any = None, unbiased: Any = None, keepdim: bool = False,
    *, correction: Any = None,
) -> Value:  # fmt: skip
    dim, unbiased = _var_arguments(call, dim, unbiased)
    made = variance(x, dims_of(x, dim), keepdim, _correction(unbiased, correction))[1]
    return delivered(_root(made), call)


@lowers("aten.var_mean.correction", "aten.var_mean.dim", "aten.var_mean.default")
def var_mean(
    call: Call, x: Value, dim: Any = None, unbiased: Any = None, keepdim: bool = False,
    *, correction: Any = None,
) -> tuple[Value, Value]:  # fmt: skip
    dim, unbiased = _var_arguments(call, dim, unbiased)
    middle, made = variance(x, dims_of(x, dim), keepdim, _correction(unbiased, correction))
    return delivered(made, call, 0), delivered(middle, call, 1)


@lowers("aten.std_mean.correction", "aten.std_mean.dim", "aten.std_mean.default")
def std_mean(
    call: Call, x: Value, dim: Any = None, unbiased: Any = None, keepdim: bool = False,
    *, correction: Any = None,
) -> tuple[Value, Value]:  # fmt: skip
    dim, unbiased = _var_arguments(call, dim, unbiased)
    middle, made = variance(x, dims_of(x, dim), keepdim, _correction(unbiased, correction))
    return delivered(_root(made), call, 0), delivered(middle, call, 1)


def _var_arguments(call: Call, dim: Any, unbiased: Any) -> tuple[Any, Any]:
    """`.default` has (x, unbiased), the others (x, dim, unbiased, keepdim)."""
    return (None, dim) if call.op.endswith(".default") else (dim, unbiased)


def _root(x: Value) -> Pointwise:
    return apply(x.shape, x.dtype, (x,), lambda t, a: t.sqrt(a))


# --- norms and exponents -----------------------------------------------------------------------


@lowers("aten.logsumexp.default")
def logsumexp(call: Call, x: Value, dim: Dims, keepdim: bool = False) -> Value:
    return delivered(log_of_sum(*exp_sum(x, dims_of(x, dim), keepdim)), call)


def log_of_sum(top: Value, summed: Value) -> Value:
    code: Code = lambda t, m, s: f"{m} + {t.log(s)}"  # noqa: E731
    return apply(top.shape, top.dtype, (top, summed), code, weight=10)


def vector_norm(x: Value, order: float | Real, dims: Sequence[int], keepdim: bool) -> Value:
    """The p-norm over dims, as an intermediate of at least float32."""
    dtype = wide(x.dtype)
    size = apply(x.shape, dtype, (x,), lambda t, a: t.fabs(a))
    if order in (math.inf, -math.inf):
        (made,) = reduce((size,), dims, Extreme(dtype, (dtype,), order == math.inf), keepdim)
        return made
    if order == 0:
        there = apply(x.shape, dtype, (x,), lambda t, a: f"({a} != {t(0)}) ? {t(1)} : {t(0)}")
        return total(there, dims, keepdim, dtype)
    if order == 1:
        return total(size, dims, keepdim, dtype)
    if order == 2:
        return _root(total(mul(x, x, dtype), dims, keepdim, dtype))
    powered = apply(x.shape, dtype, (size, order), lambda t, a, p: t.pow(a, p), weight=20)
    summed = total(powered, dims, keepdim, dtype)
    code: Code = lambda t, a, p: t.pow(a, f"{t(1)} / {p}")  # noqa: E731
    return apply(summed.shape, dtype, (summed, order), code)


@lowers("aten.linalg_vector_norm.default", "aten.norm.ScalarOpt_dim", "aten.norm.Scalar",
        "aten.norm.ScalarOpt_dim_dtype", "aten.norm.ScalarOpt_dtype")  # fmt: skip
def norm(
    call: Call, x: Value, order: Any = 2, dim: Dims = None, keepdim: bool = False, **unused: Any
) -> Value:
    if not (is_float(x.dtype) or is_integer(x.dtype)):
        raise call.refuse(f"of {x.dtype}")
    p = 2 if order is None else order
    return delivered(vector_norm(x, p, dims_of(x, dim), keepdim), call)


@lowers("aten.dist.default")
def dist(call: Call, x: Value, y: Value, order: float = 2) -> Value:
    apart = sub(x, y, call.dtype)
    return delivered(vector_norm(apart, order, dims_of(apart, None), False), call)
