"""Kernels that reduce: a group of threads walks one row, and may use what it found at once.

A row is one element of the kept dims; its threads stride over the reduced dims. Reductions over the
same rows become phases of one kernel, written when they are first read, so that softmax or a
normalisation is one kernel. Partial states meet in a tree in shared memory, which knows no warps.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from musaagent.policies.builtin.body import Body, Coordinates, NeedsBuffer, Scalar
from musaagent.policies.builtin.dialect import register_type
from musaagent.policies.builtin.index import Index, coordinates, linear, variable
from musaagent.policies.builtin.ir import Leaf, Pointwise, Reduced, Reduction, Value
from musaagent.policies.builtin.kernel import Kernel, Launch, Program
from musaagent.policies.builtin.reducers import STATE_DTYPE, Merging, Reducer, at_accuracy
from musaagent.policies.builtin.schedule import Schedule
from musaagent.policies.builtin.sizes import ONE, Num, Refusal, num, product

_BLOCKS_WANTED = 1024
_FEW_BLOCKS = 128
_LEAST_PIECE = 1024
_MANY_ROWS = 2**18
"""With so many rows side by side, a thread to each row fills the device."""


def _power_of_two(at_least: int, most: int) -> int:
    n = 1
    while n < at_least and n < most:
        n *= 2
    return n


@dataclass(frozen=True)
class Layout:
    """How the threads of a block share rows. Thread t: lane t % lanes of slot t / lanes, or, where
    rows lie side by side in memory, slot t % slots and lane t / slots."""

    lanes: int
    """Threads on one row; a power of two."""
    slots: int
    """Rows of a block."""
    side_by_side: bool

    @property
    def threads(self) -> int:
        return self.lanes * self.slots


def layout_of(reduction: Reduction, schedule: Schedule) -> Layout:
    """Neighbouring threads on neighbouring elements, and no more threads than a row keeps busy."""
    wide = [d for d, n in enumerate(reduction.shape) if n != ONE]
    side_by_side = bool(wide) and wide[-1] not in reduction.dims
    length, rows = product(reduction.reduced).own, product(reduction.kept).own
    block = _power_of_two(schedule.block, 1024)
    if side_by_side:
        slots = block if rows >= _MANY_ROWS else _power_of_two(min(rows, 32), 32)
        lanes = _power_of_two(min(length, block // slots), block // slots)
    else:
        busy = max(length // 8, min(length // 2, 32), 1)
        lanes = _power_of_two(min(busy, block), block)
        slots = max(1, min(block // lanes, _power_of_two(rows, 1024)))
    return Layout(lanes, slots, side_by_side)


def pieces_of(reduction: Reduction, schedule: Schedule) -> int:
    """Into how many pieces each row is cut so that there are blocks enough; 1 for no cut."""
    layout = layout_of(reduction, schedule)
    blocks = -(-product(reduction.kept).own // layout.slots)
    length = product(reduction.reduced).own
    if not schedule.split or blocks == 0 or blocks >= _FEW_BLOCKS:
        return 1
    return max(1, min(-(-_BLOCKS_WANTED // blocks), length // _LEAST_PIECE))


class Rows(Body):
    """The body of a kernel over the rows of one reduction. Scope 1 is the row, 2 its elements."""

    def __init__(self, kernel: Kernel, root: Reduction, layout: Layout) -> None:
        super().__init__(kernel)
        self.layout = layout
        self.rows, self.length = product(root.kept), product(root.reduced)
        self.row = variable("o", self.rows, level=1)
        self.element = self._position(root)
        self.phases: list[Reduction] = []
        self._shared: dict[tuple[int, str], str] = {}
        self._walk = f"r = lane; r < {kernel.size(self.length)}; r += {layout.lanes}"

    def _position(self, root: Reduction) -> Index:
        """The running element's position in the reduction's source."""
        kept = iter(coordinates(self.row, root.kept))
        inside = iter(coordinates(variable("r", self.length, level=2), root.reduced))
        at = [next(inside) if d in root.dims else next(kept) for d in range(len(root.shape))]
        return linear(at, root.shape)

    # --- what is read --------------------------------------------------------------------------

    def read(self, value: Value, at: Sequence[Index]) -> Scalar:
        value = self.kernel.program.current(value)
        known = self.kernel.memory(value) is not None or value in self._bound
        if not known and isinstance(value, Reduced) and self._is_mine(value, at):
            self._write_phase(value.reduction)
        return super().read(value, at)

    def _is_mine(self, value: Reduced, at: Sequence[Index]) -> bool:
        reduction = value.reduction
        return self._same_rows(reduction) and linear(at, reduction.kept) == self.row

    def _same_rows(self, reduction: Reduction) -> bool:
        """Whether the reduction's rows are this kernel's, element for element."""
        if product(reduction.kept) != self.rows or product(reduction.reduced) != self.length:
            return False
        at = coordinates(self.element, reduction.shape)
        kept = [i for d, i in enumerate(at) if d not in reduction.dims]
        return linear(kept, reduction.kept) == self.row

    def _ready(self, reduction: Reduction) -> bool:
        """Whether its elements need no reduction that is not finished here."""
        program = self.kernel.program
        stack, seen = list(reduction.sources), set()
        while stack:
            v = program.current(stack.pop())
            if v in seen or program.memory(v) is not None or v in self._bound:
                continue
            seen.add(v)
            if not isinstance(v, Pointwise):
                return False
            stack.extend(v.sources)
        return True

    def can_join(self, reduction: Reduction) -> bool:
        """Whether it can share a pass over these rows."""
        return self._same_rows(reduction) and self._ready(reduction)

    def want(self, reductions: Sequence[Reduction]) -> None:
        """Reductions that will be read: those that can share a pass over the row will."""
        self._wanted = [r for r in reductions if self._same_rows(r)]

    _wanted: Sequence[Reduction] = ()

    # --- phases --------------------------------------------------------------------------------

    @contextmanager
    def _at_row_level(self) -> Iterator[None]:
        inner, guards = self.scopes[2:], self._guards
        del self.scopes[2:]
        self._guards = []
        try:
            yield
        finally:
            self.scopes.extend(inner)
            self._guards = guards

    def _write_phase(self, first: Reduction) -> None:
        together = [first]
        for other in self._wanted:
            if other is not first and other not in self.phases and self._ready(other):
                together.append(other)
        with self._at_row_level():
            if not self._ready(first):
                for source in first.sources:  # phases that this one reads come before it
                    with self.inner():
                        self.read(source, coordinates(self.element, first.shape))
                together = together[:1]
            for reduction, state in zip(together, self.accumulate(together), strict=True):
                self.meet(reduction, state)
                self._bind_fields(reduction, state)
                self.phases.append(reduction)

    def reducer(self, reduction: Reduction) -> Reducer:
        """The reduction's reducer, at the accuracy that the schedule asks for."""
        return at_accuracy(reduction.reducer, self.kernel.program.schedule.precise)

    def accumulate(self, reductions: Sequence[Reduction]) -> list[list[str]]:
        """Declares a state for each reduction and walks the row into all of them."""
        states = []
        for reduction in reductions:
            reducer = self.reducer(reduction)
            state = [self.kernel.fresh("acc") for _ in reducer.state]
            for name, ctype, start in zip(state, reducer.state, reducer.start(), strict=True):
                self.line(f"{ctype} {name} = {start};")
            states.append(state)
        with self.inner() as loop:
            for reduction, state in zip(reductions, states, strict=True):
                self._take_in(reduction, state, braces=len(reductions) > 1)
        self.block(self._loop(), loop)
        return states

    def _take_in(self, reduction: Reduction, state: Sequence[str], braces: bool) -> None:
        """The running element joins the state."""
        at = coordinates(self.element, reduction.shape)
        inside = [i for d, i in enumerate(at) if d in reduction.dims]
        elements = [
            self.cast(self.read(source, at), ctype).text
            for source, ctype in zip(
                reduction.sources, self.reducer(reduction).element, strict=True
            )
        ]
        place = self.position(linear(inside, reduction.reduced))
        lines = self.reducer(reduction).step(state, elements, place)
        for text in ["{", *(f"  {t}" for t in lines), "}"] if braces else lines:
            self.line(text)

    def meet(self, reduction: Reduction, state: Sequence[str]) -> None:
        """Merges the lanes' states; afterwards every lane holds the row's."""
        layout, reducer = self.layout, self.reducer(reduction)
        if layout.lanes == 1:
            return
        shared = [self._shared_array(k, c) for k, c in enumerate(reducer.state)]
        pairs = list(zip(shared, state, strict=True))
        put = " ".join(f"{array}[threadIdx.x] = {name};" for array, name in pairs)
        apart = f"width * {layout.slots}" if layout.side_by_side else "width"
        other = [f"other{k}" for k in range(len(state))]
        self.line(put)
        self.line("__syncthreads();")
        self.line(f"for (int width = {layout.lanes // 2}; width > 0; width /= 2) {{")
        self.line("  if (lane < width) {")
        for (array, _), name, ctype in zip(pairs, other, reducer.state, strict=True):
            self.line(f"    const {ctype} {name} = {array}[threadIdx.x + {apart}];")
        for text in reducer.merge(state, other):
            self.line(f"    {text}")
        self.line(f"    {put}")
        self.line("  }")
        self.line("  __syncthreads();")
        self.line("}")
        home = "slot" if layout.side_by_side else f"slot * {layout.lanes}"
        self.line(" ".join(f"{name} = {array}[{home}];" for array, name in pairs))
        self.line("__syncthreads();")

    def _shared_array(self, k: int, ctype: str) -> str:
        if (k, ctype) not in self._shared:
            name = self._shared[k, ctype] = f"shared{len(self._shared)}"
            self.scopes[0].lines.append(f"__shared__ {ctype} {name}[{self.layout.threads}];")
        return self._shared[k, ctype]

    def _bind_fields(self, reduction: Reduction, state: Sequence[str]) -> None:
        at = coordinates(self.row, reduction.kept)
        for value, text in zip(
            reduction.fields, self.reducer(reduction).finish(state), strict=True
        ):
            ctype = register_type(value.dtype)
            made = Scalar(self.kernel.fresh("row"), ctype, 1)
            self.line(f"const {ctype} {made.text} = static_cast<{ctype}>({text});")
            self.bind(value, at, made)

    # --- the frame -----------------------------------------------------------------------------

    def head(self, pieces: int = 1, piece: Num = ONE) -> None:
        """Which row, and with pieces > 1 which piece of it, this thread works on."""
        slots, n = self.layout.slots, self.kernel.size(self.rows * pieces)
        at = "task"
        if slots > 1:
            self.line(f"const bool live = begin + slot < {n};")
            self.line(f"const index_t task = live ? begin + slot : {n} - 1;")
        else:
            self.line("const index_t task = begin;")
        if pieces == 1:
            self.line(f"const index_t o = {at};")
            return
        o, s = f"task / {pieces}", f"task % {pieces}"
        if self.layout.side_by_side:
            rows = self.kernel.size(self.rows)
            o, s = f"task % {rows}", f"task / {rows}"
        size, end = self.kernel.size(piece), self.kernel.size(self.length)
        self.line(f"const index_t o = {o};")
        self.line(f"const index_t from = ({s}) * {size};")
        self.line(f"const index_t to = from + {size} < {end} ? from + {size} : {end};")
        self._walk = f"r = from + lane; r < to; r += {self.layout.lanes}"

    def _loop(self) -> str:
        unroll = self.kernel.program.schedule.unroll
        pragma = f"#pragma unroll {unroll}\n" if unroll > 1 else ""
        return f"{pragma}for (index_t {self._walk})"

    def each_element(self, write: Callable[[], None]) -> None:
        """A loop over the row's elements for results of the full shape."""
        with self.inner() as loop:
            write()
        self.block(f"if (live)\n{self._loop()}" if self.layout.slots > 1 else self._loop(), loop)

    def once(self, write: Callable[[], None]) -> None:
        """Done by one thread of the row: results of the kept shape."""
        with self.inner() as scope:
            write()
        tests = ["live"] if self.layout.slots > 1 else []
        tests += ["lane == 0"] if self.layout.lanes > 1 else []
        self.block(f"if ({' && '.join(tests) or 'true'})", scope)

    def finish(self, row: "Sequence[str]", pieces: int, note: str) -> None:
        """Closes the loop over rows and adds the kernel to the program."""
        layout, tasks = self.layout, self.rows * pieces
        slot, lane = f"threadIdx.x / {layout.lanes}", f"threadIdx.x % {layout.lanes}"
        if layout.side_by_side:
            slot, lane = f"threadIdx.x % {layout.slots}", f"threadIdx.x / {layout.slots}"
        self.line(f"const int lane = {lane};")
        if layout.slots > 1 or layout.side_by_side:
            self.line(f"const int slot = {slot};")
        else:
            self.line("const int slot = 0;")
        stride = f"static_cast<index_t>(gridDim.x) * {layout.slots}"
        begin = f"static_cast<index_t>(blockIdx.x) * {layout.slots}"
        n = self.kernel.size(tasks)
        self.line(f"for (index_t begin = {begin}; begin < {n}; begin += {stride}) {{")
        self.scopes[0].lines.extend(f"  {text}" for text in row)
        self.line("}")
        grid = f"blocks_for({tasks.host}, {layout.slots})"
        launch = Launch((grid,), (layout.threads,), work=tasks)
        self.kernel.program.add(self.kernel, self.scopes[0].lines, launch, note)


