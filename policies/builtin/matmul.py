"""Matrix products of every form as one labelled contraction, in shared-memory tiles.

Each tensor's dims carry letters, as in einsum. Letters of both sources and the result are the
batch; of the first source and the result, rows; of the second and the result, columns; of both
sources only, the sum.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from musaagent.policies.builtin.body import Body, Coordinates, Scalar
from musaagent.policies.builtin.dialect import accumulate_type
from musaagent.policies.builtin.index import Index, coordinates, index, variable
from musaagent.policies.builtin.ir import Custom, Value
from musaagent.policies.builtin.kernel import Epilogue, Launch, Program
from musaagent.policies.builtin.lowering import Call, lowers
from musaagent.policies.builtin.pointwise import Operand, add, apply, converted
from musaagent.policies.builtin.schedule import Schedule, shrinks, tunes
from musaagent.policies.builtin.sizes import ONE, Num, Shape, product
from musaagent.policies.builtin.views import reshape_to

_MOST_BATCHES = 65535
"""grid.y's limit; further batches are taken by the loop."""


class Contraction(Custom):
    """sum over the shared letters of a[la] * b[lb], in the order of `out`."""

    note = "matrix product"
    sidewise: tuple[int, ...] = ()
    """Sources that are computed, and whose rows or columns read neighbouring memory."""

    def __init__(self, a: Value, la: str, b: Value, lb: str, out: str, dtype: str) -> None:
        sizes = _sizes((a, la), (b, lb))
        super().__init__([sizes[c] for c in out], dtype, (a, b))
        self.letters = (la, lb)
        self.out = out
        self.sizes = sizes
        self.batch = [c for c in out if c in la and c in lb]
        self.rows = [c for c in out if c not in self.batch and c in la]
        self.columns = [c for c in out if c not in self.batch and c in lb]
        self.summed = [c for c in dict.fromkeys(la + lb) if c not in out]

    def dims(self, letters: Sequence[str]) -> Shape:
        return tuple(self.sizes[c] for c in letters)

    def emit(self, program: Program, out: Epilogue, schedule: Schedule) -> None:
        tiles = _Tiles(schedule, product(self.dims(self.rows)), product(self.dims(self.columns)))
        kernel = program.kernel("matmul")
        body = Body(kernel)
        ctype = "double" if schedule.precise else accumulate_type(self.sources[0].dtype)
        writer = _Writer(self, body, tiles, ctype)
        writer.write(out)
        batches = product(self.dims(self.batch))
        most = f"static_cast<unsigned>({batches.host} < {_MOST_BATCHES} ? {batches.host} : "
        grid = (
            f"blocks_for(({tiles.m.host} + {tiles.tm - 1}) / {tiles.tm}"
            f" * (({tiles.n.host} + {tiles.tn - 1}) / {tiles.tn}), 1)",
            most + f"{_MOST_BATCHES})",
        )
        program.add(
            kernel,
            body.scopes[0].lines,
            Launch(grid, (tiles.threads,), work=self.numel),
            f"{self.note}, tiles of {tiles.tm}x{tiles.tn}x{tiles.tk}",
        )


class _Tiles:
    """A block makes tm x tn results, a thread rm x rn of them, tk steps of the sum at a time."""

    def __init__(self, schedule: Schedule, m: Num, n: Num) -> None:
        self.m, self.n = m, n
        self.tm = schedule.choice("matmul.tile_m", 64)
        self.tn = schedule.choice("matmul.tile_n", 64)
        self.tk = schedule.choice("matmul.tile_k", 16)
        self.rm = min(schedule.choice("matmul.thread_m", 4), self.tm)
        self.rn = min(schedule.choice("matmul.thread_n", 4), self.tn)
        # Half of a tile beside a single row or column would idle.
        if m.own < self.tm // 2:
            self.tm, self.rm = 16, 1
        if n.own < self.tn // 2:
            self.tn, self.rn = 16, 1

    @property
    def across(self) -> int:
        return self.tn // self.rn

    @property
    def down(self) -> int:
        return self.tm // self.rm

    @property
    def threads(self) -> int:
        return self.across * self.down


