"""Padding, masks, and elements that other tensors choose."""

from collections.abc import Sequence
from typing import Any

from musaagent.policies.builtin.body import Body, Coordinates, Scalar
from musaagent.policies.builtin.dialect import register_type
from musaagent.policies.builtin.index import Index
from musaagent.policies.builtin.ir import Pointwise, Value
from musaagent.policies.builtin.lowering import Call, lowers
from musaagent.policies.builtin.pointwise import narrowed
from musaagent.policies.builtin.sizes import ZERO, Num, num
from musaagent.policies.builtin.views import (
    Size,
    between,
    diagonal,
    moved,
    with_dim,
    wrapped,
)

# --- masks and padding -------------------------------------------------------------------------


@lowers("aten.constant_pad_nd.default")
def constant_pad(call: Call, x: Value, pad: Sequence[Size], value: float = 0) -> Value:
    before = {x.rank - 1 - k: num(pad[2 * k]) for k in range(len(pad) // 2)}
    ctype = register_type(call.dtype)

    def element(body: Body, at: Coordinates) -> Scalar:
        source = tuple(i - before[d] if d in before else i for d, i in enumerate(at))
        tests = [between(body, source[d], ZERO, x.shape[d]) for d in before]
        inside = body.let(" && ".join(t.text for t in tests), "bool", *tests)
        with body.guard(inside):
            v = body.read(x, source)
        fill = body.constant(value, ctype)
        return body.let(f"{inside.text} ? {v.text} : {fill.text}", ctype, inside, v)

    return Pointwise(call.shape, call.dtype, (x,), element)


@lowers("aten.pad.default")
def pad_default(
    call: Call, x: Value, pad: Sequence[Size], mode: str = "constant", value: float | None = None
) -> Value:
    if mode == "constant":
        return constant_pad(call, x, pad, value or 0)
    before = {x.rank - 1 - k: num(pad[2 * k]) for k in range(len(pad) // 2)}

    def element(body: Body, at: Coordinates) -> Scalar:
        source = [
            _folded(body, mode, i - before[d], x.shape[d]) if d in before else i
            for d, i in enumerate(at)
        ]
        return body.read(x, source)

    return Pointwise(call.shape, call.dtype, (x,), element)


def _folded(body: Body, mode: str, i: Index, extent: Num) -> Index:
    """Where padding looks for an element outside [0, extent)."""
    p, n = f"({body.position(i)})", body.kernel.size(extent)
    forms = {
        "replicate": f"{p} < 0 ? 0 : {p} < {n} ? {p} : {n} - 1",
        "reflect": f"{p} < 0 ? -{p} : {p} < {n} ? {p} : 2 * ({n} - 1) - {p}",
        "circular": f"{p} < 0 ? {p} + {n} : {p} < {n} ? {p} : {p} - {n}",
    }
    return body.index_of(forms[mode], extent, i)


@lowers("aten.triu.default")
def triu(call: Call, x: Value, offset: int = 0) -> Value:
    return _triangle(x, f">= {offset}")


@lowers("aten.tril.default")
def tril(call: Call, x: Value, offset: int = 0) -> Value:
    return _triangle(x, f"<= {offset}")


def _triangle(x: Value, test: str) -> Value:
    ctype = register_type(x.dtype)

    def element(body: Body, at: Coordinates) -> Scalar:
        right = at[-1] - at[-2]
        kept = body.let(f"{body.position(right)} {test}", "bool", right)
        with body.guard(kept):
            v = body.read(x, at)
        zero = body.constant(0, ctype)
        return body.let(f"{kept.text} ? {v.text} : {zero.text}", ctype, kept, v)

    return Pointwise(x.shape, x.dtype, (x,), element)


@lowers("aten.diag.default", "aten.diag_embed.default")
def diag(call: Call, x: Value, offset: int = 0, *dims: int) -> Value:
    if len(call.shape) < x.rank:
        return diagonal(call, x, offset)
    if offset or (dims and dims != (-2, -1)):
        raise call.refuse("off the main diagonal")
    wide = moved(x, call.shape, lambda at: at[:-1])

    def element(body: Body, at: Coordinates) -> Scalar:
        return _triangle(_triangle(wide, ">= 0"), "<= 0").compute(body, at)

    return Pointwise(call.shape, call.dtype, (wide,), element)


# --- elements chosen by other tensors ----------------------------------------------------------


def looked_up(body: Body, positions: Value, at: Coordinates, extent: Num) -> Index:
    """The index that an integer tensor holds, counted from the end where negative."""
    i = body.read(positions, at)
    return body.index_of(
        f"{i.text} < 0 ? {i.text} + {body.kernel.size(extent)} : {i.text}", extent, i
    )


@lowers("aten.gather.default")
def gather(call: Call, x: Value, dim: int, positions: Value, **unused: Any) -> Value:
    d = wrapped(dim, x.rank)

    def element(body: Body, at: Coordinates) -> Scalar:
        return body.read(x, with_dim(at, d, looked_up(body, positions, at, x.shape[d])))

    return Pointwise(call.shape, call.dtype, (x, positions), element)


@lowers("aten.index_select.default")
def index_select(call: Call, x: Value, dim: int, positions: Value) -> Value:
    d = wrapped(dim, x.rank)

    def element(body: Body, at: Coordinates) -> Scalar:
        where = narrowed((at[d],), positions.shape)
        return body.read(x, with_dim(at, d, looked_up(body, positions, where, x.shape[d])))

    return Pointwise(call.shape, call.dtype, (x, positions), element)


@lowers("aten.embedding.default")
def embedding(call: Call, weight: Value, positions: Value, *unused: Any) -> Value:
    def element(body: Body, at: Coordinates) -> Scalar:
        row = looked_up(body, positions, at[:-1], weight.shape[0])
        return body.read(weight, (row, at[-1]))

    return Pointwise(call.shape, call.dtype, (weight, positions), element)


@lowers("aten.index.Tensor")
def index_tensor(call: Call, x: Value, positions: Sequence[Value | None]) -> Value:
    """x[i, :, j]: integer tensors broadcast together, in place of the dims that they pick from."""
    chosen = {d: p for d, p in enumerate(positions) if p is not None}
    if any(p.dtype == "bool" for p in chosen.values()):
        raise call.refuse("by a mask")
    dims = sorted(chosen)
    together = dims == list(range(dims[0], dims[-1] + 1))
    first = dims[0] if together else 0
    rank = max(p.rank for p in chosen.values())

    def element(body: Body, at: Coordinates) -> Scalar:
        picked, others = at[first : first + rank], iter((*at[:first], *at[first + rank :]))
        source = [
            looked_up(body, chosen[d], narrowed(picked, chosen[d].shape), x.shape[d])
            if d in chosen
            else next(others)
            for d in range(x.rank)
        ]
        return body.read(x, source)

    return Pointwise(call.shape, call.dtype, (x, *chosen.values()), element)
