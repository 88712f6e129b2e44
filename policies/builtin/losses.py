"""Losses, said with elementwise values and reductions. Reduction codes: 0 none, 1 mean, 2 sum."""

from typing import Any

from musaagent.policies.builtin.body import Body, Coordinates, Scalar
from musaagent.policies.builtin.dialect import is_float
from musaagent.policies.builtin.ir import Pointwise, Value
from musaagent.policies.builtin.lowering import Call, lowers
from musaagent.policies.builtin.pointwise import (
    Code,
    add,
    apply,
    broadcast_shape,
    div,
    mul,
    sub,
)
from musaagent.policies.builtin.reductions import (
    average,
    delivered,
    exp_sum,
    log_of_sum,
    total,
    vector_norm,
    wide,
)
from musaagent.policies.builtin.sizes import Num


def _reduced(call: Call, loss: Value, reduction: int) -> Value:
    """The elementwise loss, its mean or its sum."""
    if reduction == 0:
        return delivered(loss, call)
    dims = tuple(range(loss.rank))
    join = average if reduction == 1 else total
    return delivered(join(loss, dims, False, call.dtype), call)


def _pairwise(call: Call, code: Code, *operands: Any, weight: int = 3) -> Value:
    shape = broadcast_shape(*(o.shape for o in operands if isinstance(o, Value)))
    return apply(shape, wide(call.dtype), operands, code, weight=weight)


@lowers("aten.mse_loss.default")
def mse_loss(call: Call, x: Value, y: Value, reduction: int = 1) -> Value:
    code: Code = lambda t, a, b: f"({a} - {b}) * ({a} - {b})"  # noqa: E731
    return _reduced(call, _pairwise(call, code, x, y), reduction)


@lowers("aten.l1_loss.default")
def l1_loss(call: Call, x: Value, y: Value, reduction: int = 1) -> Value:
    code: Code = lambda t, a, b: t.fabs(f"{a} - {b}")  # noqa: E731
    return _reduced(call, _pairwise(call, code, x, y), reduction)


@lowers("aten.smooth_l1_loss.default")
def smooth_l1_loss(call: Call, x: Value, y: Value, reduction: int = 1, beta: float = 1.0) -> Value:
    if beta == 0:
        return l1_loss(call, x, y, reduction)

    def code(t: Any, a: str, b: str) -> str:
        d = t.fabs(f"{a} - {b}")
        return f"{d} < {t(beta)} ? {t(0.5 / beta)} * {d} * {d} : {d} - {t(0.5 * beta)}"

    return _reduced(call, _pairwise(call, code, x, y), reduction)


@lowers("aten.huber_loss.default")
def huber_loss(call: Call, x: Value, y: Value, reduction: int = 1, delta: float = 1.0) -> Value:
    def code(t: Any, a: str, b: str) -> str:
        d = t.fabs(f"{a} - {b}")
        far = f"{t(delta)} * ({d} - {t(0.5 * delta)})"
        return f"{d} < {t(delta)} ? {t(0.5)} * {d} * {d} : {far}"

    return _reduced(call, _pairwise(call, code, x, y), reduction)


@lowers("aten.kl_div.default")
def kl_div(
    call: Call, x: Value, y: Value, reduction: int = 1, *, log_target: bool = False
) -> Value:
    def of_logs(t: Any, a: str, b: str) -> str:
        return f"{t.exp(b)} * ({b} - {a})"

    def of_plain(t: Any, a: str, b: str) -> str:
        return f"{b} == {t(0)} ? {t(0)} : {b} * ({t.log(b)} - {a})"

    code = of_logs if log_target else of_plain
    return _reduced(call, _pairwise(call, code, x, y, weight=10), reduction)