def emit_rows(
    program: Program,
    root: Reduction,
    stores: Sequence[tuple[Value, Leaf]],
    wanted: Sequence[Reduction],
    also: Callable[[Value], Leaf | None],
) -> None:
    """One kernel over root's rows that stores values of the rows' or the elements' shape.

    also(field) gives a buffer for a finished reduction that other kernels need too, or None.
    Raises NeedsBuffer for what must be in memory before.
    """
    rows = Rows(program.kernel("rows"), root, layout_of(root, program.schedule))
    rows.want(wanted)
    full, short = rows.rows * rows.length, rows.rows
    with rows.inner() as row:
        rows.head()
        for value, leaf in stores:
            if value.numel == full and value.numel != short:
                rows.each_element(partial(_store_element, rows, value, leaf))
            elif value.numel != short:
                raise NeedsBuffer(root.fields[0])
        singles = [(v, m) for v, m in stores if v.numel == short]
        for value, _ in singles:  # write the phases they need before the single thread's scope
            with rows.inner():
                rows.read(value, coordinates(rows.row, value.shape))
        extra = [(f, m) for r in rows.phases for f in r.fields if (m := also(f)) is not None]
        once = variable("o", rows.rows, level=2)
        for value, leaf in (*singles, *extra):
            rows.once(partial(_store, rows, value, leaf, once))
    note = f"rows {rows.rows.own} x {rows.length.own}, {len(rows.phases)} reductions"
    rows.finish(row.lines, 1, note)
    if not rows.phases:
        raise Refusal("a row kernel without a reduction")


