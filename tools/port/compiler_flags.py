"""nvcc's options as mcc's. mcc is clang: it takes clang's, and refuses what is nvcc's own."""

import re

_ARCH = re.compile(r"(-arch|--gpu-architecture|-gencode|--generate-code|-code|--gpu-code)\b")
_KEPT = re.compile(r"-(O[0-3sz]?|Ofast|Od\d|D.+|U.+|I.+|std=.+|f[a-z].*|W.*|w|g|march=.*|m.+)$")
# nvcc's own, without effect on what the kernel computes.
_DROPPED = re.compile(
    r"(--expt-(relaxed-constexpr|extended-lambda)|--extended-lambda|-extended-lambda|-Xptxas.*"
    r"|--ptxas-options.*|-lineinfo|--generate-line-info|--threads.*|-t=.*|--split-compile.*"
    r"|-v|--verbose|--resource-usage|-restrict|--restrict|-Xcompiler.*|--compiler-options.*"
    r"|-diag-suppress.*|--diag-suppress.*|--maxrregcount.*|-maxrregcount.*|-rdc=.*)$"
)
_FAST_MATH = frozenset({"--use_fast_math", "-use_fast_math"})
_EFFECT = re.compile(r"--?(maxrregcount|rdc|restrict|Xcompiler|compiler-options)")


def port_flag(flag: str, arch: str) -> tuple[list[str], str]:
    """mcc's flags for one of nvcc's, and what a person should know of it ('' for nothing)."""
    text = flag.strip()
    if _ARCH.match(text):
        return ([f"--offload-arch={arch}"] if arch else []), ""
    if text in _FAST_MATH:
        # clang's alone would also take infinities and NaN for impossible, which nvcc's does not.
        return ["-ffast-math", "-fno-finite-math-only"], ""
    if text.startswith(("--ftz", "-ftz")):
        flush = ["-fmusa-flush-denormals-to-zero"] if text.endswith("true") else []
        return flush, ""
    if text.startswith(("--fmad", "-fmad")):
        return [f"-ffp-contract={'off' if text.endswith('false') else 'fast'}"], ""
    if _DROPPED.match(text):
        name = text.split("=")[0].split(",")[0].split(" ")[0]
        return [], f"{name} is nvcc's own and was left out" if _EFFECT.match(text) else ""
    if _KEPT.match(text):
        return [text], ""
    return [text], f"{text}: not known to be one of mcc's"
