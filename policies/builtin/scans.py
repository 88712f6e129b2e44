"""Running sums, products, extremes and log-sums along a dim."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from musaagent.policies.builtin.body import Body, Scalar
from musaagent.policies.builtin.dialect import is_float, register_type
from musaagent.policies.builtin.index import Index, coordinates, variable
from musaagent.policies.builtin.ir import Custom, Value
from musaagent.policies.builtin.kernel import Epilogue, Launch, Program
from musaagent.policies.builtin.lowering import Call, lowers
from musaagent.policies.builtin.pointwise import Types, apply
from musaagent.policies.builtin.reducers import (
    ArgExtreme,
    ExpSum,
    Product,
    Reducer,
    Sum,
)
from musaagent.policies.builtin.reductions import delivered, wide
from musaagent.policies.builtin.schedule import Schedule
from musaagent.policies.builtin.sizes import product
from musaagent.policies.builtin.views import reshape_to, slice_, wrapped


@dataclass(frozen=True)
class LastExtreme(ArgExtreme):
    """(value, place) so far; of equals the last counts, as torch's cummax has it."""

    def start(self) -> tuple[str, ...]:
        return (super().start()[0], "-1")

    def _better(self, state: Sequence[str], other: Sequence[str]) -> list[str]:
        (a, i), (x, j) = state, other
        sign = ">=" if self.largest else "<="
        wins = f"{x} {sign} {a}"
        if is_float(self.source):
            wins = f"{x} != {x} || ({a} == {a} && {wins})"
        return [f"if ({j} >= 0 && ({i} < 0 || {wins})) {{ {a} = {x}; {i} = {j}; }}"]


@dataclass(frozen=True)
class LogSum(ExpSum):
    """log of the sum of exp so far."""

    def finish(self, state: Sequence[str]) -> tuple[str, ...]:
        t = Types(self.state[0])
        return (f"{state[0]} + {t.log(state[1])}",)


