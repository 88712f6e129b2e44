"""Ops that only move elements, as maps from result coordinates to source coordinates."""

from collections.abc import Callable, Sequence
from typing import Any

from musaagent.policies.builtin.body import Body, Coordinates, Scalar, reshaped
from musaagent.policies.builtin.dialect import register_type
from musaagent.policies.builtin.index import Index, index
from musaagent.policies.builtin.ir import Pointwise, Value
from musaagent.policies.builtin.lowering import Call, lowers
from musaagent.policies.builtin.pointwise import apply, narrowed
from musaagent.policies.builtin.sizes import ONE, ZERO, Num, Shape, num

Size = int | Num


def moved(
    x: Value, shape: Sequence[Num], source: Callable[[Coordinates], Sequence[Index]]
) -> Pointwise:
    """A view: its element at `at` is x's at source(at)."""
    return Pointwise(
        shape, x.dtype, (x,), lambda body, at: body.read(x, tuple(source(at))), view=True
    )


def wrapped(dim: int, rank: int) -> int:
    """A dim counted from the end, made non-negative."""
    return dim + rank if dim < 0 else dim


def reshape_to(x: Value, shape: Shape) -> Value:
    if x.shape == shape:
        return x
    return moved(x, shape, lambda at: reshaped(at, shape, x.shape))


def with_dim(at: Coordinates, dim: int, i: Index) -> Coordinates:
    return (*at[:dim], i, *at[dim + 1 :])


def keep_dims(x: Value, dims: Sequence[int]) -> Value:
    """Put dims of size 1 back where a reduction took them out."""
    shape = list(x.shape)
    for d in sorted(dims):
        shape.insert(d, ONE)
    return reshape_to(x, tuple(shape))


@lowers("aten.view.default", "aten.reshape.default", "aten._unsafe_view.default",
        "aten.flatten.using_ints", "aten.unflatten.int", "aten.squeeze.default",
        "aten.squeeze.dim", "aten.squeeze.dims", "aten.unsqueeze.default", "aten.ravel.default",
        "aten.view_as.default", "aten.reshape_as.default", "aten.atleast_1d.default",
        "aten.atleast_2d.default")  # fmt: skip
def reshape(call: Call, x: Value, *unused: Any) -> Value:
    return reshape_to(x, call.shape)


@lowers("aten.contiguous.default", "aten.detach.default", "aten.alias.default",
        "aten.lift_fresh.default", "aten.lift_fresh_copy.default")  # fmt: skip
def same(call: Call, x: Value, **unused: Any) -> Value:
    return x


@lowers("aten.clone.default")
def clone(call: Call, x: Value, **unused: Any) -> Value:
    return Pointwise(x.shape, x.dtype, (x,), lambda body, at: body.read(x, at))


@lowers("aten.copy.default")
def copy(call: Call, x: Value, source: Value, *unused: Any) -> Value:
    return apply(x.shape, x.dtype, (source,), lambda t, a: a)


@lowers("aten.permute.default")
def permute(call: Call, x: Value, dims: Sequence[int]) -> Value:
    order = [wrapped(d, x.rank) for d in dims]
    back = [order.index(d) for d in range(x.rank)]
    return moved(x, [x.shape[d] for d in order], lambda at: [at[k] for k in back])


@lowers("aten.transpose.int", "aten.swapaxes.default", "aten.swapdims.default")
def transpose(call: Call, x: Value, a: int, b: int) -> Value:
    order = list(range(x.rank))
    if order:
        a, b = wrapped(a, x.rank), wrapped(b, x.rank)
        order[a], order[b] = order[b], order[a]
    return permute(call, x, order)


@lowers("aten.t.default", "aten.numpy_T.default")
def reverse_dims(call: Call, x: Value) -> Value:
    return permute(call, x, list(reversed(range(x.rank))))


@lowers("aten.mT.default", "aten.matrix_H.default", "aten.adjoint.default", "aten.mH.default")
def matrix_transpose(call: Call, x: Value) -> Value:
    return transpose(call, x, -2, -1)


