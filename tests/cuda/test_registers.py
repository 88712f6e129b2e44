"""Launches that a GPU refuses for their registers."""

import pytest

from musaagent.tools.registers import register_flags
from musaagent.tools.results import KernelResources, Launch


def kernel(name: str, registers: int) -> KernelResources:
    return KernelResources(
        kernel=name,
        arch="sm_90",
        registers=registers,
        spill_store_bytes=0,
        spill_load_bytes=0,
        static_shared_bytes=0,
        stack_bytes=0,
    )


def launch(name: str, *block: int) -> Launch:
    x, y, z = (*block, 1, 1)[:3]
    return Launch(kernel=name, grid=(1, 1, 1), block=(x, y, z), shared_bytes=0)


@pytest.mark.parametrize(
    ("registers", "block", "told"),
    [
        (64, (1024,), False),
        (65, (1024,), True),
        (72, (32, 32), True),
        (128, (512,), False),
        (129, (512,), True),
        (255, (256,), False),
        (136, (450,), False),
        (137, (450,), True),
        (255, (8, 8, 4), False),
    ],
)
def test_what_a_block_needs_is_counted_by_warps(
    registers: int, block: tuple[int, ...], told: bool
) -> None:
    flags = register_flags([kernel("k", registers)], [launch("k", *block)])
    assert bool(flags) is told, flags


def test_the_largest_block_of_a_launched_kernel_counts() -> None:
    kernels = [kernel("wide<512>(int)", 100), kernel("other", 255)]
    launches = [launch("wide<512>(int)", 128), launch("wide<512>(int)", 1024)]
    (flag,) = register_flags(kernels, launches)
    assert flag.startswith("registers: kernel wide<512>(int) takes 100 a thread for sm_90")
    assert "1024 threads" in flag