class Scanned(Custom):
    """Along dim, what the reducer has after each element."""

    def __init__(self, source: Value, dim: int, reducer: Reducer) -> None:
        super().__init__(source.shape, reducer.results[0], (source,))
        self.dim, self.reducer = dim, reducer
        for dtype in reducer.results[1:]:
            self.further(source.shape, dtype)

    def buffers(self) -> tuple[Value, ...]:
        return ()

    def emit(self, program: Program, out: Epilogue, schedule: Schedule) -> None:
        inside = product(self.shape[self.dim + 1 :])
        if inside.own >= 32 or self.shape[self.dim].own <= 32:
            self._by_thread(program, out, schedule)
        else:
            self._by_block(program, out, schedule)

    @property
    def _kept(self) -> tuple[Any, ...]:
        return (*self.shape[: self.dim], *self.shape[self.dim + 1 :])

    def _at(self, row: Index, place: Index) -> tuple[Index, ...]:
        kept = coordinates(row, self._kept)
        return (*kept[: self.dim], place, *kept[self.dim :])

    # --- one thread a row: rows that lie side by side, or short ones ----------------------------

    def _by_thread(self, program: Program, out: Epilogue, schedule: Schedule) -> None:
        kernel = program.kernel("scan")
        body = Body(kernel)
        rows, length = product(self._kept), self.shape[self.dim]
        o, r = variable("o", rows, 1), variable("r", length, 2)
        with body.inner() as row:
            state = self._declare(body, "acc")
            with body.inner() as step:
                self._take_in(body, state, o, r)
                self._put(body, out, state, o, r)
            body.block(f"for (index_t r = 0; r < {kernel.size(length)}; ++r)", step)
        step_text = "o += static_cast<index_t>(gridDim.x) * blockDim.x"
        first = "static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x"
        body.block(f"for (index_t o = {first}; o < {kernel.size(rows)}; {step_text})", row)
        block = min(schedule.block, 128)
        launch = Launch((f"blocks_for({rows.host}, {block})",), (block,), work=self.numel)
        program.add(kernel, body.scopes[0].lines, launch, f"scan, a thread for each of {rows.own}")

    # --- one block a row ------------------------------------------------------------------------

    def _by_block(self, program: Program, out: Epilogue, schedule: Schedule) -> None:
        kernel = program.kernel("scan")
        body = Body(kernel)
        rows, length = product(self._kept), self.shape[self.dim]
        items, threads = schedule.choice("scan.items", 4), 1
        while threads < schedule.block and threads * items < length.own:
            threads *= 2
        arrays = []
        for k, ctype in enumerate(self.reducer.state):
            arrays.append(f"shared{k}")
            body.line(f"__shared__ {ctype} shared{k}[{threads}];")
        body.line("const int lane = threadIdx.x;")
        with body.inner() as row:
            carry = self._declare(body, "carry")
            with body.inner() as tile:
                self._tile(body, out, carry, arrays, threads, items)
            head = f"base < {kernel.size(length)}; base += {threads * items}"
            body.block(f"for (index_t base = 0; {head})", tile)
        head = f"o < {kernel.size(rows)}; o += gridDim.x"
        body.block(f"for (index_t o = blockIdx.x; {head})", row)
        launch = Launch((f"blocks_for({rows.host}, 1)",), (threads,), work=self.numel)
        program.add(kernel, body.scopes[0].lines, launch, f"scan, a block for each of {rows.own}")

    def _tile(
        self, body: Body, out: Epilogue, carry: list[str], arrays: list[str], threads: int,
        items: int,
    ) -> None:  # fmt: skip
        """One stretch of the row: each thread scans its items, then the threads' sums meet."""
        reducer, n = self.reducer, body.kernel.size(self.shape[self.dim])
        o = variable("o", product(self._kept), 1)
        r = variable("r", self.shape[self.dim], 3)
        stored = variable("r", self.shape[self.dim], 4)  # known only inside its own test
        mine = self._declare(body, "mine")
        after = [f"after{k}" for k in range(len(mine))]
        for name, ctype in zip(after, reducer.state, strict=True):
            body.line(f"{ctype} {name}[{items}];")
        unrolled = f"#pragma unroll\nfor (int k = 0; k < {items}; ++k)"
        here = f"const index_t r = base + static_cast<index_t>(lane) * {items} + k;"
        with body.inner() as load:
            self._take_in(body, mine, o, r)
        keep = [f"{a}[k] = {m};" for a, m in zip(after, mine, strict=True)]
        for text in unrolled.split("\n"):
            body.line(text + (" {" if "for" in text else ""))
        body.line(f"  {here}")
        body.block(f"if (r < {n})", load)
        body.line("  " + " ".join(keep))
        body.line("}")
        self._meet(body, mine, arrays, threads)
        before = self._declare(body, "before", carry)
        previous = [f"{a}[lane - 1]" for a in arrays]
        body.line("if (lane > 0) {")
        self._merge_lines(body, before, previous)
        body.line("}")
        with body.inner() as store:
            body.line(here)
            with body.inner() as inside:
                running = self._declare(body, "running", before)
                self._merge_lines(body, running, [f"{a}[k]" for a in after])
                self._put(body, out, running, o, stored)
            body.block(f"if (r < {n})", inside)
        body.block(unrolled, store)
        self._merge_lines(body, carry, [f"{a}[{threads - 1}]" for a in arrays])
        body.line("__syncthreads();")

    def _meet(self, body: Body, mine: list[str], arrays: list[str], threads: int) -> None:
        """Inclusive scan of the threads' states, left in shared memory."""
        pairs = list(zip(arrays, mine, strict=True))
        put = " ".join(f"{a}[lane] = {m};" for a, m in pairs)
        body.line(put)
        body.line("__syncthreads();")
        body.line(f"for (int apart = 1; apart < {threads}; apart *= 2) {{")
        start = self.reducer.start()
        others = [f"left{k}" for k in range(len(mine))]
        for (array, _), name, ctype, none in zip(
            pairs, others, self.reducer.state, start, strict=True
        ):
            body.line(
                f"  {ctype} {name} = lane >= apart ? {array}[lane - apart] : {ctype}({none});"
            )
        body.line("  __syncthreads();")
        self._merge_lines(body, others, mine)
        pairs = list(zip(arrays, others, strict=True))
        body.line("  " + " ".join(f"{m} = {o};" for m, o in zip(mine, others, strict=True)))
        body.line(f"  {put}")
        body.line("  __syncthreads();")
        body.line("}")

    # --- pieces of text -------------------------------------------------------------------------

    def _declare(self, body: Body, name: str, values: Sequence[str] | None = None) -> list[str]:
        names = [body.kernel.fresh(name) for _ in self.reducer.state]
        start = self.reducer.start() if values is None else values
        for n, ctype, value in zip(names, self.reducer.state, start, strict=True):
            body.line(f"{ctype} {n} = {value};")
        return names

    def _merge_lines(self, body: Body, state: Sequence[str], other: Sequence[str]) -> None:
        body.line("{")
        for text in self.reducer.merge(state, other):
            body.line(f"  {text}")
        body.line("}")

    def _take_in(self, body: Body, state: Sequence[str], o: Index, r: Index) -> None:
        (ctype,) = self.reducer.element
        element = body.cast(body.read(self.sources[0], self._at(o, r)), ctype)
        for text in self.reducer.step(state, [element.text], "r"):
            body.line(text)

    def _put(self, body: Body, out: Epilogue, state: Sequence[str], o: Index, r: Index) -> None:
        results = []
        fields = self.reducer.finish(state)
        for text, dtype in zip(fields, self.reducer.results, strict=True):
            made = Scalar(body.kernel.fresh("result"), register_type(dtype), r.level)
            body.line(f"const {made.ctype} {made.text} = {text};")
            results.append(made)
        out.store(body, self._at(o, r), *results)