@lowers("aten.movedim.int", "aten.movedim.intlist", "aten.moveaxis.int", "aten.moveaxis.intlist")
def movedim(call: Call, x: Value, source: Any, target: Any) -> Value:
    sources = [source] if isinstance(source, int) else list(source)
    targets = [target] if isinstance(target, int) else list(target)
    pairs = sorted(
        (wrapped(t, x.rank), wrapped(s, x.rank)) for s, t in zip(sources, targets, strict=True)
    )
    order = [d for d in range(x.rank) if d not in [s for _, s in pairs]]
    for t, s in pairs:
        order.insert(t, s)
    return permute(call, x, order)


@lowers("aten.expand.default", "aten.broadcast_to.default", "aten.expand_as.default")
def expand(call: Call, x: Value, *unused: Any, **also_unused: Any) -> Value:
    return moved(x, call.shape, lambda at: narrowed(at, x.shape))


@lowers("aten.broadcast_tensors.default")
def broadcast_tensors(call: Call, tensors: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(expand(part(call, k), x) for k, x in enumerate(tensors))


def part(call: Call, k: int) -> Call:
    return Call(call.op, (call.outputs[k],), call.module)


@lowers("aten.select.int")
def select(call: Call, x: Value, dim: int, position: Size) -> Value:
    d = wrapped(dim, x.rank)
    i = index(_from_end(position, x.shape[d]))
    return moved(x, call.shape, lambda at: (*at[:d], i, *at[d:]))


def _from_end(position: Size, extent: Num) -> Num:
    p = num(position)
    return p + extent if p.own < 0 else p


@lowers("aten.slice.Tensor")
def slice_(
    call: Call, x: Value, dim: int = 0, start: Size | None = None, end: Any = None, step: int = 1
) -> Value:
    d = wrapped(dim, x.rank)
    first = ZERO if start is None else _from_end(start, x.shape[d])
    first = x.shape[d] if x.shape[d] < first else ZERO if first < ZERO else first
    return moved(x, call.shape, lambda at: with_dim(at, d, at[d] * step + first))


@lowers("aten.narrow.default")
def narrow(call: Call, x: Value, dim: int, start: Size, length: Size) -> Value:
    return slice_(call, x, dim, start)


@lowers("aten.flip.default")
def flip(call: Call, x: Value, dims: Sequence[int]) -> Value:
    flipped = {wrapped(d, x.rank) for d in dims}

    def source(at: Coordinates) -> list[Index]:
        return [
            index(n - 1) - i if d in flipped else i
            for d, (i, n) in enumerate(zip(at, x.shape, strict=True))
        ]

    return moved(x, x.shape, source)


@lowers("aten.roll.default")
def roll(call: Call, x: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    if not dims:
        raise call.refuse("without dims")
    back = {}
    for shift, dim in zip(shifts, dims, strict=True):
        d = wrapped(dim, x.rank)
        n, step = x.shape[d], num(shift)
        if not (n.literal or abs(step.own) < min(n.values)):
            raise call.refuse("a shift longer than the dim")
        back[d] = num(-step.own % n.own) if n.literal else (n - step if shift > 0 else -step)

    def source(at: Coordinates) -> list[Index]:
        return [(i + back[d]) % x.shape[d] if d in back else i for d, i in enumerate(at)]

    return moved(x, x.shape, source)


@lowers("aten.repeat.default", "aten.tile.default")
def repeat(call: Call, x: Value, repeats: Any) -> Value:
    def source(at: Coordinates) -> list[Index]:
        tail = at[len(at) - x.rank :]
        return [i % n for i, n in zip(tail, x.shape, strict=True)]

    return moved(x, call.shape, source)


@lowers("aten.repeat_interleave.self_int")
def repeat_interleave(call: Call, x: Value, count: Size, dim: int | None = None, **_: Any) -> Value:
    if dim is None:
        x, dim = reshape_to(x, (x.numel,)), 0
    d = wrapped(dim, x.rank)
    return moved(x, call.shape, lambda at: with_dim(at, d, at[d] // num(count)))


@lowers("aten.unfold.default")
def unfold(call: Call, x: Value, dim: int, size: Size, step: Size) -> Value:
    d = wrapped(dim, x.rank)
    return moved(
        x, call.shape, lambda at: with_dim(at[:-1], d, at[d] * num(step) + at[-1])
    )  # fmt: skip


@lowers("aten.diagonal.default")
def diagonal(call: Call, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    a, b = wrapped(dim1, x.rank), wrapped(dim2, x.rank)

    def source(at: Coordinates) -> list[Index]:
        others = iter(at[:-1])
        down, right = at[-1] + max(-offset, 0), at[-1] + max(offset, 0)
        return [down if d == a else right if d == b else next(others) for d in range(x.rank)]

    return moved(x, call.shape, source)


@lowers("aten.pixel_shuffle.default")
def pixel_shuffle(call: Call, x: Value, r: int) -> Value:
    def source(at: Coordinates) -> list[Index]:
        *lead, c, h, w = at
        return [*lead, c * (r * r) + (h % r) * r + w % r, h // r, w // r]

    return moved(x, call.shape, source)


# --- several pieces ----------------------------------------------------------------------------


def pieces(call: Call, x: Value, dim: int) -> tuple[Value, ...]:
    """The parts of x along dim, as long as the traced outputs say."""
    d, start, parts = wrapped(dim, x.rank), ZERO, []
    for k, out in enumerate(call.outputs):
        parts.append(slice_(part(call, k), x, d, start))
        start = start + out.shape[d]
    return tuple(parts)


@lowers("aten.split.Tensor", "aten.split.sizes", "aten.split_with_sizes.default",
        "aten.chunk.default", "aten.tensor_split.sections", "aten.unsafe_chunk.default",
        "aten.unsafe_split.Tensor")  # fmt: skip
def split(call: Call, x: Value, sizes: Any, dim: int = 0) -> tuple[Value, ...]:
    return pieces(call, x, dim)


@lowers("aten.unbind.int")
def unbind(call: Call, x: Value, dim: int = 0) -> tuple[Value, ...]:
    return tuple(select(part(call, k), x, dim, k) for k in range(len(call.outputs)))


@lowers("aten.glu.default")
def glu(call: Call, x: Value, dim: int = -1) -> Value:
    d = wrapped(dim, x.rank)
    halves = Call(call.op, (call.outputs[0], call.outputs[0]), call.module)
    a, b = pieces(halves, x, d)
    return apply(
        call.shape, call.dtype, (a, b), lambda t, p, q: f"{p} / ({t(1)} + {t.exp('-' + q)})",
        weight=10,
    )  # fmt: skip


@lowers("aten.cat.default", "aten.concat.default", "aten.concatenate.default")
def cat(call: Call, tensors: Sequence[Value], dim: int = 0) -> Value:
    parts = [x for x in tensors if not (x.rank == 1 and x.numel == ZERO)]
    d = wrapped(dim, len(call.shape))
    ctype = register_type(call.dtype)

    def element(body: Body, at: Coordinates) -> Scalar:
        start, chosen = ZERO, body.constant(0, ctype)
        for x in parts:
            inside = between(body, at[d], start, start + x.shape[d])
            with body.guard(inside):
                value = body.cast(body.read(x, with_dim(at, d, at[d] - start)), ctype)
            text = f"{inside.text} ? {value.text} : {chosen.text}"
            chosen = body.let(text, ctype, inside, value, chosen)
            start = start + x.shape[d]
        return chosen

    return Pointwise(call.shape, call.dtype, parts, element)


@lowers("aten.stack.default")
def stack(call: Call, tensors: Sequence[Value], dim: int = 0) -> Value:
    d = wrapped(dim, len(call.shape))
    return cat(call, [keep_dims(x, [d]) for x in tensors], d)


def between(body: Body, i: Index, low: Num, high: Num) -> Scalar:
    text = body.position(i)
    tests = [f"{text} >= {body.kernel.size(low)}"] if i.least < low else []
    if not i.most < high:
        tests.append(f"{text} < {body.kernel.size(high)}")
    return body.let(" && ".join(tests) or "true", "bool", i)
