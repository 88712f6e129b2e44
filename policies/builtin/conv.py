"""Convolutions of one to three dims, plain and transposed, with groups.

A dense one is a matrix product of the weights and all windows, which are read where they lie in the
input. Grouped and transposed ones take a thread for each result.
"""

from typing import Any

from musaagent.policies.builtin.body import Body, Scalar
from musaagent.policies.builtin.dialect import accumulate_type, register_type
from musaagent.policies.builtin.index import Index, coordinates, variable
from musaagent.policies.builtin.ir import Custom, Pointwise, Value, base
from musaagent.policies.builtin.kernel import Epilogue, Launch, Program
from musaagent.policies.builtin.lowering import Call, lowers
from musaagent.policies.builtin.matmul import Contraction, smaller_tiles, tilings
from musaagent.policies.builtin.pointwise import add
from musaagent.policies.builtin.schedule import Schedule, shrinks, tunes
from musaagent.policies.builtin.sizes import ONE, ZERO, Num, Shape, num, product
from musaagent.policies.builtin.views import between, reshape_to
from musaagent.policies.builtin.windows import (
    Sizes,
    Window,
    element_loop,
    gathered,
    spread,
    window_loops,
)

_DEEP = 16
"""From so many products in each sum on, tiles in shared memory pay."""


class Convolution(Custom):
    """x[n, c, ...] with weight[o, c / groups, ...] ([c, o / groups, ...] when transposed)."""

    def __init__(
        self, call: Call, x: Value, weight: Value, window: Window, groups: Num, transposed: bool
    ) -> None:
        batch, spatial = x.shape[0], call.shape[-window.rank :]
        outputs = weight.shape[1] * groups if transposed else weight.shape[0]
        super().__init__((batch, outputs, *spatial), call.dtype, (x, weight))
        self.window, self.groups, self.transposed = window, groups, transposed

    def emit(self, program: Program, out: Epilogue, schedule: Schedule) -> None:
        kernel = program.kernel("convolution")
        body = Body(kernel)
        ctype = "double" if schedule.precise else accumulate_type(self.sources[0].dtype)
        element_loop(body, self.numel, lambda e: self._element(body, out, e, ctype))
        block = min(schedule.block, 256)
        launch = Launch((f"blocks_for({self.numel.host}, {block})",), (block,), work=self.numel)
        kind = "transposed convolution" if self.transposed else "convolution"
        program.add(kernel, body.scopes[0].lines, launch, f"{kind}, a thread for each result")

    def _element(self, body: Body, out: Epilogue, e: Index, ctype: str) -> None:
        x, weight = self.sources
        at = coordinates(e, self.shape)
        per_group = self.shape[1] // self.groups
        depth = x.shape[1] // self.groups
        group, own = at[1] // per_group, at[1] % per_group
        for d, place in enumerate(at[2:]):
            body.line(f"const index_t o{d} = {body.position(place)};")
        body.line(f"{ctype} acc = 0;")
        with body.inner() as channel:
            c = variable("c", depth, 2)
            inside = group * depth + c

            def multiply(k: tuple[Index, ...], p: tuple[Index, ...]) -> None:
                a = body.read(x, (at[0], inside, *p))
                first = (inside, own) if self.transposed else (at[1], c)
                b = body.read(weight, (*first, *k))
                body.line(f"acc += {ctype}({a.text}) * {ctype}({b.text});")

            window_loops(
                body, self.window, 3, lambda d: self._place(body, d), multiply, x.shape[2:]
            )
        body.block(f"for (index_t c = 0; c < {body.kernel.size(depth)}; ++c)", channel)
        out.store(body, at, Scalar("acc", ctype, 1))

    def _place(self, body: Body, d: int) -> list[str]:
        extent = self.sources[0].shape[2 + d]
        if not self.transposed:
            return gathered(body.kernel, d, f"o{d}", self.window, extent)
        size, w = body.kernel.size, self.window
        return [
            f"const index_t t{d} = o{d} + {size(w.padding[d])} - k{d} * {size(w.dilation[d])};",
            f"if (t{d} < 0 || t{d} % {size(w.stride[d])} != 0) continue;",
            f"const index_t p{d} = t{d} / {size(w.stride[d])};",
            f"if (p{d} >= {size(extent)}) continue;",
        ]


class TiledConvolution(Contraction):
    """weight[o, c, ...] times x[n, c, ...] at every window, as a matrix product in tiles."""

    note = "convolution as a matrix product"
    sidewise = (1,)

    def __init__(self, call: Call, x: Value, weight: Value, window: Window) -> None:
        rank = window.rank
        kernel, spatial = "ijk"[:rank], "xyz"[:rank]
        windows = _windows(x, window, call.shape[-rank:])
        labels = ("oc" + kernel, "bc" + kernel + spatial, "bo" + spatial)
        super().__init__(weight, labels[0], windows, labels[1], labels[2], call.dtype)
        self.buffered = (base(weight), base(x))

    def buffers(self) -> tuple[Value, ...]:
        return self.buffered


tunes("TiledConvolution")(tilings)
shrinks("TiledConvolution")(smaller_tiles)


