"""Scaled dot-product attention, written with products and softmax that exist already."""

import math

from musaagent.policies.builtin.body import Body, Coordinates, Scalar
from musaagent.policies.builtin.dialect import register_type
from musaagent.policies.builtin.ir import Pointwise, Value
from musaagent.policies.builtin.lowering import Call, lowers
from musaagent.policies.builtin.matmul import matrix_product
from musaagent.policies.builtin.pointwise import Code, add, apply, converted, narrowed
from musaagent.policies.builtin.reductions import exp_sum, wide
from musaagent.policies.builtin.sizes import Real
from musaagent.policies.builtin.views import moved, with_dim


@lowers("aten.scaled_dot_product_attention.default")
def attention(
    call: Call, q: Value, k: Value, v: Value, mask: Value | None = None, dropout: float = 0.0,
    causal: bool = False, scale: float | Real | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    if dropout:
        raise call.refuse("with dropout")
    if enable_gqa:
        k, v = _for_each_head(k, q), _for_each_head(v, q)
    scores = _scaled(matrix_product(q, k, wide(call.dtype), transposed=True), q, scale)
    if mask is not None and mask.dtype != "bool":
        scores = add(scores, mask, scores.dtype)
    elif mask is not None:
        scores = _where(scores, mask)
    if causal:
        scores = _where(scores, None)
    return matrix_product(_softmax(scores, call.dtype), v, call.dtype)


def _for_each_head(x: Value, q: Value) -> Value:
    """Heads of keys or values, each as often as queries share it."""
    heads, times = q.rank - 3, q.shape[-3] // x.shape[-3]
    shape = (*x.shape[:-3], q.shape[-3], *x.shape[-2:])
    return moved(x, shape, lambda at: with_dim(at, heads, at[heads] // times))


def _scaled(scores: Value, q: Value, scale: float | Real | None) -> Value:
    width = q.shape[-1]
    if scale is None and width.literal:
        scale = 1 / math.sqrt(width.own)
    if scale is None:
        root: Code = lambda t, x, n: f"{x} / {t.sqrt(n)}"  # noqa: E731
        return apply(scores.shape, scores.dtype, (scores, width), root)
    return apply(scores.shape, scores.dtype, (scores, scale), lambda t, x, s: f"{x} * {s}")


def _where(scores: Value, mask: Value | None) -> Value:
    """Minus infinity where the mask is false; without a mask, where a key comes after its query."""
    ctype = register_type(scores.dtype)

    def element(body: Body, at: Coordinates) -> Scalar:
        if mask is None:
            later = at[-1] - at[-2]
            kept = body.let(f"{body.position(later)} <= 0", "bool", later)
        else:
            kept = body.read(mask, narrowed(at, mask.shape))
        score = body.read(scores, at)
        return body.let(f"{kept.text} ? {score.text} : {ctype}(-INFINITY)", ctype, kept, score)

    sources = (scores,) if mask is None else (scores, mask)
    return Pointwise(scores.shape, scores.dtype, sources, element)


def _softmax(scores: Value, dtype: str) -> Value:
    """Along the keys; a query that may see no key gets zeros."""
    top, summed = exp_sum(scores, (scores.rank - 1,), True)
    code: Code = lambda t, x, m, s: f"{s} == 0 ? {t(0)} : {t.exp(f'{x} - {m}')} / {s}"  # noqa: E731
    return converted(apply(scores.shape, top.dtype, (scores, top, summed), code, weight=14), dtype)