@lowers("aten.binary_cross_entropy.default")
def binary_cross_entropy(
    call: Call, x: Value, y: Value, weight: Value | None = None, reduction: int = 1
) -> Value:
    def code(t: Any, a: str, b: str) -> str:
        logs = (t.fmax(t.log(v), t(-100)) for v in (a, f"{t(1)} - {a}"))
        yes, no = logs
        return f"({b} - {t(1)}) * {no} - {b} * {yes}"

    loss = _pairwise(call, code, x, y, weight=20)
    return _reduced(call, _weighed(loss, weight), reduction)


@lowers("aten.binary_cross_entropy_with_logits.default")
def bce_with_logits(
    call: Call, x: Value, y: Value, weight: Value | None = None,
    pos_weight: Value | None = None, reduction: int = 1,
) -> Value:  # fmt: skip
    def code(t: Any, a: str, b: str, *pos: str) -> str:
        scale = f"({t(1)} + ({pos[0]} - {t(1)}) * {b})" if pos else t(1)
        log = t.log1p(t.exp(f"-{t.fabs(a)}"))
        return f"({t(1)} - {b}) * {a} + {scale} * ({log} + {t.fmax('-' + a, t(0))})"

    operands = (x, y) if pos_weight is None else (x, y, pos_weight)
    loss = _pairwise(call, code, *operands, weight=20)
    return _reduced(call, _weighed(loss, weight), reduction)


def _weighed(loss: Value, weight: Value | None) -> Value:
    return loss if weight is None else mul(loss, weight, loss.dtype)


@lowers("aten.soft_margin_loss.default")
def soft_margin_loss(call: Call, x: Value, y: Value, reduction: int = 1) -> Value:
    code: Code = lambda t, a, b: t.log1p(t.exp(f"-{b} * {a}"))  # noqa: E731
    return _reduced(call, _pairwise(call, code, x, y, weight=20), reduction)


@lowers("aten.hinge_embedding_loss.default")
def hinge_embedding_loss(
    call: Call, x: Value, y: Value, margin: float = 1.0, reduction: int = 1
) -> Value:
    def code(t: Any, a: str, b: str) -> str:
        apart = t.fmax(f"{t(margin)} - {a}", t(0))
        return f"({b} == {t(1)} ? {t(0)} : {apart}) + ({b} == {t(-1)} ? {t(0)} : {a})"

    return _reduced(call, _pairwise(call, code, x, y), reduction)


@lowers("aten.margin_ranking_loss.default")
def margin_ranking_loss(
    call: Call, x: Value, y: Value, target: Value, margin: float = 0.0, reduction: int = 1
) -> Value:
    code: Code = lambda t, a, b, s: t.fmax(f"-{s} * ({a} - {b}) + {t(margin)}", t(0))  # noqa: E731
    return _reduced(call, _pairwise(call, code, x, y, target), reduction)


@lowers("aten.poisson_nll_loss.default")
def poisson_nll_loss(
    call: Call, x: Value, y: Value, log_input: bool, full: bool, eps: float, reduction: int
) -> Value:
    if full:
        raise call.refuse("with the Stirling term")

    def code(t: Any, a: str, b: str) -> str:
        if log_input:
            return f"{t.exp(a)} - {b} * {a}"
        return f"{a} - {b} * {t.log(f'{a} + {t(eps)}')}"

    return _reduced(call, _pairwise(call, code, x, y, weight=10), reduction)


# --- distances ---------------------------------------------------------------------------------


def distance(x: Value, y: Value, p: float, eps: float, keepdim: bool, dtype: str) -> Value:
    """||x - y + eps|| over the last dim."""
    apart = add(sub(x, y, wide(dtype)), eps, wide(dtype))
    return vector_norm(apart, p, (apart.rank - 1,), keepdim)


@lowers("aten.pairwise_distance.default")
def pairwise_distance(
    call: Call, x: Value, y: Value, p: float = 2, eps: float = 1e-6, keepdim: bool = False
) -> Value:
    return delivered(distance(x, y, p, eps, keepdim, call.dtype), call)


