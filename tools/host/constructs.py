"""What the host target cannot run, found on tokens: each as one diagnostic that names it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from musaagent.tools.host.launches import find_launches
from musaagent.tools.host.lexer import Kind, Token, directives, following, previous
from musaagent.tools.host.reading import Source, asm_is_empty, find_asm
from musaagent.tools.results import Diagnostic

INLINE_PTX = "inline PTX"
DYNAMIC_PARALLELISM = "dynamic parallelism"

# Names that stand before `::`.
_NAMESPACES = {
    "wmma": "wmma",
    "nvcuda": "wmma",
    "mtmusa": "wmma",
    "thrust": "Thrust",
    "cutlass": "CUTLASS",
    "cute": "CuTe",
    "cluster_group": "thread block clusters",
    "nvrtc": "NVRTC",
}
# Beginnings of names; what follows must be a capital letter or an underscore.
_PREFIXES = {
    "cublasLt": "cuBLASLt",
    "cublas": "cuBLAS",
    "CUBLAS": "cuBLAS",
    "mublas": "muBLAS",
    "cudnn": "cuDNN",
    "CUDNN": "cuDNN",
    "mudnn": "muDNN",
    "cusparse": "cuSPARSE",
    "CUSPARSE": "cuSPARSE",
    "cusolver": "cuSOLVER",
    "CUSOLVER": "cuSOLVER",
    "cufft": "cuFFT",
    "CUFFT": "cuFFT",
    "mufft": "muFFT",
    "nccl": "NCCL",
    "cudaGraph": "CUDA graphs",
    "musaGraph": "MUSA graphs",
    "__nv_fp8": "fp8",
    "__nv_fp6": "fp6",
    "__nv_fp4": "fp4",
    "cp_async_bulk": "TMA",
    "nvrtc": "NVRTC",
    "cuModule": "CUDA driver API",
    "cuLaunch": "CUDA driver API",
}
_WORDS = {
    "this_multi_grid": "multi-device grid sync",
    "this_cluster": "thread block clusters",
    "__cluster_dims__": "thread block clusters",
    "cudaLaunchAttributeClusterDimension": "thread block clusters",
    "map_shared_rank": "thread block clusters",
    "CUtensorMap": "TMA",
    "cuTensorMapEncodeTiled": "TMA",
    "cudaStreamBeginCapture": "CUDA graphs",
    "cudaStreamEndCapture": "CUDA graphs",
    "musaStreamBeginCapture": "MUSA graphs",
    "CUDAGraph": "CUDA graphs",
    "getCurrentCUDABlasHandle": "cuBLAS",
    "getCudnnHandle": "cuDNN",
    "cudaTextureObject_t": "textures",
    "cudaCreateTextureObject": "textures",
    "musaTextureObject_t": "textures",
    "tex1D": "textures",
    "tex1Dfetch": "textures",
    "tex2D": "textures",
    "tex2DLayered": "textures",
    "tex3D": "textures",
    "cudaSurfaceObject_t": "surfaces",
    "surf1Dread": "surfaces",
    "surf2Dread": "surfaces",
    "surf2Dwrite": "surfaces",
    "curandCreateGenerator": "cuRAND host API",
    "curandGenerateUniform": "cuRAND host API",
    "curandGenerateNormal": "cuRAND host API",
}
# Headers that only serve what cannot run. One that is included and not used does no harm.
_HEADERS = {
    "mma.h": "wmma",
    "mma.hpp": "wmma",
    "crt/mma.h": "wmma",
    "cublas_v2.h": "cuBLAS",
    "cublas.h": "cuBLAS",
    "cublas_api.h": "cuBLAS",
    "cublasLt.h": "cuBLASLt",
    "mublas.h": "muBLAS",
    "cudnn.h": "cuDNN",
    "mudnn.h": "muDNN",
    "cusparse.h": "cuSPARSE",
    "cusolverDn.h": "cuSOLVER",
    "cufft.h": "cuFFT",
    "cufftXt.h": "cuFFT",
    "nccl.h": "NCCL",
    "nvrtc.h": "NVRTC",
    "curand.h": "cuRAND host API",
    "cuda_fp8.h": "fp8",
    "cuda_fp6.h": "fp6",
    "cuda_fp4.h": "fp4",
    "musa_fp8.h": "fp8",
    "cudaTypedefs.h": "TMA",
    "cuda/ptx": "TMA",
    "texture_fetch_functions.h": "textures",
    "texture_types.h": "textures",
    "surface_functions.h": "surfaces",
    "ATen/cuda/CUDABlas.h": "cuBLAS",
    "ATen/cudnn/Handle.h": "cuDNN",
    "ATen/cuda/CUDAGraph.h": "CUDA graphs",
}
_HEADER_FOLDERS = {
    "thrust": "Thrust",
    "cutlass": "CUTLASS",
    "cute": "CuTe",
    "cudnn_frontend": "cuDNN",
}


@dataclass(frozen=True)
class Hit:
    """One use. `certain`: no macro and no conditional decides whether it is compiled."""

    diagnostic: Diagnostic
    certain: bool


def header_construct(header: str) -> str | None:
    """The construct that a header serves, None for every other header."""
    return _HEADERS.get(header) or _HEADER_FOLDERS.get(header.split("/", 1)[0])


def refusal(construct: str, source: str, line: int, text: str = "") -> Diagnostic:
    """The one form in which the host target refuses a construct."""
    return Diagnostic(
        tool="host",
        severity="error",
        message=f"the host target cannot run {construct}",
        source=source,
        line=line,
        text=text.strip(),
        construct=construct,
    )


def unused_headers(source: Source) -> frozenset[str]:
    """Headers of constructs that cannot run; left out, so that only a use is refused."""
    return frozenset(
        token.text[1:-1]
        for token in source.tokens
        if token.kind is Kind.HEADER and header_construct(token.text[1:-1])
    )


def find_constructs(source: Source, label: str, text: str) -> list[Hit]:
    """All uses in one source, one a line and construct, in order."""
    tokens = source.tokens
    lines = text.splitlines()
    own = {f.name for f in source.outline.functions}
    conditional = _conditional(tokens)
    uses = {index: _use(source, index, own) for index in range(len(tokens))}
    uses |= {launch.open: _device_launch(source, launch.open) for launch in find_launches(tokens)}
    hits: list[Hit] = []
    seen: set[tuple[str, int]] = set()
    for index, construct in sorted(uses.items()):
        line = tokens[index].line
        if construct is None or (construct, line) in seen or source.skipped(index):
            continue
        seen.add((construct, line))
        shown = lines[line - 1] if line <= len(lines) else ""
        certain = not tokens[index].directive and index not in conditional
        if construct == INLINE_PTX:
            # Compiled to a call that only counts where it is reached; at file scope it cannot be.
            certain = certain and source.outline.function_at(index) is None
        hits.append(Hit(refusal(construct, label, line, shown), certain))
    return hits


def _use(source: Source, index: int, own: set[str]) -> str | None:
    token = source.tokens[index]
    if token.kind is not Kind.WORD:
        return None
    if find_asm(source, index) is not None:
        return None if asm_is_empty(source.tokens, index) else INLINE_PTX
    if token.text in own or _is_member(source.tokens, index):
        return None
    if token.text in _NAMESPACES:
        after = following(source.tokens, index)
        qualifies = after < len(source.tokens) and source.tokens[after].text == "::"
        before = previous(source.tokens, index)
        opened = before >= 0 and source.tokens[before].text == "namespace"
        return _NAMESPACES[token.text] if qualifies or opened else None
    if token.text in _WORDS:
        return _WORDS[token.text]
    return _by_prefix(token.text)


def _is_member(tokens: Sequence[Token], index: int) -> bool:
    before = previous(tokens, index)
    return before >= 0 and tokens[before].text in (".", "->")


def _by_prefix(word: str) -> str | None:
    for prefix, construct in _PREFIXES.items():
        if word.startswith(prefix):
            rest = word[len(prefix) :]
            if rest[:1].isupper() or rest[:1] == "_":
                return construct
    return None


def _device_launch(source: Source, index: int) -> str | None:
    function = source.outline.function_at(index)
    if function is None or not function.device or not _is_balanced(source.tokens, function.body):
        return None
    return DYNAMIC_PARALLELISM


def _is_balanced(tokens: Sequence[Token], body: tuple[int, int] | None) -> bool:
    """A bracket that is missing makes the outline guess where a function ends."""
    if body is None:
        return False
    counts = Counter(t.text for t in tokens[body[0] : body[1] + 1])
    return all(counts[a] == counts[b] for a, b in ("()", "[]", "{}"))


def _conditional(tokens: Sequence[Token]) -> set[int]:
    """Tokens inside any #if ... #endif."""
    found: set[int] = set()
    stack: list[int] = []
    for directive in directives(tokens):
        if directive.name in ("if", "ifdef", "ifndef"):
            stack.append(directive.end)
        elif directive.name == "endif" and stack:
            start = stack.pop()
            if not stack:
                found.update(range(start, directive.start))
    return found
