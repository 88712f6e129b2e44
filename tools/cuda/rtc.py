"""Device code through NVRTC, which takes a tenth of nvcc's time: what it is given to compile.

Only what runs on the device is left of a source, each line in its place. A construct that NVRTC or
our small prelude does not know ends in an error there, and nvcc then has the last word: nothing is
refused, and nothing accepted, that nvcc would see otherwise.
"""

import functools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from musaagent.tools.host.lexer import Kind, Token, directives
from musaagent.tools.host.scopes import Function
from musaagent.tools.host.sources import Piece, SourceSet, split_flags
from musaagent.tools.host.toolchain import nvidia_wheels

RTC_NAME = "rtc"
RTC_UNIT = "device.cu"
RTC_LOG = "rtc.log"
SYMBOLS = "symbols.txt"
PRELUDE = "musacuda_rtc.h"
_KEPT_HEADERS = (
    *("cuda_fp16", "cuda_bf16", "cuda_fp8", "cooperative_groups", "mma.h", "cuda_pipeline"),
    *("curand_kernel", "vector_types", "cuda/"),
)
# Statements at namespace scope that hold one of these words are about the host.
_HOST_WORDS = frozenset(
    "torch at c10 pybind11 py caffe2 vector string map unordered_map tuple optional function mutex"
    " once_flag atomic thread cudaStream_t cudaEvent_t cudaError_t iostream unique_ptr shared_ptr"
    " TORCH_LIBRARY TORCH_LIBRARY_IMPL PYBIND11_MODULE".split()
)
_NO_VARIABLE = frozenset(
    "struct class union enum using typedef constexpr const namespace extern template static_assert"
    " __device__ __constant__ __shared__".split()
)
# Host members that shape a class's layout cannot be left out.
_NOT_FOR_RTC = frozenset({"virtual", "__managed__", "curand", "thrust", "cub", "__CUDACC_RTC__"})
# torch's own half types, which dispatch macros bring in.
_HALF_HEADER = "musahost_thin/half.h"
_HALF_WORDS = frozenset({"Half", "BFloat16", "kHalf", "kBFloat16"}) | {
    f"AT_DISPATCH_{kind}{rest}"
    for kind in ("FLOATING_TYPES_AND", "ALL_TYPES_AND", "FLOATING_AND_COMPLEX_TYPES_AND")
    for rest in ("_HALF", "", "2", "3")
}
_DROPPED_FLAGS: tuple[str, ...] = (
    *("-O", "--optimize", "--expt", "-expt", "-Xcompiler", "-Xptxas=-v", "--ptxas-options=-v"),
    *("--extended-lambda", "-extended-lambda", "-std", "--std", "-w", "-lineinfo"),
)
_KEPT_FLAGS: tuple[str, ...] = (
    *("-D", "-U", "--use_fast_math", "-use_fast_math", "--maxrregcount", "-maxrregcount"),
    *("-fmad", "--fmad", "-ftz", "--ftz", "-prec-div", "--prec-div", "-prec-sqrt", "--prec-sqrt"),
    *("-restrict", "--restrict"),
)


@dataclass(frozen=True)
class Rtc:
    """Our program around NVRTC, and the library that it loads."""

    program: Path
    library: Path
    headers: Path
    """Folder of the prelude."""
    thin_headers: Path

    @property
    def identity(self) -> str:
        size = self.library.stat().st_size
        return f"{self.program.parent.name} {self.headers.name} {self.library} {size}"


@functools.cache
def find_nvrtc(toolkit: Path | None) -> Path | None:
    """libnvrtc.so of the toolkit in folder `toolkit`, or of the wheels that torch uses."""
    folders = [toolkit / name for name in ("lib64", "lib")] if toolkit else []
    folders += [place / "lib" for place in _wheels()]
    found = (path for folder in folders for path in sorted(folder.glob("libnvrtc.so*")))
    return next(found, None)


def wheel_headers() -> list[Path]:
    """CUDA's own headers as torch's wheels bring them, for a machine without the toolkit."""
    return [p / "include" for p in _wheels() if (p / "include" / "cuda_runtime.h").is_file()]


def _wheels() -> list[Path]:
    return [folder for root in nvidia_wheels() for folder in sorted(root.iterdir())]


def template_kernels(parts: Sequence[Piece]) -> list[str]:
    """Kernels that exist only where host code instantiates them."""
    functions = [f for part in parts for f in part.source.outline.functions]
    return sorted({f.name for f in functions if f.kernel and "template" in f.words})


def device_unit(parts: Sequence[Piece]) -> str | None:
    """The unit for NVRTC, None where it is not for it."""
    texts = [(part, device_text(part)) for part in parts if part.language == "cuda"]
    if not texts or any(text is None for _, text in texts):
        return None
    body = "".join(f'#line 1 "{part.label}"\n{text}\n' for part, text in texts)
    half = any(t.text in _HALF_WORDS for part in parts for t in part.source.tokens)
    head = f'#include "{PRELUDE}"\n' + (f"#include <{_HALF_HEADER}>\n" if half else "")
    return head + body


