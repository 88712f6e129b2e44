"""Sliding windows: the argument forms of convolutions and pooling, and the loop nest over one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from musaagent.policies.builtin.body import Body
from musaagent.policies.builtin.index import Index, variable
from musaagent.policies.builtin.kernel import Kernel
from musaagent.policies.builtin.sizes import Num, num

Sizes = Sequence[int | Num] | int | Num


def spread(value: Sizes, rank: int) -> tuple[Num, ...]:
    """One number for each spatial dim; a single one serves all."""
    if isinstance(value, (int, Num)):
        return (num(value),) * rank
    nums = tuple(num(v) for v in value)
    return nums * rank if len(nums) == 1 else nums


@dataclass(frozen=True)
class Window:
    """Kernel extents and how they move, one entry for each spatial dim."""

    kernel: tuple[Num, ...]
    stride: tuple[Num, ...]
    padding: tuple[Num, ...]
    dilation: tuple[Num, ...]

    @property
    def rank(self) -> int:
        return len(self.kernel)


def element_loop(body: Body, count: Num, inner: Callable[[Index], None]) -> None:
    """A grid-stride loop over results; `e` is the element's flat index, at level 1."""
    with body.inner() as scope:
        inner(variable("e", count, 1))
    first = "static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x"
    step = "static_cast<index_t>(gridDim.x) * blockDim.x"
    head = f"for (index_t e = {first}; e < {body.kernel.size(count)}; e += {step})"
    body.block(head, scope)


def window_loops(
    body: Body, window: Window, level: int, place: Callable[[int], list[str]],
    inner: Callable[[tuple[Index, ...], tuple[Index, ...]], None], extents: Sequence[Num],
) -> None:  # fmt: skip
    """Loops k0.. over the kernel; `place(d)` writes lines that set `p{d}` or `continue`.

    `inner` gets the kernel's and the input's coordinates; the first loop's scope is `level`.
    """

    def nest(d: int) -> None:
        if d == window.rank:
            kernel = tuple(variable(f"k{i}", n, level + i) for i, n in enumerate(window.kernel))
            places = tuple(variable(f"p{i}", n, level + i) for i, n in enumerate(extents))
            inner(kernel, places)
            return
        with body.inner() as scope:
            for line in place(d):
                body.line(line)
            nest(d + 1)
        body.block(f"for (index_t k{d} = 0; k{d} < {body.kernel.size(window.kernel[d])}; ++k{d})",
                   scope)  # fmt: skip

    nest(0)


def gathered(kernel: Kernel, d: int, at: str, window: Window, extent: Num) -> list[str]:
    """`p{d}` = at * stride + k * dilation - padding, or on to the next k when it is outside."""
    size = kernel.size
    text = f"{at} * {size(window.stride[d])} + k{d} * {size(window.dilation[d])}"
    return [
        f"const index_t p{d} = {text} - {size(window.padding[d])};",
        f"if (p{d} < 0 || p{d} >= {size(extent)}) continue;",
    ]