class _Writer:
    """The text of one contraction kernel."""

    def __init__(self, product_: Contraction, body: Body, tiles: _Tiles, ctype: str) -> None:
        self.of, self.body, self.tiles, self.ctype = product_, body, tiles, ctype
        self.k = product(product_.dims(product_.summed))
        self.batches = product(product_.dims(product_.batch))

    def write(self, out: Epilogue) -> None:
        body, tiles = self.body, self.tiles
        size = body.kernel.size
        body.line(f"__shared__ {self.ctype} tile_a[{tiles.tk}][{tiles.tm + 1}];")
        body.line(f"__shared__ {self.ctype} tile_b[{tiles.tk}][{tiles.tn + 1}];")
        body.line(f"const int across = threadIdx.x % {tiles.across};")
        body.line(f"const int down = threadIdx.x / {tiles.across};")
        body.line(f"const index_t tiles_n = ({size(tiles.n)} + {tiles.tn - 1}) / {tiles.tn};")
        body.line(f"const index_t tiles_m = ({size(tiles.m)} + {tiles.tm - 1}) / {tiles.tm};")
        with body.inner() as batch:
            with body.inner() as tile:
                self._tile(out)
            body.block(
                "for (index_t tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x)", tile
            )
        head = f"for (index_t batch = blockIdx.y; batch < {size(self.batches)}; batch += gridDim.y)"
        body.block(head, batch)

    def _tile(self, out: Epilogue) -> None:
        body, tiles = self.body, self.tiles
        body.line(f"const index_t row0 = tile / tiles_n * {tiles.tm};")
        body.line(f"const index_t column0 = tile % tiles_n * {tiles.tn};")
        body.line(f"{self.ctype} acc[{tiles.rm}][{tiles.rn}] = {{}};")
        with body.inner() as step:
            self._load(0, tiles.tm, "row0", "m", tiles.m, self.of.rows, "tile_a")
            self._load(1, tiles.tn, "column0", "n", tiles.n, self.of.columns, "tile_b")
            body.line("__syncthreads();")
            self._multiply()
            body.line("__syncthreads();")
        body.block(f"for (index_t k0 = 0; k0 < {body.kernel.size(self.k)}; k0 += {tiles.tk})", step)
        self._store(out)

    def _load(
        self, source: int, width: int, origin: str, name: str, extent: Num,
        letters: Sequence[str], tile: str,
    ) -> None:  # fmt: skip
        """Bring one tile into shared memory, zeros beyond the edges."""
        body, tiles = self.body, self.tiles
        size = body.kernel.size
        with body.inner() as element:
            # Neighbouring threads read along the dim that lies closer in memory.
            along_k = self._inner_is_summed(source)
            first, second = (tiles.tk, "k") if along_k else (width, "p")
            body.line(f"const int {second} = e % {first};")
            body.line(f"const int {'p' if along_k else 'k'} = e / {first};")
            body.line(f"const index_t {name} = {origin} + p;")
            body.line("const index_t kk = k0 + k;")
            body.line(f"{self.ctype} loaded = 0;")
            with body.inner() as inside:
                where = self._where(source, variable(name, extent, 5), letters)
                value = body.read(self.of.sources[source], where)
                body.line(f"loaded = {body.cast(value, self.ctype).text};")
            body.block(f"if ({name} < {size(extent)} && kk < {size(self.k)})", inside)
            body.line(f"{tile}[k][p] = loaded;")
        head = f"for (int e = threadIdx.x; e < {tiles.tk * width}; e += {tiles.threads})"
        body.block(head, element)

    def _inner_is_summed(self, source: int) -> bool:
        affine = self.body.kernel.program.affine(self.of.sources[source])
        if affine is None:
            return source not in self.of.sidewise
        letters = self.of.letters[source]
        steps = {c: s for c, s in zip(letters, affine.strides, strict=True)}
        unit = [c for c, s in steps.items() if s == ONE and self.of.sizes[c] != ONE]
        return not unit or unit[-1] in self.of.summed

    def _where(self, source: int, place: Index, letters: Sequence[str]) -> Coordinates:
        """Coordinates in a source, from flat positions in the groups of letters."""
        of = self.of
        found: dict[str, Index] = {}
        flat = (
            (variable("batch", self.batches, 1), of.batch),
            (place, letters),
            (variable("kk", self.k, 5), of.summed),
        )
        for position, group in flat:
            parts = coordinates(position, of.dims(group))
            found.update(zip(group, parts, strict=True))
        return _picked(found, of.letters[source], of.sources[source].shape)

    def _multiply(self) -> None:
        tiles, line = self.tiles, self.body.line
        line("#pragma unroll")
        line(f"for (int k = 0; k < {tiles.tk}; ++k) {{")
        line(f"  {self.ctype} a[{tiles.rm}], b[{tiles.rn}];")
        line("  #pragma unroll")
        line(f"  for (int i = 0; i < {tiles.rm}; ++i) a[i] = tile_a[k][down + i * {tiles.down}];")
        line("  #pragma unroll")
        line(
            f"  for (int j = 0; j < {tiles.rn}; ++j) b[j] = tile_b[k][across + j * {tiles.across}];"
        )
        line("  #pragma unroll")
        line(f"  for (int i = 0; i < {tiles.rm}; ++i)")
        line(f"    for (int j = 0; j < {tiles.rn}; ++j) acc[i][j] += a[i] * b[j];")
        line("}")

    def _store(self, out: Epilogue) -> None:
        body, tiles, of = self.body, self.tiles, self.of
        size = body.kernel.size
        with body.inner() as row:
            with body.inner() as column:
                body.line(f"const index_t m = row0 + down + i * {tiles.down};")
                body.line(f"const index_t n = column0 + across + j * {tiles.across};")
                with body.inner() as inside:
                    found: dict[str, Index] = {}
                    for name, extent, group in (
                        ("batch", self.batches, of.batch),
                        ("m", tiles.m, of.rows),
                        ("n", tiles.n, of.columns),
                    ):
                        level = 1 if name == "batch" else 5
                        parts = coordinates(variable(name, extent, level), of.dims(group))
                        found.update(zip(group, parts, strict=True))
                    at = tuple(found[c] for c in of.out)
                    out.store(body, at, Scalar("acc[i][j]", self.ctype, 5))
                body.block(f"if (m < {size(tiles.m)} && n < {size(tiles.n)})", inside)
            body.block(f"#pragma unroll\nfor (int j = 0; j < {tiles.rn}; ++j)", column)
        body.block(f"#pragma unroll\nfor (int i = 0; i < {tiles.rm}; ++i)", row)