def rtc_flags(sources: SourceSet) -> list[str] | None:
    """The candidate's own flags that matter to device code; None where one is not understood."""
    kept: list[str] = []
    words = iter(split_flags(sources.extra_cuda_cflags))
    for word in words:
        if word in ("-Xcompiler", "--compiler-options", "-Xptxas", "--ptxas-options"):
            value = next(words, "")
            if "ptxas" in word and value not in ("-v", "-O3", "-O2"):
                return None
        elif word in ("-D", "-U", "-maxrregcount", "--maxrregcount"):
            name = "--maxrregcount=" if "max" in word else word
            kept.append(name + next(words, ""))
        elif word.startswith(_KEPT_FLAGS):
            kept.append("--" + word.lstrip("-") if "maxrregcount" in word else word)
        elif not word.startswith(_DROPPED_FLAGS):
            return None
    return kept


def rtc_command(
    rtc: Rtc,
    arch: str,
    include: Sequence[Path],
    flags: Sequence[str],
    kernels: Sequence[str],
    cubin: str,
) -> str:
    """A shell command that writes the cubin, or fails; its log goes to RTC_LOG."""
    # nvcc adds the folder of cuda/std by itself.
    include = [*include, *(path / "cccl" for path in include if (path / "cccl").is_dir())]
    folders = [f"-I{path}" for path in (rtc.headers, rtc.thin_headers, *include)]
    line = [str(rtc.program), str(rtc.library), RTC_UNIT, cubin, SYMBOLS, ",".join(kernels)]
    line += [f"-arch={arch}", "-std=c++20", "--ptxas-options=-v", "-lineinfo", *folders, *flags]
    return f"{shlex.join(line)} >{RTC_LOG} 2>&1"


def engine_of(log: str) -> str:
    """`nvrtc 13.0` where NVRTC made the device part, else ''."""
    first = log.split("\n", 1)[0]
    return first if first.startswith("nvrtc ") else ""


def device_text(part: Piece) -> str | None:
    """Only what the device compiles, with all lines in their places."""
    source = part.source
    tokens = source.tokens
    if any(t.kind is Kind.WORD and t.text in _NOT_FOR_RTC for t in tokens if not t.directive):
        return None
    gone = _host_ranges(part) | _host_includes(tokens)
    inserts = {
        place: "__host__ __device__ "
        for function in source.outline.functions
        if (place := _constexpr_place(tokens, function)) is not None
    }
    out: list[str] = []
    index = 0
    while index < len(tokens):
        end = gone.get(index)
        if end is not None:
            out.append("\n" * sum(t.text.count("\n") for t in tokens[index:end]))
            index = end
            continue
        out.append(inserts.get(index, "") + tokens[index].text)
        index += 1
    return "".join(out)


def _host_ranges(part: Piece) -> dict[int, int]:
    """Start to end of every function and statement that is about the host alone."""
    source = part.source
    tokens, gone = source.tokens, {}
    for function in source.outline.functions:
        if not function.words & {"__global__", "__device__", "constexpr"}:
            last = function.body[1] if function.body else _semicolon(tokens, function)
            gone[function.start] = last + 1
    for start, end in source.outline.others:
        if any(s < start and end < e for s, e in source.outline.others):
            continue  # a member of a class that stays or goes as a whole
        words = {t.text for t in tokens[start:end] if t.kind is Kind.WORD}
        device = words & {"__device__", "__constant__", "__shared__"}
        if (words & _HOST_WORDS and not device) or not words & _NO_VARIABLE:
            gone[start] = end + 1
    return gone


def _semicolon(tokens: Sequence[Token], function: Function) -> int:
    index = function.parameters[1]
    while index < len(tokens) - 1 and tokens[index].text != ";":
        index += 1
    return index


def _host_includes(tokens: Sequence[Token]) -> dict[int, int]:
    gone = {}
    for directive in directives(tokens):
        if directive.name != "include":
            continue
        words = tokens[directive.start : directive.end]
        name = next((t.text[1:-1] for t in words if t.kind is Kind.HEADER), "")
        if not name.startswith(_KEPT_HEADERS):
            gone[directive.start] = directive.end
    return gone


def _constexpr_place(tokens: Sequence[Token], function: Function) -> int | None:
    """Where an unmarked constexpr function gets the marks that nvcc's relaxed mode implies."""
    if "constexpr" not in function.words or function.words & {"__device__", "__host__"}:
        return None
    for index in range(function.start, function.parameters[0]):
        if tokens[index].text == "constexpr":
            return index
    return None
