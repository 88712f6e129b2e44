"""The fastest level: host part by g++ with a precompiled header, device part by nvcc alone.

Both compilers run side by side. In the host part a kernel is a stub without a body; its symbol has
the same mangled name as the kernel in the cubin, and that is how a launch finds it. Whatever needs
one compiler to see both sides (device symbols, static kernels, device lambdas) is not for this
level.
"""

import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from musaagent.tools.cuda.commands import (
    MESSAGES,
    MODULE_NAME,
    Places,
    Script,
    link_flags,
    nvcc_command,
    shared_flags,
)
from musaagent.tools.cuda.toolchain import CudaToolkit
from musaagent.tools.cuda.units import CudaUnit, make_units, module_lines, name_lines
from musaagent.tools.host.launches import find_launches
from musaagent.tools.host.lexer import Kind
from musaagent.tools.host.scopes import Function
from musaagent.tools.host.sources import Piece, SourceSet, can_merge, split_flags
from musaagent.tools.host.toolchain import Compiler
from musaagent.tools.ptxas import demangle

CUBIN_NAME = "device.cubin"
PRELUDE = "prelude.h"
PRELUDE_TEXT = """#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <musacuda_split.h>
"""
# What looks a device symbol or a kernel up by its host address, or needs nvcc in host code.
_TOGETHER = re.compile(
    r"cuda\w*Symbol\w*|cudaLaunch\w+|cudaOccupancy\w+|cudaFunc(?:Get|SetCache|SetShared)\w+|thrust|cub|cutlass"
    r"|cute|__CUDACC__|__NVCC__|cudaGraph\w+|cuModule\w+"
)
_ANONYMOUS = re.compile(r"\bnamespace\s*\{")
_DEVICE_HEADERS = (
    "cooperative_groups",
    "cub/",
    "mma.h",
    "cuda/",
    "curand_kernel.h",
    "cuda_pipeline",
)
# No folding of stubs that look alike: their addresses are their identities.
HOST_FLAGS = ("-O1", "-fPIC", "-fno-ipa-icf", "-pthread", "-w")


def split_script(
    sources: SourceSet,
    parts: Sequence[Piece],
    arch: str,
    toolkit: CudaToolkit,
    compiler: Compiler,
    places: Places,
) -> tuple[list[CudaUnit], Script] | None:
    """None where the sources need one compiler to see host and device code together."""
    if places.precompiled is None or sources.extra_include_paths or not can_merge(sources, parts):
        return None
    if not any(part.language == "cuda" for part in parts):
        return None
    texts = [host_text(part) for part in parts]
    if any(text is None for text in texts):
        return None
    device = make_units(sources, parts, "thin")
    if len(device) != 1:
        return None
    cpp, cuda = (
        "".join(
            f'#line 1 "{p.label}"\n{t}\n'
            for p, t in zip(parts, texts, strict=True)
            if p.language == language
        )
        for language in ("cpp", "cuda")
    )
    text = name_lines(sources, "split") + cpp + module_lines(sources, parts, "split") + cuda
    units = [CudaUnit("host.cpp", text, "g++"), device[0]]
    return units, _script(sources, arch, toolkit, compiler, places)


def _script(
    sources: SourceSet, arch: str, toolkit: CudaToolkit, compiler: Compiler, places: Places
) -> Script:
    assert places.precompiled is not None
    shared = shared_flags(sources, "split", places, toolkit)
    host = [compiler.path, *host_flags(places, toolkit), *_defined(sources), *MESSAGES]
    host += ["-include", str(places.precompiled / PRELUDE), "-shared", "host.cpp"]
    host += ["-o", MODULE_NAME, *link_flags("split", places, toolkit)]
    host += split_flags(sources.extra_ldflags)
    device = nvcc_command(toolkit, compiler, shared, arch, sources)
    device += ["-cubin", "cuda.cu", "-o", CUBIN_NAME]
    lines = [
        f"{shlex.join(device)} >device.log 2>&1 & p=$!",
        f"{shlex.join(host)} >host.log 2>&1; status=$?",
        "wait $p || status=1",
        "exit $status",
    ]
    return Script("\n".join(lines) + "\n", ("device.log", "host.log"))


def host_flags(places: Places, toolkit: CudaToolkit) -> list[str]:
    """Flags that the precompiled header and its users must share."""
    includes = [f"-I{places.split_headers}", f"-I{places.thin_headers}"]
    system = [word for path in toolkit.include for word in ("-isystem", str(path))]
    return ["-std=c++20", "-DMUSACUDA_DEVICE", *HOST_FLAGS, *includes, *system]


def _defined(sources: SourceSet) -> list[str]:
    flags = split_flags((*sources.extra_cflags, *sources.extra_cuda_cflags))
    return [flag for flag in flags if flag.startswith(("-D", "-U")) and len(flag) > 2]


def host_text(part: Piece) -> str | None:
    """The source for g++: kernels without bodies, launches as calls. None where that cannot be."""
    tokens = part.source.tokens
    outline = part.source.outline
    if _ANONYMOUS.search(part.text):
        return None
    gone: dict[int, int] = {}
    for function in outline.functions:
        if function.kernel and function.words & {"static", "inline"}:
            return None
        if _is_stub(function) and function.body is not None:
            gone[function.body[0]] = function.body[1]
    before: dict[int, str] = {}
    instead: dict[int, str] = {}
    for launch in find_launches(tokens):
        before[launch.kernel] = "::musacuda::launch("
        instead[launch.open] = ", ::musacuda::config("
        instead[launch.close] = "))"
    out: list[str] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if index in gone:
            end = gone[index]
            out.append("{" + "\n" * sum(t.text.count("\n") for t in tokens[index : end + 1]) + "}")
            index = end + 1
            continue
        if token.kind is Kind.WORD and (
            _TOGETHER.fullmatch(token.text) or _is_device_lambda(part, index)
        ):
            return None
        text = instead.get(index, token.text)
        if token.kind is Kind.HEADER and token.text[1:-1].startswith(_DEVICE_HEADERS):
            text = "<cstddef>"
        elif token.text == "cudaFuncSetAttribute":
            text = "::musacuda::set_attribute"
        out.append(before.get(index, "") + text)
        index += 1
    return "".join(out)


def _is_stub(function: Function) -> bool:
    return function.device and not function.words & {"constexpr", "consteval"}


def _is_device_lambda(part: Piece, index: int) -> bool:
    """`__device__` inside the body of a host function."""
    if part.source.tokens[index].text != "__device__":
        return False
    return any(
        f.body is not None and not f.device and f.body[0] < index < f.body[1]
        for f in part.source.outline.functions
    )


def missing_kernels(folder: Path, parts: Sequence[Piece]) -> list[str]:
    """Stubs of the host library that the cubin has no kernel for."""
    names = {f.name for part in parts for f in part.source.outline.functions if f.kernel}
    done = subprocess.run(
        ["nm", "-D", "--defined-only", str(folder / MODULE_NAME)], capture_output=True, text=True
    )
    symbols = [line.split()[-1] for line in done.stdout.splitlines() if line.split()]
    cubin = (folder / CUBIN_NAME).read_bytes()
    missing = []
    for symbol, full in zip(symbols, demangle(symbols), strict=True):
        base = full.split("<", 1)[0].rpartition("::")[2]
        if base in names and b"\0" + symbol.encode() + b"\0" not in cubin:
            missing.append(full)
    return missing