def _picked(found: Mapping[str, Index], letters: str, shape: Shape) -> Coordinates:
    return tuple(index(0) if n == ONE else found[c] for c, n in zip(letters, shape, strict=True))


def _sizes(*labelled: tuple[Value, str]) -> dict[str, Num]:
    """Each letter's size; a dim of 1 broadcasts."""
    sizes: dict[str, Num] = {}
    for value, letters in labelled:
        for letter, n in zip(letters, value.shape, strict=True):
            if sizes.get(letter, ONE) == ONE:
                sizes[letter] = n
            elif n not in (ONE, sizes[letter]):
                raise ValueError(f"sizes of {letter} differ")
    return sizes


@tunes("Contraction")
def tilings(now: Schedule, bound: str) -> list[Schedule]:
    tiles = ((128, 64, 16, 8, 4), (128, 128, 16, 8, 8), (64, 64, 32, 4, 4), (32, 32, 32, 2, 2))
    names = ("tile_m", "tile_n", "tile_k", "thread_m", "thread_n")
    return [
        now.but(choices={f"matmul.{k}": v for k, v in zip(names, sizes, strict=True)})
        for sizes in tiles
    ]


@shrinks("Contraction")
def smaller_tiles(now: Schedule) -> Schedule:
    half = {"matmul.tile_m": 32, "matmul.tile_n": 32, "matmul.tile_k": 16}
    return now.but(choices={**half, "matmul.thread_m": 2, "matmul.thread_n": 2})