@lowers("aten.triplet_margin_loss.default")
def triplet_margin_loss(
    call: Call, anchor: Value, positive: Value, negative: Value, margin: float = 1.0,
    p: float = 2, eps: float = 1e-6, swap: bool = False, reduction: int = 1,
) -> Value:  # fmt: skip
    near = distance(anchor, positive, p, eps, False, call.dtype)
    far = distance(anchor, negative, p, eps, False, call.dtype)
    if swap:
        other = distance(positive, negative, p, eps, False, call.dtype)
        far = apply(far.shape, far.dtype, (far, other), lambda t, a, b: t.fmin(a, b))
    code: Code = lambda t, a, b: t.fmax(f"{t(margin)} + {a} - {b}", t(0))  # noqa: E731
    return _reduced(call, _pairwise(call, code, near, far), reduction)


@lowers("aten.cosine_embedding_loss.default")
def cosine_embedding_loss(
    call: Call, x: Value, y: Value, target: Value, margin: float = 0.0, reduction: int = 1
) -> Value:
    dtype, dims = wide(call.dtype), (x.rank - 1,)
    dot, xx, yy = (total(mul(a, b, dtype), dims, False, dtype) for a, b in ((x, y), (x, x), (y, y)))

    def code(t: Any, d: str, a: str, b: str, s: str) -> str:
        small = t(1e-12)
        cosine = f"{d} / {t.sqrt(f'({a} + {small}) * ({b} + {small})')}"
        same = f"({s} == {t(1)} ? {t(1)} - {cosine} : {t(0)})"
        return f"{same} + ({s} == {t(-1)} ? {t.fmax(f'{cosine} - {t(margin)}', t(0))} : {t(0)})"

    return _reduced(call, _pairwise(call, code, dot, xx, yy, target), reduction)


# --- classes -----------------------------------------------------------------------------------


@lowers("aten.cross_entropy_loss.default")
def cross_entropy(
    call: Call, x: Value, target: Value, weight: Value | None = None, reduction: int = 1,
    ignore_index: int = -100, label_smoothing: float = 0.0,
) -> Value:  # fmt: skip
    dim = 0 if x.rank == 1 else 1
    log_sum = log_of_sum(*exp_sum(x, (dim,), True))
    log_p = sub(x, log_sum, log_sum.dtype)
    if is_float(target.dtype):
        return _of_probabilities(call, log_p, target, weight, reduction, label_smoothing)
    if label_smoothing == 0:
        return _of_classes(call, log_p, target, weight, reduction, ignore_index)
    return _smoothed(call, log_p, target, weight, reduction, ignore_index, label_smoothing)


@lowers("aten.nll_loss.default", "aten.nll_loss_nd.default", "aten.nll_loss2d.default")
def nll_loss(
    call: Call, x: Value, target: Value, weight: Value | None = None, reduction: int = 1,
    ignore_index: int = -100,
) -> Value:  # fmt: skip
    return _of_classes(call, x, target, weight, reduction, ignore_index)


def _class_weight(x: Value, target: Value, weight: Value | None, ignored: int) -> Value:
    """What each target counts: its class's weight, and 0 where it is to be ignored."""
    dtype = wide(x.dtype)
    counts: Code = lambda t, k: f"{k} != {t(ignored)}"  # noqa: E731
    kept = apply(target.shape, "bool", (target,), counts, compute="int64")
    if weight is None:
        return apply(target.shape, dtype, (kept,), lambda t, k: k)

    def element(body: Body, at: Coordinates) -> Scalar:
        there = body.read(kept, at)
        w = body.cast(body.read(weight, (_class(body, target, at, x, there),)), "float")
        return body.let(f"{there.text} ? {w.text} : 0.0f", "float", there, w)

    return Pointwise(target.shape, "float32", (target, weight, kept), element)


def _class(body: Body, target: Value, at: Coordinates, x: Value, there: Scalar) -> Any:
    """The target class, 0 where it is ignored, so that it is always a valid place."""
    dim = 0 if x.rank == 1 else 1
    k = body.read(target, at)
    safe = body.let(f"{there.text} ? {k.text} : 0", k.ctype, there, k)
    return body.index_of(safe.text, x.shape[dim], safe)


