"""What the run-time errors of CUDA and MUSA mean, in words that say where to look."""

import re

_MEANINGS = (
    (
        r"SIGSEGV|SIGBUS",
        "The kernel or its host function touched memory far outside its buffers. Guard each index "
        "by the number of elements, and check strides, allocation sizes and pointers.",
    ),
    (
        r"SIGFPE",
        "An integer was divided by zero, in an index or in the grid's size.",
    ),
    (
        r"illegal memory access|(?:cuda|musa)ErrorIllegalAddress|error 700",
        "A thread read or wrote outside its buffers. Guard each index by the number of elements, "
        "and check the strides and the size of every allocation.",
    ),
    (
        r"misaligned address|error 716",
        "A vector load (float4, int2) hit an address that is not a multiple of its size. Check "
        "the offset, or load single elements at the edges.",
    ),
    (
        r"invalid configuration argument|error 9\b",
        "The launch asks for what no device allows: 0 blocks, more than 1024 threads in a block, "
        "or more than 65535 blocks in y or z.",
    ),
    (
        r"too many resources requested|out of resources|error 701",
        "The block needs more registers than there are. Use fewer threads in a block, or "
        "__launch_bounds__.",
    ),
    (
        r"invalid argument|error 1\b",
        "An argument of the launch or of a runtime call is wrong; most often more dynamic shared "
        "memory than 48 KiB without cudaFuncSetAttribute.",
    ),
    (
        r"no kernel image|invalid device function|error 209|error 98\b",
        "The kernel was not built for this device. Do not set -arch or -gencode.",
    ),
    (
        r"launch timed out|error 702",
        "The kernel ran too long: look for a loop that never ends.",
    ),
    (
        r"device-side assert|error 710",
        "An assert in a kernel failed; most often an index that comes from the data.",
    ),
    (
        r"unspecified launch failure|error 719",
        "The kernel crashed, most often by a bad pointer: host memory, a freed tensor or a wrong "
        "cast of data_ptr.",
    ),
    (
        r"illegal instruction|illegal barrier|error 715",
        "Threads of a block reached different barriers, or a warp operation had lanes missing.",
    ),
    (
        r"expected scalar type (\w+) but found (\w+)",
        "data_ptr<T>() was called with another type than the tensor's. Choose T by the dtype of "
        "the reference's tensor.",
    ),
    (
        r"incompatible function arguments",
        "Python calls the function with other arguments than its C++ signature takes. Compare "
        "their number, order and types; scalars are double, int64_t or bool.",
    ),
    (
        r"out of memory",
        "It asked for more memory than there is. Allocate the outputs and small scratch only.",
    ),
)
_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), text) for pattern, text in _MEANINGS)


def cuda_error_meaning(text: str) -> str:
    """The meaning of the first known error in a message; empty where none is known."""
    return next((meaning for pattern, meaning in _COMPILED if pattern.search(text)), "")