def _windows(x: Value, window: Window, made: Shape) -> Value:
    """x[n, c, place] for every kernel element and every result: [n, c, *kernel, *made]."""
    rank, extents, ctype = window.rank, x.shape[2:], register_type(x.dtype)
    reach = [
        (n - 1) * s + (k - 1) * d
        for n, s, k, d in zip(made, window.stride, window.kernel, window.dilation, strict=True)
    ]
    edges = [d for d in range(rank) if window.padding[d] != ZERO or not reach[d] < extents[d]]

    def element(body: Body, at: tuple[Index, ...]) -> Scalar:
        places = [
            at[2 + rank + d] * window.stride[d] + at[2 + d] * window.dilation[d] - window.padding[d]
            for d in range(rank)
        ]
        source = (*at[:2], *places)
        if not edges:
            return body.read(x, source)
        tests = [between(body, places[d], ZERO, extents[d]) for d in edges]
        inside = body.let(" && ".join(t.text for t in tests), "bool", *tests)
        with body.guard(inside):
            v = body.read(x, source)
        zero = body.constant(0, ctype)
        return body.let(f"{inside.text} ? {v.text} : {zero.text}", ctype, inside, v)

    return Pointwise((*x.shape[:2], *window.kernel, *made), x.dtype, (x,), element)


def _convolved(
    call: Call, x: Value, weight: Value, bias: Value | None, window: Window, groups: int | Num,
    transposed: bool,
) -> Value:  # fmt: skip
    """Batched or not, with the bias added."""
    if x.dtype != weight.dtype:
        raise call.refuse("with a weight of another dtype")
    lone = x.rank == window.rank + 1
    if lone:
        x = reshape_to(x, (ONE, *x.shape))
    made: Value
    if _is_pointwise(window) and num(groups) == ONE and not transposed:
        made = _pointwise(call, x, weight)
    elif num(groups) == ONE and not transposed and num(_DEEP) <= product(weight.shape[1:]):
        made = TiledConvolution(call, x, weight, window)
    else:
        made = Convolution(call, x, weight, window, num(groups), transposed)
    if bias is not None:
        made = add(made, reshape_to(bias, (*bias.shape, *(ONE,) * window.rank)), call.dtype)
    return reshape_to(made, call.shape) if lone else made


def _is_pointwise(window: Window) -> bool:
    ones = all(n == ONE for n in (*window.kernel, *window.stride))
    return ones and all(n == ZERO for n in window.padding)


def _pointwise(call: Call, x: Value, weight: Value) -> Value:
    """A 1x1 convolution is a matrix product over the channels."""
    spatial = "xyz"[: x.rank - 2]
    matrix = reshape_to(weight, weight.shape[:2])
    return Contraction(matrix, "oc", x, "bc" + spatial, "bo" + spatial, call.dtype)


def _window(weight: Value, stride: Sizes, padding: Sizes, dilation: Sizes) -> Window:
    rank = weight.rank - 2
    kernel = weight.shape[2:]
    return Window(kernel, spread(stride, rank), spread(padding, rank), spread(dilation, rank))


@lowers("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default")
def conv(
    call: Call, x: Value, weight: Value, bias: Value | None = None, stride: Sizes = 1,
    padding: Sizes = 0, dilation: Sizes = 1, groups: int | Num = 1,
) -> Value:  # fmt: skip
    window = _window(weight, stride, padding, dilation)
    return _convolved(call, x, weight, bias, window, groups, False)


@lowers("aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding")
def conv_named(
    call: Call, x: Value, weight: Value, bias: Value | None = None, stride: Sizes = 1,
    padding: str = "valid", dilation: Sizes = 1, groups: int | Num = 1,
) -> Value:  # fmt: skip
    """`same` pads an odd total more on the right; the traced shape takes care of that."""
    window = _window(weight, stride, 0, dilation)
    if padding == "same":
        left = tuple((k - 1) * d // 2 for k, d in zip(window.kernel, window.dilation, strict=True))
        window = Window(window.kernel, window.stride, left, window.dilation)
    return _convolved(call, x, weight, bias, window, groups, False)


@lowers("aten.conv_transpose1d.default", "aten.conv_transpose2d.input",
        "aten.conv_transpose3d.input")  # fmt: skip
def conv_transpose(
    call: Call, x: Value, weight: Value, bias: Value | None = None, stride: Sizes = 1,
    padding: Sizes = 0, output_padding: Sizes = 0, groups: int | Num = 1, dilation: Sizes = 1,
) -> Value:  # fmt: skip
    window = _window(weight, stride, padding, dilation)
    return _convolved(call, x, weight, bias, window, groups, True)


@lowers("aten.convolution.default")
def convolution(
    call: Call, x: Value, weight: Value, bias: Value | None, stride: Sizes, padding: Sizes,
    dilation: Sizes, transposed: bool, output_padding: Sizes, groups: int | Num, *unused: Any,
) -> Value:  # fmt: skip
    window = _window(weight, stride, padding, dilation)
    return _convolved(call, x, weight, bias, window, groups, transposed)