def _picked(x: Value, target: Value, ignored: int) -> Value:
    """-x at the target class."""
    counts: Code = lambda t, k: f"{k} != {t(ignored)}"  # noqa: E731
    kept = apply(target.shape, "bool", (target,), counts, compute="int64")
    dim = 0 if x.rank == 1 else 1

    def element(body: Body, at: Coordinates) -> Scalar:
        k = _class(body, target, at, x, body.read(kept, at))
        v = body.read(x, (*at[:dim], k, *at[dim:]))
        return body.let(f"-{v.text}", v.ctype, v)

    return Pointwise(target.shape, wide(x.dtype), (x, target, kept), element)


def _of_classes(
    call: Call, log_p: Value, target: Value, weight: Value | None, reduction: int, ignored: int
) -> Value:
    counted = _class_weight(log_p, target, weight, ignored)
    loss = mul(_picked(log_p, target, ignored), counted, counted.dtype)
    return _shared_out(call, loss, counted, reduction)


def _shared_out(call: Call, loss: Value, counted: Value, reduction: int) -> Value:
    if reduction != 1:
        return _reduced(call, loss, reduction)
    dims = tuple(range(loss.rank))
    sums = [total(v, dims, False, loss.dtype) for v in (loss, counted)]
    return delivered(div(sums[0], sums[1], loss.dtype), call)


def _smoothed(
    call: Call, log_p: Value, target: Value, weight: Value | None, reduction: int, ignored: int,
    smoothing: float,
) -> Value:  # fmt: skip
    counted = _class_weight(log_p, target, weight, ignored)
    sharp = mul(_picked(log_p, target, ignored), counted, counted.dtype)
    even = _even(log_p, weight)
    there: Code = lambda t, k: f"{k} != {t(ignored)} ? {t(1)} : {t(0)}"  # noqa: E731
    kept = apply(target.shape, "int64", (target,), there)
    classes = log_p.shape[0 if log_p.rank == 1 else 1]

    def code(t: Any, a: str, b: str, k: str, n: str) -> str:
        return f"{t(1 - smoothing)} * {a} + {t(smoothing)} * {k} * {b} / {n}"

    loss = apply(sharp.shape, sharp.dtype, (sharp, even, kept, classes), code)
    return _shared_out(call, loss, counted, reduction)


def _even(log_p: Value, weight: Value | None) -> Value:
    """-sum over classes of weight * log_p."""
    weighed = _over_classes(log_p, weight)
    dim = 0 if log_p.rank == 1 else 1
    return total(weighed, (dim,), False, log_p.dtype)


def _over_classes(log_p: Value, weight: Value | None) -> Value:
    dim = 0 if log_p.rank == 1 else 1

    def element(body: Body, at: Coordinates) -> Scalar:
        v = body.read(log_p, at)
        if weight is None:
            return body.let(f"-{v.text}", v.ctype, v)
        w = body.cast(body.read(weight, (at[dim],)), v.ctype)
        return body.let(f"-{v.text} * {w.text}", v.ctype, v, w)

    sources = [log_p] if weight is None else [log_p, weight]
    return Pointwise(log_p.shape, log_p.dtype, sources, element)


def _of_probabilities(
    call: Call, log_p: Value, target: Value, weight: Value | None, reduction: int,
    smoothing: float,
) -> Value:  # fmt: skip
    dim = 0 if log_p.rank == 1 else 1
    classes: Num = log_p.shape[dim]
    code: Code = lambda t, p, n: f"{p} * {t(1 - smoothing)} + {t(smoothing)} / {n}"  # noqa: E731
    soft = apply(target.shape, wide(target.dtype), (target, classes), code)
    terms = mul(_over_classes(log_p, weight), soft if smoothing else target, log_p.dtype)
    loss = total(terms, (dim,), False, log_p.dtype)
    return _reduced(call, loss, reduction)
