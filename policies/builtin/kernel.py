"""A kernel's signature and launch, and the host program that allocates and launches in order."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from musaagent.policies.builtin.body import Body, Coordinates, Scalar, reshaped
from musaagent.policies.builtin.dialect import (
    Dialect,
    half_prelude,
    register_type,
    scalar_type,
    storage_type,
)
from musaagent.policies.builtin.index import Index, index, linear, variable
from musaagent.policies.builtin.ir import Affine, Custom, Leaf, Value, affine
from musaagent.policies.builtin.schedule import Schedule
from musaagent.policies.builtin.sizes import Num, Real, Shape

_INT_ELEMENTS = 2**31 - 2**27
"""Below it an int holds every index, and a step of the largest grid beyond the end."""


@dataclass(frozen=True)
class Launch:
    """A launch in host C++ text. grid: expressions for x, y, z."""

    grid: tuple[str, ...]
    block: tuple[int, ...]
    shared: str = "0"
    work: Num | None = None
    """Skipped at run time where this is 0."""


class Kernel:
    """Collects what a kernel takes while `Body` writes it."""

    def __init__(self, program: "Program", name: str) -> None:
        self.program = program
        self.name = name
        self._pointers: dict[Leaf, bool] = {}
        self._sizes: dict[Num, str] = {}
        self._reals: dict[Real, str] = {}
        self._count = 0

    def fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def memory(self, value: Value) -> Leaf | None:
        return self.program.memory(value)

    def pointer(self, leaf: Leaf, write: bool = False) -> str:
        self._pointers[leaf] = self._pointers.get(leaf, False) or write
        return leaf.name

    def size(self, value: Num) -> str:
        """A number as kernel text: a literal, or a parameter."""
        if value.literal:
            return str(value.own)
        return self._sizes.setdefault(value, f"s{len(self._sizes)}")

    def real(self, value: Real) -> str:
        return self._reals.setdefault(value, f"c{len(self._reals)}")

    def up(self, text: str, dtype: str) -> str:
        """Memory text to register text."""
        return f"up({text})" if dtype in ("float16", "bfloat16") else text

    def down(self, value: Scalar, dtype: str) -> str:
        """Register value to memory text of a dtype."""
        register = register_type(dtype)
        if dtype in ("float16", "bfloat16"):
            text = value.text if value.ctype == "float" else f"float({value.text})"
            return f"Down<{storage_type(dtype, self.program.dialect)}>::from({text})"
        if value.ctype == register:
            return value.text
        return f"{value.text} != 0" if register == "bool" else f"{register}({value.text})"

    def signature(self) -> str:
        dialect = self.program.dialect
        parts = []
        for leaf, written in self._pointers.items():
            const = "" if written else "const "
            parts.append(f"{const}{storage_type(leaf.dtype, dialect)}* __restrict__ {leaf.name}")
        parts += [f"index_t {name}" for name in self._sizes.values()]
        parts += [f"double {name}" for name in self._reals.values()]
        return ", ".join(parts)

    def arguments(self) -> str:
        dialect = self.program.dialect
        parts = []
        self.program.used.update(self._pointers)
        for leaf, written in self._pointers.items():
            const = "" if written else "const "
            kind = f"{const}{storage_type(leaf.dtype, dialect)}*"
            parts.append(f"static_cast<{kind}>({leaf.name}.data_ptr())")
        parts += [f"static_cast<index_t>({n.host})" for n in self._sizes]
        parts += [r.expr for r in self._reals]
        return ", ".join(parts)


class Program:
    """One host function: its arguments, buffers and launches, in order."""

    def __init__(self, dialect: Dialect, schedule: Schedule, largest: Num, entry: str) -> None:
        """largest: the element count of the largest tensor anywhere in the graph."""
        self.dialect = dialect
        self.schedule = schedule
        self.entry = entry
        self.index_type = "int" if largest < _INT_ELEMENTS else "int64_t"
        self.parameters: list[Leaf] = []
        self.written: set[Leaf] = set()
        """Arguments that are changed in place (running statistics)."""
        self.used: set[Leaf] = set()
        """Everything that a kernel has a pointer to."""
        self.results: list[Leaf] = []
        self.notes: list[str] = []
        """One line for each kernel: what it does."""
        self.aligned: set[Leaf] = set()
        """Arguments that are read or written 16 bytes at a time."""
        self._memory: dict[Value, Leaf] = {}
        self._replaced: dict[Value, Value] = {}
        self._device: list[str] = []
        self._host: list[str] = []
        self._names: dict[str, int] = {}

    # --- memory --------------------------------------------------------------------------------

    def memory(self, value: Value) -> Leaf | None:
        """The buffer that holds the value, if it has been stored."""
        return value if isinstance(value, Leaf) else self._memory.get(value)

    def affine(self, value: Value) -> Affine | None:
        """Where an element lies in memory, if the value is a leaf, stored, or views of such."""
        return affine(value, self.memory)

    def place(self, value: Value, leaf: Leaf) -> None:
        """From here on the value can be read from leaf."""
        self._memory[value] = leaf

    def buffer(self, shape: Shape, dtype: str, prefix: str = "t") -> Leaf:
        """A new uninitialised tensor."""
        leaf = Leaf(self._unique(prefix), shape, dtype)
        sizes = ", ".join(n.host for n in shape)
        self._host.append(
            f"at::Tensor {leaf.name} = at::empty({{{sizes}}}, options.dtype({scalar_type(dtype)}));"
        )
        return leaf

    def current(self, value: Value) -> Value:
        """What stands for the value now (a reduction that was cut is its second stage)."""
        while value in self._replaced:
            value = self._replaced[value]
        return value

    def replace(self, value: Value, by: Value) -> None:
        self._replaced[value] = by

    def checkpoint(self) -> tuple[Any, ...]:
        """For `rollback`, when a kernel turns out not to be writable yet."""
        return (dict(self._memory), dict(self._replaced), list(self._device), list(self._host),
                dict(self._names), list(self.notes), set(self.aligned))  # fmt: skip

    def rollback(self, mark: tuple[Any, ...]) -> None:
        (self._memory, self._replaced, self._device, self._host,
         self._names, self.notes, self.aligned) = mark  # fmt: skip

    # --- kernels -------------------------------------------------------------------------------

    def kernel(self, name: str) -> Kernel:
        return Kernel(self, self._unique(name + "_kernel"))

    def body(self, kernel: Kernel) -> Body:
        return Body(kernel)

    def add(self, kernel: Kernel, lines: Sequence[str], launch: Launch, note: str = "") -> None:
        """The finished kernel, launched after everything added before. lines: its body."""
        threads = 1
        for n in launch.block:
            threads *= n
        text = "\n".join(f"  {line}" for line in lines)
        self._device.append(
            f"__global__ void __launch_bounds__({threads}) {kernel.name}({kernel.signature()}) {{\n"
            f"{text}\n}}\n"
        )
        call = (
            f"{kernel.name}<<<dim3({', '.join(launch.grid)}), "
            f"dim3({', '.join(map(str, launch.block))}), {launch.shared}, stream>>>"
            f"({kernel.arguments()});\n{self.dialect.launch_check}"
        )
        self._launch(call, launch.work)
        self.notes.append(f"{kernel.name}: {note}" if note else kernel.name)

    def device_code(self, text: str) -> None:
        """Device functions or types before the kernels; the same text is written once."""
        if text not in self._device:
            self._device.append(text)

    def host_code(self, line: str) -> None:
        """A statement of the host function, at this point of the order."""
        self._host.append(line)

    def _launch(self, call: str, work: Num | None) -> None:
        if work is not None and work.literal and work.own == 0:
            return
        if work is not None and not work.literal:
            call = f"if ({work.host} > 0) {{\n" + call.replace("\n", "\n  ") + "\n}"
        self._host.extend(call.split("\n"))

    def _unique(self, prefix: str) -> str:
        self._names[prefix] = count = self._names.get(prefix, 0) + 1
        return f"{prefix}{count}" if count > 1 or prefix == "t" else prefix

    # --- text ----------------------------------------------------------------------------------

    def device_and_host(self) -> str:
        """All text so far, to see which dimensions it names."""
        return "\n".join([*self._device, *self._host])

    def device_source(self) -> str:
        headers = ["torch/extension.h", *self.dialect.runtime_headers]
        text = self.device_and_host()
        needs_half = re.search(r"\bup\(|\bDown<", text) is not None
        if needs_half:
            headers += self.dialect.half_headers
        lines = [f"#include <{h}>" for h in headers] + [
            "#include <cmath>",
            "#include <cstdint>",
            "",
        ]
        lines.append(f"using index_t = {self.index_type};")
        if needs_half:
            lines.append(half_prelude(self.dialect))
        if "blocks_for(" in text:
            lines.append(_BLOCKS_FOR)
        return "\n".join(lines) + "\n" + "\n".join(self._device) + "\n" + self._host_function()

    def prototype(self) -> str:
        result = "torch::Tensor" if len(self.results) == 1 else "std::vector<torch::Tensor>"
        taken = ", ".join(f"torch::Tensor {leaf.name}" for leaf in self.parameters)
        return f"{result} {self.entry}({taken})"

    def _host_function(self) -> str:
        lines = [self.prototype() + " {"]
        lines += [f"  {line}" for line in self._checks()]
        if self.parameters:
            first = self.parameters[0].name
            lines.append(f"  {self.dialect.guard.format(first)}")
            lines.append(f"  const auto options = {first}.options();")
        lines.append(f"  auto stream = {self.dialect.stream};")
        lines += [f"  {line}" for line in self._host]
        names = ", ".join(leaf.name for leaf in self.results)
        lines.append(f"  return {names};" if len(self.results) == 1 else f"  return {{{names}}};")
        return "\n".join([*lines, "}"])

    def _checks(self) -> list[str]:
        """Refuse at run time what the source was not written for."""
        lines = []
        for leaf in self.parameters:
            lines.append(
                f"TORCH_CHECK({leaf.name}.scalar_type() == {scalar_type(leaf.dtype)} && "
                f'{leaf.name}.dim() == {leaf.rank}, "{leaf.name}: {leaf.dtype} tensor of '
                f'{leaf.rank} dims expected");'
            )
            fixed = [
                f"{leaf.name}.size({d}) == {n.own}" for d, n in enumerate(leaf.shape) if n.literal
            ]
            if fixed:
                lines.append(
                    f'TORCH_CHECK({" && ".join(fixed)}, "{leaf.name}: this kernel is written '
                    'for another shape");'
                )
            if leaf in self.written:
                lines.append(
                    f'TORCH_CHECK({leaf.name}.is_contiguous(), "{leaf.name} must be contiguous");'
                )
            else:
                lines.append(f"{leaf.name} = {leaf.name}.contiguous();")
                if leaf in self.aligned:
                    address = f"reinterpret_cast<uintptr_t>({leaf.name}.data_ptr())"
                    lines.append(f"if ({address} % 16 != 0) {leaf.name} = {leaf.name}.clone();")
        return lines


_BLOCKS_FOR = """
static unsigned blocks_for(int64_t work, int64_t per_block) {
  const int64_t blocks = (work + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < 65536 ? blocks : 65536);
}
"""


class Epilogue:
    """Takes a custom kernel's finished elements, applies what was fused after, and stores."""

    def __init__(self, of: Custom, stores: Sequence[tuple[Value, Leaf]]) -> None:
        self.of = of
        self.stores = tuple(stores)

    @property
    def plain(self) -> bool:
        """Nothing is fused: the element itself is stored, in order."""
        return all(value is self.of or value in self.of.outputs for value, _ in self.stores)

    def store(self, body: Body, at: Coordinates, *results: Scalar) -> None:
        """results: the element of `of`, then of each of `of.outputs`, at coordinates `at`."""
        at = tuple(index(i) for i in at)
        made: tuple[Value, ...] = (self.of, *self.of.outputs)
        for value, scalar in zip(made, results, strict=True):
            body.bind(value, at, body.cast(scalar, register_type(value.dtype)))
        for value, leaf in self.stores:
            where = self._where(body, value, at)
            body.store(leaf, linear(where, leaf.shape), body.read(value, where))

    def _where(self, body: Body, value: Value, at: Coordinates) -> Coordinates:
        """Which element of a fused value is made from the element at `at`."""
        if value is self.of or value in self.of.outputs:
            return reshaped(at, self.of.shape, value.shape)
        return _inverse(body.kernel.program, value, self.of, at) or reshaped(
            at, self.of.shape, value.shape
        )


