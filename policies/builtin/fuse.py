"""Which values get a kernel, and what is fused into it.

A value is stored by the kernel of what it is made of: an elementwise value over one family's kernel
becomes its epilogue; over reductions of its own rows, the end of their row kernel; over nothing but
memory, an elementwise kernel. A kernel that cannot be written because it would need something else
first says so (`NeedsBuffer`); that is stored, and the kernel is tried again.
"""

from collections.abc import Iterable, Sequence

from musaagent.policies.builtin.body import Body, NeedsBuffer, Scalar
from musaagent.policies.builtin.dialect import register_type
from musaagent.policies.builtin.index import Index, coordinates, variable
from musaagent.policies.builtin.ir import Custom, Leaf, Pointwise, Reduced, Reduction, Value
from musaagent.policies.builtin.kernel import Epilogue, Kernel, Program
from musaagent.policies.builtin.loops import emit_elementwise
from musaagent.policies.builtin.rows import emit_pieces, emit_rows, pieces_of
from musaagent.policies.builtin.sizes import Refusal

_MOST_KERNELS = 200


class Planner:
    def __init__(
        self, program: Program, outputs: Sequence[Value], updates: dict[Leaf, Value]
    ) -> None:
        """updates: what arguments must hold in the end."""
        self.program = program
        self._outputs, self._updates = list(outputs), updates
        self._pending = [*outputs, *updates.values()]
        self._users = _users(self._pending)
        self._stack: list[Value] = []

    def realise_all(self) -> None:
        """Stores all outputs; then makes the in-place changes, which nothing may read after."""
        updates = self._updates
        for group in self._groups(self._outputs):
            self._realise_group(group, {})
        direct: dict[Leaf, Value] = {}
        late: dict[Leaf, Value] = {}
        for leaf, value in updates.items():
            others = [v for other, v in updates.items() if other is not leaf]
            read_later = leaf in _closure(others, self.program)
            moved = _reads_elsewhere(self.program, value, leaf)
            (late if read_later or moved else direct)[leaf] = value
        for value in late.values():
            self.realise(value)
        for leaf in updates:
            self.program.written.add(leaf)
        target = {v: leaf for leaf, v in direct.items() if self.program.memory(v) is None}
        for group in self._groups(list(target)):
            self._realise_group(group, target)
        for leaf, value in updates.items():
            if value not in target:
                emit_elementwise(self.program, [(value, leaf)])

    def _groups(self, values: Sequence[Value]) -> list[list[Value]]:
        """Elementwise values of one size share a kernel."""
        groups: dict[object, list[Value]] = {}
        for value in dict.fromkeys(values):
            alone = bool(self._frontier(value))
            key: object = value if alone else (value.numel, "elementwise")
            groups.setdefault(key, []).append(value)
        return list(groups.values())

    def _realise_group(self, group: Sequence[Value], target: dict[Value, Leaf]) -> None:
        if len(group) == 1:
            self.realise(group[0], target.get(group[0]))
            return
        fresh = [v for v in group if self.program.memory(v) is None]
        stores = [(v, target.get(v) or self.program.buffer(v.shape, v.dtype)) for v in fresh]
        if stores:
            emit_elementwise(self.program, stores)
        self._placed(stores)

    def realise(self, value: Value, into: Leaf | None = None) -> Leaf:
        """The value in memory, with the kernels that it takes."""
        if (leaf := self.program.memory(value)) is not None and into is None:
            return leaf
        if value in self._stack:
            raise Refusal("the order of kernels could not be settled")
        self._stack.append(value)
        try:
            while not self._attempt(value, into):
                if len(self.program.notes) > _MOST_KERNELS:
                    raise Refusal(f"it would take more than {_MOST_KERNELS} kernels")
        finally:
            self._stack.pop()
        leaf = self.program.memory(value)
        assert leaf is not None
        return leaf

    # --- one attempt ---------------------------------------------------------------------------

    def _attempt(self, value: Value, into: Leaf | None) -> bool:
        """Write the kernel that stores value, or bring about one thing that it needs."""
        mark = self.program.checkpoint()
        frontier = self._frontier(value)
        try:
            self._write(value, frontier, into)
        except NeedsBuffer as need:
            self.program.rollback(mark)
            self._provide(need.value, value)
            return False
        return self.program.memory(value) is not None

    def _write(self, value: Value, frontier: Sequence[Value], into: Leaf | None) -> None:
        customs = [v for v in frontier if isinstance(v, Custom)]
        reduced = [v for v in frontier if isinstance(v, Reduced)]
        if not self.program.schedule.fuse and frontier and value not in frontier:
            raise NeedsBuffer(frontier[0])
        if customs and reduced:
            raise NeedsBuffer(reduced[0])
        long = [v for v in reduced if pieces_of(v.reduction, self.program.schedule) > 1]
        if long:
            # One that waits for others comes first: once they are stored, all can share a kernel.
            waiting = [v for v in long if any(map(self._frontier, v.reduction.sources))]
            self._cut(value, (waiting or long)[0].reduction)
        elif reduced:
            self._rows(value, reduced, into)
        elif customs:
            self._custom(value, customs, into)
        else:
            leaf = into or self.program.buffer(value.shape, value.dtype)
            emit_elementwise(self.program, [(value, leaf)])
            self._placed([(value, leaf)])

    def _cut(self, value: Value, reduction: Reduction) -> None:
        """Replaces a long reduction, and those of value that can go with it, by second stages."""
        others = [
            r for r in self._reductions(value)
            if r is not reduction and pieces_of(r, self.program.schedule) > 1
        ]  # fmt: skip
        for old, new in emit_pieces(self.program, [reduction, *others]).items():
            for before, after in zip(old.fields, new.fields, strict=True):
                self.program.replace(before, after)
                self._users[after] = self._users.get(before, set())

    def _rows(self, value: Value, reduced: Sequence[Reduced], into: Leaf | None) -> None:
        root = max((v.reduction for v in reduced), key=lambda r: r.sources[0].numel.own)
        elsewhere = self._elsewhere(value)
        leaf = into or self.program.buffer(value.shape, value.dtype)
        stores = [(value, leaf)]
        extra: list[tuple[Value, Leaf]] = []

        def also(field: Value) -> Leaf | None:
            if field is value or field not in elsewhere:
                return None
            extra.append((field, self.program.buffer(field.shape, field.dtype)))
            return extra[-1][1]

        emit_rows(self.program, root, stores, self._reductions(value), also)
        self._placed([*stores, *extra])

    def _custom(self, value: Value, customs: Sequence[Custom], into: Leaf | None) -> None:
        custom = customs[0]
        first = custom.first
        for other in customs[1:]:
            if other.first is not first:
                raise NeedsBuffer(other)
        for source in custom.buffers():
            if self.program.memory(source) is None:
                raise NeedsBuffer(source)
        if value.numel != custom.numel:
            raise NeedsBuffer(custom)
        elsewhere = self._elsewhere(value)
        stores = [(value, into or self.program.buffer(value.shape, value.dtype))]
        for result in (first, *first.outputs):
            if result is not value and result in elsewhere:
                stores.append((result, self.program.buffer(result.shape, result.dtype)))
        first.emit(self.program, Epilogue(first, stores), self.program.schedule)
        self._placed(stores)

    def _provide(self, needed: Value, by: Value) -> None:
        needed = self.program.current(needed)
        if needed is by:
            raise Refusal(f"no kernel can be written for {by}")
        self.realise(self._grown(needed))

    def _grown(self, value: Value) -> Value:
        """The end of the elementwise chain that alone uses value: it fuses into value's kernel."""
        while self.program.schedule.fuse:
            users = self._users.get(value, set())
            if len(users) != 1:
                return value
            (user,) = users
            fits = isinstance(user, Pointwise) and not user.view and user.numel == value.numel
            if not fits or user in self._stack or value in self._pending:
                return value
            value = user
        return value

    # --- what depends on what ------------------------------------------------------------------

    def _frontier(self, value: Value) -> list[Value]:
        """What value is made of by elementwise steps that is neither memory nor elementwise."""
        found: dict[Value, None] = {}
        stack, seen = [value], set()
        while stack:
            v = self.program.current(stack.pop())
            if v in seen or self.program.memory(v) is not None:
                continue
            seen.add(v)
            if isinstance(v, Pointwise):
                stack.extend(v.sources)
            else:
                found[v] = None
        return list(found)

    def _reductions(self, value: Value) -> list[Reduction]:
        closure = _closure([value], self.program)
        return list(dict.fromkeys(v.reduction for v in closure if isinstance(v, Reduced)))

    def _elsewhere(self, value: Value) -> set[Value]:
        """What kernels still to come will read, once value is stored."""
        others = [v for v in (*self._pending, *self._stack) if v is not value]
        return _closure([v for v in others if self.program.memory(v) is None], self.program, value)

    def _placed(self, stores: Iterable[tuple[Value, Leaf]]) -> None:
        for value, leaf in stores:
            self.program.place(value, leaf)
            if value in self._pending:
                self._pending.remove(value)