def _scan(call: Call, x: Value, dim: int, reducer: Reducer) -> Scanned:
    if x.rank == 0:
        return Scanned(reshape_to(x, (x.numel,)), 0, reducer)
    return Scanned(x, wrapped(dim, x.rank), reducer)


@lowers("aten.cumsum.default")
def cumsum(call: Call, x: Value, dim: int, **unused: Any) -> Value:
    return delivered(_scan(call, x, dim, Sum(x.dtype, (wide(call.dtype),))), call)


@lowers("aten.cumprod.default")
def cumprod(call: Call, x: Value, dim: int, **unused: Any) -> Value:
    return delivered(_scan(call, x, dim, Product(x.dtype, (wide(call.dtype),))), call)


@lowers("aten.logcumsumexp.default")
def logcumsumexp(call: Call, x: Value, dim: int) -> Value:
    return delivered(_scan(call, x, dim, LogSum(x.dtype, (wide(call.dtype),))), call)


def _extreme(call: Call, x: Value, dim: int, largest: bool) -> tuple[Value, Value]:
    made = _scan(call, x, dim, LastExtreme(x.dtype, (x.dtype, "int64"), largest))
    return delivered(made, call, 0), delivered(made.outputs[0], call, 1)


@lowers("aten.cummax.default")
def cummax(call: Call, x: Value, dim: int) -> tuple[Value, Value]:
    return _extreme(call, x, dim, True)


@lowers("aten.cummin.default")
def cummin(call: Call, x: Value, dim: int) -> tuple[Value, Value]:
    return _extreme(call, x, dim, False)


@lowers("aten.diff.default")
def diff(call: Call, x: Value, n: int = 1, dim: int = -1, *unused: Any) -> Value:
    if n != 1 or unused:
        raise call.refuse("of higher order")
    d = wrapped(dim, x.rank)

    def shifted(by: int) -> Value:
        return slice_(call, x, d, by)

    return apply(call.shape, call.dtype, (shifted(1), shifted(0)), lambda t, a, b: f"{a} - {b}")
