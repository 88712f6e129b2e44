"""Scaled dot-product attention, written with products and softmax that exist already."""

import math
from typing import Any

from musaagent.policies.builtin.ir import Value
from musaagent.policies.builtin.lowering import Call, Output, lowers
from musaagent.policies.builtin.matmul import matrix_product
from musaagent.policies.builtin.norms import softmax
from musaagent.policies.builtin.pointwise import add, apply
from musaagent.policies.builtin.reductions import wide
from musaagent.policies.builtin.sizes import Real


@lowers("aten.scaled_dot_product_attention.default")
def attention(
    call: Call, q: Value, k: Value, v: Value, mask: Value | None = None, dropout: float = 0.0,
    causal: bool = False, scale: float | Real | None = None, **unused: Any,
) -> Value:  # fmt: skip
    if dropout or unused.get("enable_gqa"):
        raise call.refuse("with dropout or grouped heads")
    if causal or (mask is not None and mask.dtype == "bool"):
        raise call.refuse("with a causal or boolean mask")
    scores = matrix_product(q, k, wide(call.dtype), transposed=True)
    width = q.shape[-1]
    if scale is None and width.literal:
        scale = 1 / math.sqrt(width.own)
    if scale is None:
        scaled: Value = apply(scores.shape, scores.dtype, (scores, width), _over_root)
    else:
        scaled = apply(scores.shape, scores.dtype, (scores, scale), lambda t, x, s: f"{x} * {s}")
    if mask is not None:
        scaled = add(scaled, mask, scaled.dtype)
    inner = Call(call.op, (Output(scaled.shape, scaled.dtype),), call.module)
    return matrix_product(softmax(inner, scaled, -1), v, call.dtype)


def _over_root(t: Any, x: str, n: str) -> str:
    return f"{x} / {t.sqrt(n)}"
