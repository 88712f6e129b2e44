"""The elementwise kernel: each thread makes `vector` neighbouring elements of the results."""

from collections.abc import Sequence

from musaagent.policies.builtin.body import Body, Scalar
from musaagent.policies.builtin.dialect import itemsize, storage_type
from musaagent.policies.builtin.index import Index, coordinates, variable
from musaagent.policies.builtin.ir import Leaf, Value
from musaagent.policies.builtin.kernel import Kernel, Launch, Program
from musaagent.policies.builtin.sizes import Num, num

_VECTOR = """
template <typename T, int N> struct alignas(sizeof(T) * N) Vector { T at[N]; };
"""


class _Recording(Body):
    """Notes which leaves are read at the running element's own position."""

    def __init__(self, kernel: Kernel, position: Index) -> None:
        super().__init__(kernel)
        self.position_of_element = position
        self.straight: dict[Leaf, None] = {}

    def load(self, leaf: Leaf, position: Index) -> Scalar:
        if position == self.position_of_element and not self._guards:
            self.straight[leaf] = None
        return super().load(leaf, position)


def emit_elementwise(program: Program, stores: Sequence[tuple[Value, Leaf]]) -> None:
    """One kernel for values with equally many elements. Raises NeedsBuffer."""
    count = stores[0][0].numel
    kernel = program.kernel("elementwise")
    position = variable("i", count, level=1)
    trial = _Recording(Kernel(program, "trial"), position)
    with trial.inner():
        _element(trial, stores, position)
    width = _width(program, count, stores, tuple(trial.straight))
    body = Body(kernel)
    _step(body)
    if width > 1:
        program.aligned.update(trial.straight)
        _vector_loop(body, program, stores, tuple(trial.straight), count, width)
    if width == 1 or not num(width).divides(count):
        _scalar_loop(body, stores, count, width)
    block = program.schedule.block
    grid = f"blocks_for({count.host}, {block * width})"
    names = ", ".join(str(list(n.own for n in v.shape)) for v, _ in stores)
    program.add(
        kernel, body.scopes[0].lines, Launch((grid,), (block,), work=count),
        f"elementwise {names}, {width} elements a thread",
    )  # fmt: skip


def _width(
    program: Program, count: Num, stores: Sequence[tuple[Value, Leaf]], straight: Sequence[Leaf]
) -> int:
    """The widest power of two that keeps every straight access within 16 bytes."""
    widest = max(itemsize(leaf.dtype) for leaf in (*straight, *(leaf for _, leaf in stores)))
    if any(leaf in program.written for leaf in (*straight, *(leaf for _, leaf in stores))):
        return 1
    width = 1
    while width * 2 <= program.schedule.vector and width * 2 * widest <= 16:
        width *= 2
    return width if num(width) <= count else 1


def _element(body: Body, stores: Sequence[tuple[Value, Leaf]], position: Index) -> None:
    made = [body.read(value, coordinates(position, value.shape)) for value, _ in stores]
    for (_, leaf), scalar in zip(stores, made, strict=True):
        body.store(leaf, position, scalar)


def _step(body: Body) -> None:
    body.line("const index_t step = static_cast<index_t>(gridDim.x) * blockDim.x;")
    body.line("const index_t first = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x;")


def _scalar_loop(body: Body, stores: Sequence[tuple[Value, Leaf]], count: Num, width: int) -> None:
    n = body.kernel.size(count)
    start = f"{n} / {width} * {width} + first" if width > 1 else "first"
    with body.inner() as scope:
        _element(body, stores, variable("i", count, level=1))
    body.block(f"for (index_t i = {start}; i < {n}; i += step)", scope)


def _vector_loop(
    body: Body, program: Program, stores: Sequence[tuple[Value, Leaf]],
    straight: Sequence[Leaf], count: Num, width: int,
) -> None:  # fmt: skip
    program.device_code(_VECTOR)
    kinds = {
        leaf: f"Vector<{storage_type(leaf.dtype, program.dialect)}, {width}>"
        for leaf in (*straight, *(leaf for _, leaf in stores))
    }
    position = variable("i", count, level=2)
    with body.inner() as outer:
        body.line(f"const index_t base = group * {width};")
        for leaf in straight:
            source = f"*reinterpret_cast<const {kinds[leaf]}*>({body.kernel.pointer(leaf)} + base)"
            body.line(f"const {kinds[leaf]} {leaf.name}_lanes = {source};")
        for _, leaf in stores:
            body.line(f"{kinds[leaf]} {leaf.name}_out;")
        with body.inner() as lane:
            body.line("const index_t i = base + lane;")
            for leaf in straight:
                body.preload(leaf, position, f"{leaf.name}_lanes.at[lane]")
            _lanes(body, stores, position)
        body.block(f"#pragma unroll\nfor (int lane = 0; lane < {width}; ++lane)", lane)
        for _, leaf in stores:
            target = f"{body.kernel.pointer(leaf, write=True)} + base"
            body.line(f"*reinterpret_cast<{kinds[leaf]}*>({target}) = {leaf.name}_out;")
    groups = f"{body.kernel.size(count)} / {width}"
    body.block(f"for (index_t group = first; group < {groups}; group += step)", outer)
    body.forget_preloads()


def _lanes(body: Body, stores: Sequence[tuple[Value, Leaf]], position: Index) -> None:
    made = [body.read(value, coordinates(position, value.shape)) for value, _ in stores]
    for (_, leaf), scalar in zip(stores, made, strict=True):
        body.line(f"{leaf.name}_out.at[lane] = {body.kernel.down(scalar, leaf.dtype)};")