def _storing(rows: Rows, leaf: Leaf, position: Index, value: Scalar) -> Callable[[], None]:
    return lambda: rows.store(leaf, position, value)


def _store_element(rows: "Rows", value: Value, leaf: Leaf) -> None:
    _store(rows, value, leaf, rows.element)


def _store(rows: Rows, value: Value, leaf: Leaf, position: Index) -> None:
    at: Coordinates = coordinates(position, value.shape)
    rows.store(leaf, position, rows.read(value, at))


def emit_pieces(program: Program, reductions: Sequence[Reduction]) -> dict[Reduction, Reduction]:
    """Cuts long reductions over the same rows: one kernel makes the states of pieces of the rows.

    Answers what stands for each that was cut (the first always is): a reduction of its states.
    Raises NeedsBuffer for what must be in memory before.
    """
    root, schedule = reductions[0], program.schedule
    pieces, layout = pieces_of(root, schedule), layout_of(root, schedule)
    piece = product(root.reduced).ceil_div(pieces)
    rows = Rows(program.kernel("partial"), root, layout)
    cut = [r for r in reductions if r is root or rows.can_join(r)]
    made = {}
    with rows.inner() as row:
        rows.head(pieces, piece)
        for reduction, names in zip(cut, rows.accumulate(cut), strict=True):
            rows.meet(reduction, names)
            made[reduction] = _store_states(rows, reduction, names, pieces)
    note = f"{pieces} pieces of rows {rows.rows.own} x {rows.length.own}, {len(cut)} reductions"
    rows.finish(row.lines, pieces, note)
    return made


def _store_states(rows: Rows, reduction: Reduction, names: Sequence[str], pieces: int) -> Reduction:
    """Writes each piece's state to memory; answers the reduction over the pieces."""
    reducer, program = rows.reducer(reduction), rows.kernel.program
    first = rows.layout.side_by_side
    shape = (num(pieces), *reduction.kept) if first else (*reduction.kept, num(pieces))
    task = variable("task", rows.rows * pieces, level=1)
    states = []
    for name, ctype in zip(names, reducer.state, strict=True):
        states.append(program.buffer(shape, STATE_DTYPE[ctype], "partial"))
        rows.once(_storing(rows, states[-1], task, Scalar(name, ctype, 2)))
    merging = Merging(reducer.source, reducer.results, reducer)
    return Reduction(states, (0 if first else len(shape) - 1,), merging)