# --- lowerings --------------------------------------------------------------------------------


def matrix_product(a: Value, b: Value, dtype: str, transposed: bool = False) -> Value:
    """torch.matmul; with `transposed`, b's last two dims are read the other way round."""
    if a.rank == 1 or b.rank == 1:
        return _with_vector(a, b, dtype, transposed)
    batch = "abcdefgh"
    shared = max(a.rank, b.rank) - 2
    la = batch[shared - (a.rank - 2) : shared] + "mk"
    lb = batch[shared - (b.rank - 2) : shared] + ("nk" if transposed else "kn")
    if b.rank == 2 and a.rank > 2:
        rows = reshape_to(a, (product(a.shape[:-1]), a.shape[-1]))
        made = Contraction(rows, "mk", b, lb, "mn", dtype)
        return reshape_to(made, (*a.shape[:-1], made.shape[-1]))
    return Contraction(a, la, b, lb, batch[:shared] + "mn", dtype)


def _with_vector(a: Value, b: Value, dtype: str, transposed: bool) -> Value:
    left = reshape_to(a, (ONE, *a.shape)) if a.rank == 1 else a
    right = reshape_to(b, (*b.shape, ONE)) if b.rank == 1 else b
    made = matrix_product(left, right, dtype, transposed and b.rank > 1)
    shape = list(made.shape)
    if b.rank == 1:
        del shape[-1]
    if a.rank == 1:
        del shape[-1 if b.rank == 1 else -2]
    return reshape_to(made, tuple(shape))


@lowers("aten.mm.default", "aten.bmm.default", "aten.matmul.default", "aten.mv.default",
        "aten.dot.default")  # fmt: skip
def matmul(call: Call, a: Value, b: Value) -> Value:
    return matrix_product(a, b, call.dtype)


@lowers("aten.linear.default")
def linear_layer(call: Call, x: Value, weight: Value, bias: Value | None = None) -> Value:
    made = matrix_product(x, weight, call.dtype, transposed=True)
    return made if bias is None else add(made, bias, call.dtype)


@lowers("aten.addmm.default", "aten.baddbmm.default", "aten.addmv.default")
def addmm(call: Call, x: Value, a: Value, b: Value, beta: Operand = 1, alpha: Operand = 1) -> Value:
    made = matrix_product(a, b, call.dtype)
    return apply(
        call.shape, call.dtype, (x, made, beta, alpha),
        lambda t, c, p, u, v: f"{u} * {c} + {v} * {p}",
    )  # fmt: skip


@lowers("aten.outer.default", "aten.ger.default")
def outer(call: Call, a: Value, b: Value) -> Value:
    return apply(
        call.shape, call.dtype,
        (reshape_to(a, (*a.shape, ONE)), reshape_to(b, (ONE, *b.shape))),
        lambda t, p, q: f"{p} * {q}",
    )  # fmt: skip


@lowers("aten.einsum.default")
def einsum(call: Call, equation: str, tensors: Sequence[Value], **unused: Any) -> Value:
    text = equation.replace(" ", "")
    left, arrow, out = text.partition("->")
    labels = left.split(",")
    if "." in text or not arrow or len(tensors) != 2 or any(len(set(x)) < len(x) for x in labels):
        raise call.refuse(f"the form {equation!r}")
    alone = [c for x, y in (labels, labels[::-1]) for c in x if c not in y and c not in out]
    if alone:
        raise call.refuse(f"{alone[0]!r} of {equation!r} is summed in one tensor alone")
    a, b = (converted(t, call.dtype) for t in tensors)
    return Contraction(a, labels[0], b, labels[1], out, call.dtype)
