"""The fastest level: host part by g++ with a precompiled header, device part by NVRTC or nvcc.

Both compilers run side by side. In the host part a kernel is a stub without a body; its symbol has
the same mangled name as the kernel in the cubin, and that is how a launch finds it. Whatever needs
one compiler to see both sides (device lambdas, managed variables) is not for this level.
"""

import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from musaagent.tools.cuda.commands import (
    HALF_FLAGS,
    MESSAGES,
    MODULE_NAME,
    Places,
    Script,
    link_flags,
    nvcc_command,
    shared_flags,
)
from musaagent.tools.cuda.linkage import exported
from musaagent.tools.cuda.rtc import (
    RTC_UNIT,
    SYMBOLS,
    device_unit,
    rtc_command,
    rtc_flags,
    template_kernels,
)
from musaagent.tools.cuda.toolchain import CudaToolkit, arch_flags
from musaagent.tools.cuda.units import CudaUnit, make_units, module_lines, name_lines
from musaagent.tools.host.launches import find_launches
from musaagent.tools.host.lexer import Kind
from musaagent.tools.host.scopes import Function
from musaagent.tools.host.sources import Piece, SourceSet, can_merge, split_flags
from musaagent.tools.host.toolchain import Compiler
from musaagent.tools.ptxas import demangle

CUBIN_NAME = "device.cubin"
DEVICE_LOG, HOST_LOG = "device.log", "host.log"
PRELUDE = "prelude.h"
PRELUDE_TEXT = """#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <musacuda_split.h>
"""
# What needs nvcc in host code, or finds a kernel in a way that the stubs do not serve.
_TOGETHER = re.compile(
    r"thrust|cub|cutlass|cute|__CUDACC__|__NVCC__|cudaGraph\w*KernelNode\w*|cuModule\w+|__managed__"
    r"|cudaLaunchKernelExC?|cudaGetFuncBySymbol|cudaOccupancy\w*Clusters?\w*|cudaLaunchAttribute\w*"
    r"|cudaOccupancyMaxPotentialBlockSizeVar\w*|cudaOccupancyAvailable\w*|cudaLaunchConfig_t"
)
# Calls that take a kernel or a device variable: ours find it by its stub's name.
_BY_STUB = {
    "cudaFuncSetAttribute": "set_attribute",
    "cudaFuncSetCacheConfig": "set_cache_config",
    "cudaFuncGetAttributes": "get_attributes",
    "cudaLaunchKernel": "launch_kernel",
    "cudaLaunchCooperativeKernel": "launch_cooperative",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor": "max_active_blocks",
    "cudaOccupancyMaxPotentialBlockSize": "max_potential_block_size",
    "cudaMemcpyToSymbol": "copy_to_symbol",
    "cudaMemcpyToSymbolAsync": "copy_to_symbol_async",
    "cudaMemcpyFromSymbol": "copy_from_symbol",
    "cudaGetSymbolAddress": "symbol_address",
}
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
    parts = [exported(part) for part in parts]
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
    by_rtc = _rtc_line(sources, parts, arch, toolkit, places)
    if by_rtc is not None:
        units.append(CudaUnit(RTC_UNIT, by_rtc.unit, "none"))
    return units, _script(sources, arch, toolkit, compiler, places, by_rtc)


@dataclass(frozen=True)
class _ByRtc:
    unit: str
    line: str
    after_host: bool
    """The instantiations of templates are known when the host part is there."""


def _rtc_line(
    sources: SourceSet, parts: Sequence[Piece], arch: str, toolkit: CudaToolkit, places: Places
) -> _ByRtc | None:
    unit, flags = device_unit(parts), rtc_flags(sources)
    if places.rtc is None or unit is None or flags is None:
        return None
    if arch_flags(arch, split_flags(sources.extra_cuda_cflags)) == []:
        return None  # the candidate names its own architectures
    templates = template_kernels(parts)
    flags = [*HALF_FLAGS, *flags]
    line = rtc_command(places.rtc, arch, toolkit.include, flags, templates, CUBIN_NAME)
    return _ByRtc(unit, line, bool(templates))


def _script(
    sources: SourceSet,
    arch: str,
    toolkit: CudaToolkit,
    compiler: Compiler,
    places: Places,
    by_rtc: _ByRtc | None,
) -> Script:
    """The device part is NVRTC's where it can be, nvcc's where not, or where NVRTC refuses it."""
    assert places.precompiled is not None
    shared = shared_flags(sources, "split", places, toolkit)
    host = [compiler.path, *host_flags(places, toolkit), *_defined(sources), *MESSAGES]
    host += ["-include", str(places.precompiled / PRELUDE), "-shared", "host.cpp"]
    host += ["-o", MODULE_NAME, *link_flags("split", places, toolkit)]
    host += split_flags(sources.extra_ldflags)
    device = nvcc_command(toolkit, compiler, shared, arch, sources, "split")
    device += ["-cubin", "cuda.cu", "-o", CUBIN_NAME]
    by_host = f"{shlex.join(host)} >{HOST_LOG} 2>&1; status=$?"
    by_nvcc = f"{shlex.join(device)} >{DEVICE_LOG} 2>&1"
    if by_rtc is None:
        lines = [f"{by_nvcc} & p=$!", by_host, "wait $p || status=1"]
    elif by_rtc.after_host:
        listed = f"nm -D -C --defined-only --format=just-symbols {MODULE_NAME}"
        names = f"{listed} >{SYMBOLS} 2>/dev/null"
        lines = [by_host, names, f"{by_rtc.line} || {by_nvcc} || status=1"]
    else:
        lines = [f": >{SYMBOLS}", f"{by_rtc.line} & p=$!", by_host]
        lines += [f"wait $p || {by_nvcc} || status=1"]
    return Script("\n".join([*lines, "exit $status"]) + "\n", (DEVICE_LOG, HOST_LOG))


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
    gone: dict[int, int] = {}
    for function in outline.functions:
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
        elif token.text in _BY_STUB and token.kind is Kind.WORD:
            text = f"::musacuda::{_BY_STUB[token.text]}"
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