class _SelfReads(Body):
    """Notes whether elements of a leaf's new value need other elements of the leaf."""

    def __init__(self, program: Program, leaf: Leaf) -> None:
        super().__init__(Kernel(program, "trial"))
        self.leaf = leaf
        self.own_place = variable("i", leaf.numel)
        self.elsewhere = False

    def read(self, value: Value, at: Sequence[Index]) -> Scalar:
        program = self.kernel.program
        value = program.current(value)
        if isinstance(value, Pointwise) or program.memory(value) is not None:
            return super().read(value, at)
        self.elsewhere |= self.leaf in _closure([value], program)
        return Scalar("x", register_type(value.dtype))

    def load(self, leaf: Leaf, position: Index) -> Scalar:
        self.elsewhere |= leaf is self.leaf and position != self.own_place
        return Scalar("x", register_type(leaf.dtype))


def _reads_elsewhere(program: Program, value: Value, leaf: Leaf) -> bool:
    """Whether one thread's store could come before another thread's load of the old value."""
    reads = _SelfReads(program, leaf)
    reads.read(value, coordinates(reads.own_place, value.shape))
    return reads.elsewhere


def _closure(values: Sequence[Value], program: Program, stop: Value | None = None) -> set[Value]:
    """The values and all that they are made of; `stop` and memory are ends."""
    stack, seen = list(values), set[Value]()
    while stack:
        v = program.current(stack.pop())
        if v in seen:
            continue
        seen.add(v)
        if v is not stop and program.memory(v) is None:
            stack.extend(v.sources)
    return seen


def _users(roots: Sequence[Value]) -> dict[Value, set[Value]]:
    users: dict[Value, set[Value]] = {}
    stack, seen = list(roots), set[Value]()
    while stack:
        v = stack.pop()
        if v in seen:
            continue
        seen.add(v)
        for source in v.sources:
            users.setdefault(source, set()).add(v)
            stack.append(source)
    return users
