"""Pooling of one to three dims: maximum (with indices), average, and the adaptive forms."""

import itertools
from collections.abc import Sequence
from typing import Any

from musaagent.policies.builtin.body import Body, Scalar, literal
from musaagent.policies.builtin.dialect import accumulate_type, is_float, register_type
from musaagent.policies.builtin.index import Index, coordinates, linear
from musaagent.policies.builtin.ir import Custom, Value
from musaagent.policies.builtin.kernel import Epilogue, Launch, Program
from musaagent.policies.builtin.lowering import Call, lowers
from musaagent.policies.builtin.schedule import Schedule
from musaagent.policies.builtin.sizes import ONE, Num, num, product
from musaagent.policies.builtin.views import reshape_to
from musaagent.policies.builtin.windows import (
    Sizes,
    Window,
    element_loop,
    gathered,
    spread,
    window_loops,
)


class Pool(Custom):
    """A window over the last dims of x; all dims before them are one."""

    window: Window | None
    """None: adaptive, windows follow from the two extents."""

    def __init__(self, call: Call, x: Value, rank: int, window: Window | None) -> None:
        outer = x.rank - rank
        flat = reshape_to(x, (product(x.shape[:outer]), *x.shape[outer:]))
        super().__init__((flat.shape[0], *call.shape[outer:]), call.dtype, (flat,))
        self.window, self.spatial = window, rank

    def emit(self, program: Program, out: Epilogue, schedule: Schedule) -> None:
        kernel = program.kernel("pool")
        body = Body(kernel)
        element_loop(body, self.numel, lambda e: self._element(body, out, e))
        block = schedule.block
        launch = Launch((f"blocks_for({self.numel.host}, {block})",), (block,), work=self.numel)
        program.add(kernel, body.scopes[0].lines, launch, "pooling, a thread for each result")

    def _element(self, body: Body, out: Epilogue, e: Index) -> None:
        at = coordinates(e, self.shape)
        for d, place in enumerate(at[1:]):
            body.line(f"const index_t o{d} = {body.position(place)};")
        self.start(body)
        x = self.sources[0]

        def take(kernel: tuple[Index, ...], places: tuple[Index, ...]) -> None:
            self.take(body, body.read(x, (at[0], *places)), linear(places, x.shape[1:]))

        extents = x.shape[1:]
        window_loops(body, self._loops(), 2, lambda d: self._place(body, d), take, extents)
        out.store(body, at, *self.results(body))

    def _loops(self) -> Window:
        if self.window is not None:
            return self.window
        ones = (ONE,) * self.spatial
        # The widest that a window of an adaptive pool can be.
        shape = self.sources[0].shape[1:]
        pairs = zip(shape, self.shape[1:], strict=True)
        widest = tuple(i.ceil_div(o) + 1 for i, o in pairs)
        return Window(widest, ones, ones, ones)

    def _place(self, body: Body, d: int) -> list[str]:
        extent, size = self.sources[0].shape[1 + d], body.kernel.size
        if self.window is not None:
            return gathered(body.kernel, d, f"o{d}", self.window, extent)
        have, made = size(extent), size(self.shape[1 + d])
        return [
            f"const index_t p{d} = o{d} * {have} / {made} + k{d};",
            f"if (p{d} * {made} >= (o{d} + 1) * {have}) continue;",
        ]

    def start(self, body: Body) -> None:
        raise NotImplementedError

    def take(self, body: Body, value: Scalar, position: Index) -> None:
        raise NotImplementedError

    def results(self, body: Body) -> Sequence[Scalar]:
        raise NotImplementedError


class MaxPool(Pool):
    """The largest value, NaN above all, and where it lies first."""

    def start(self, body: Body) -> None:
        ctype = register_type(self.dtype)
        lowest = float("-inf") if is_float(self.dtype) else _least(self.dtype)
        body.line(f"{ctype} best = {literal(lowest, ctype)};")
        if self.outputs:
            body.line("int64_t first = -1;")

    def take(self, body: Body, value: Scalar, position: Index) -> None:
        v = value.text
        wins = f"{v} > best || {v} != {v}"
        if not self.outputs:
            body.line(f"if ({wins}) best = {v};")
            return
        text = body.position(position)
        body.line(f"if (first < 0 || {wins}) {{ best = {v}; first = {text}; }}")

    def results(self, body: Body) -> Sequence[Scalar]:
        found = [Scalar("best", register_type(self.dtype), 1)]
        return [*found, Scalar("first", "int64_t", 1)] if self.outputs else found