class _Watch(Body):
    """Notes where a value reads another one."""

    def __init__(self, program: Program, of: Custom) -> None:
        super().__init__(Kernel(program, "trial"))
        self.of, self.seen = of, set[Coordinates]()

    def read(self, value: Value, at: Sequence[Index]) -> Scalar:
        if value is self.of or value in self.of.outputs:
            self.seen.add(tuple(at))
            return Scalar("x", register_type(value.dtype))
        return super().read(value, at)


def _inverse(program: Program, value: Value, of: Custom, at: Coordinates) -> Coordinates | None:
    """Coordinates of value that read `of` at `at`, where value permutes or flips whole dims."""
    free = tuple(variable(f"w{k}", n) for k, n in enumerate(value.shape))
    watch = _Watch(program, of)
    watch.read(value, free)
    if len(watch.seen) != 1:
        return None
    (seen,) = watch.seen
    found: dict[Index, Index] = {}
    for read, wanted in zip(seen, at, strict=True):
        for w in free:
            for sign in (1, -1):
                if not w.is_zero and (read - w * sign).terms == frozenset():
                    found[w] = (wanted - (read - w * sign)) * sign
    if any(not w.is_zero and w not in found for w in free):
        return None
    return tuple(index(0) if w.is_zero else found[w] for w in free)