class AveragePool(Pool):
    """The sum over the window, divided by what the flags say."""

    def __init__(
        self, call: Call, x: Value, rank: int, window: Window | None, count_padding: bool = False,
        divisor: int | Num | None = None,
    ) -> None:  # fmt: skip
        super().__init__(call, x, rank, window)
        self.count_padding, self.divisor = count_padding, divisor

    def start(self, body: Body) -> None:
        body.line(f"{accumulate_type(self.dtype)} sum = 0;")
        body.line("index_t count = 0;")

    def take(self, body: Body, value: Scalar, position: Index) -> None:
        body.line(f"sum += {value.text}; ++count;")

    def results(self, body: Body) -> Sequence[Scalar]:
        ctype = accumulate_type(self.dtype)
        body.line(f"const {ctype} average = sum / static_cast<{ctype}>({self._divisor(body)});")
        return [Scalar("average", ctype, 1)]

    def _divisor(self, body: Body) -> str:
        size = body.kernel.size
        if self.divisor is not None:
            return size(num(self.divisor))
        if self.window is None or not self.count_padding:
            return "count"
        w, factors = self.window, []
        for d, extent in enumerate(self.sources[0].shape[1:]):
            # Padding counts, but not what a ceil_mode window has beyond it.
            start = f"(o{d} * {size(w.stride[d])} - {size(w.padding[d])})"
            end = f"{start} + {size(w.kernel[d])}"
            most = f"{size(extent)} + {size(w.padding[d])}"
            factors.append(f"(({end} < {most} ? {end} : {most}) - {start})")
        return " * ".join(factors)


def _least(dtype: str) -> int:
    bits = {"int64": 64, "int32": 32, "int16": 16, "int8": 8}.get(dtype)
    return -(2 ** (bits - 1)) if bits else 0


def _window(
    rank: int, kernel: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes
) -> Window:
    extents = spread(kernel, rank)
    empty = stride is None or (not isinstance(stride, (int, Num)) and len(stride) == 0)
    steps = extents if empty or stride is None else spread(stride, rank)
    return Window(extents, steps, spread(padding, rank), spread(dilation, rank))


def _rank(op: str) -> int:
    """The number before `d` in the op's name."""
    return next(int(c) for c, d in itertools.pairwise(op) if c.isdigit() and d == "d")


def _max(call: Call, x: Value, window: Window | None, indices: bool) -> Any:
    pool = MaxPool(call, x, _rank(call.op), window)
    if not indices:
        return reshape_to(pool, call.shape)
    where = pool.further(pool.shape, "int64")
    return reshape_to(pool, call.shape), reshape_to(where, call.shape)


@lowers("aten.max_pool1d.default", "aten.max_pool2d.default", "aten.max_pool3d.default")
def max_pool(
    call: Call, x: Value, kernel: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False,
) -> Value:  # fmt: skip
    window = _window(_rank(call.op), kernel, stride, padding, dilation)
    made: Value = _max(call, x, window, False)
    return made


@lowers("aten.max_pool1d_with_indices.default", "aten.max_pool2d_with_indices.default",
        "aten.max_pool3d_with_indices.default")  # fmt: skip
def max_pool_with_indices(
    call: Call, x: Value, kernel: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False,
) -> Any:  # fmt: skip
    window = _window(_rank(call.op), kernel, stride, padding, dilation)
    return _max(call, x, window, True)


@lowers("aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default")
def avg_pool(
    call: Call, x: Value, kernel: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor: int | None = None,
) -> Value:  # fmt: skip
    rank = _rank(call.op)
    window = _window(rank, kernel, stride, padding, 1)
    pool = AveragePool(call, x, rank, window, count_include_pad, divisor)
    return reshape_to(pool, call.shape)


@lowers("aten.adaptive_avg_pool1d.default", "aten.adaptive_avg_pool2d.default",
        "aten.adaptive_avg_pool3d.default")  # fmt: skip
def adaptive_avg_pool(call: Call, x: Value, *unused: Any) -> Value:
    return reshape_to(AveragePool(call, x, _rank(call.op), None), call.shape)


@lowers("aten.adaptive_max_pool1d.default", "aten.adaptive_max_pool2d.default",
        "aten.adaptive_max_pool3d.default")  # fmt: skip
def adaptive_max_pool(call: Call, x: Value, *unused: Any) -> Any:
    return _max(call, x, None, True)
