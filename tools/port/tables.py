"""CUDA's names in MUSA: rules for whole words and headers. No text is searched and replaced here.

The rules are facts of Moore Threads' own porting tables (torch_musa's `utils/mapping`, musify) and
of torchada; `sdk_tables.py` reads those tables themselves where they are installed, and they win.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# Prefix -> prefix, where a capital letter (or, for constants, anything) follows.
_CAMEL = {
    "cublasLt": "mublasLt",
    "cublas": "mublas",
    "cudnn": "mudnn",
    "curand": "murand",
    "cufft": "mufft",
    "cusparse": "musparse",
    "cusolver": "musolver",
    "cupti": "mupti",
    "nvrtc": "mtrtc",
    "nccl": "mccl",
    "cuda": "musa",
}
_CONSTANTS = {
    "CUBLASLT_": "MUBLASLT_",
    "CUBLAS_": "MUBLAS_",
    "CUDNN_": "MUDNN_",
    "CURAND_": "MURAND_",
    "CUFFT_": "MUFFT_",
    "CUSPARSE_": "MUSPARSE_",
    "CUSOLVER_": "MUSOLVER_",
    "CUPTI_": "MUPTI_",
    "NCCL_": "MCCL_",
    "NVRTC_": "MTRTC_",
    "CUDART_": "MUSART_",
    "CUDA_R_": "MUSA_R_",
    "CUDA_C_": "MUSA_C_",
    "CUDA_ERROR_": "MUSA_ERROR_",
    "CU_": "MU_",
    "C10_CUDA_": "C10_MUSA_",
    "TORCH_CUDA_": "TORCH_MUSA_",
    "__nv_bfloat16": "__mt_bfloat16",
    "__nv_fp8": "__mt_fp8",
    "__nv_cvt_": "__musa_cvt_",
}
_WORDS = {
    "CUDA_SUCCESS": "MUSA_SUCCESS",
    "CUDA_VERSION": "MUSA_COMP_VERSION",
    "CUDA_KERNEL_LOOP": "MUSA_KERNEL_LOOP",
    "CUDA_1D_KERNEL_LOOP": "MUSA_1D_KERNEL_LOOP",
    "AT_CUDA_CHECK": "AT_MUSA_CHECK",
    "__CUDACC__": "__MUSACC__",
    "__NVCC__": "__MUSACC__",
    "__CUDA_ARCH__": "__MUSA_ARCH__",
    "nv_bfloat16": "__mt_bfloat16",
    "nv_bfloat162": "__mt_bfloat162",
    "cudaErrorNvlinkUncorrectable": "musaErrorMtlinkUncorrectable",
    "curandStatePhilox4_32_10_t": "murand_state_philox4x32_10",
    "cuConj": "muConj",
    "cuConjf": "muConjf",
    "nv_half": "__half",
    "__nv_half": "__half",
    "__NV_E4M3": "__MT_E4M3",
    "__NV_E5M2": "__MT_E5M2",
    "__NV_SATFINITE": "__MT_SATFINITE",
    "nvcuda": "mtmusa",
    "kCUDA": "kPrivateUse1",
    "getCurrentCUDAStream": "getCurrentMUSAStream",
    "getDefaultCUDAStream": "getDefaultMUSAStream",
    "setCurrentCUDAStream": "setCurrentMUSAStream",
    "getCurrentCUDABlasHandle": "getCurrentMUSABlasHandle",
    "getDefaultCUDAGenerator": "getDefaultMUSAGenerator",
    "CUDAGeneratorImpl": "MUSAGeneratorImpl",
    "PhiloxCudaState": "PhiloxMusaState",
    "CUDAGuard": "MUSAGuard",
    "OptionalCUDAGuard": "OptionalMUSAGuard",
    "CUDAStreamGuard": "MUSAStreamGuard",
    "OptionalCUDAStreamGuard": "OptionalMUSAStreamGuard",
    "CUDAStream": "MUSAStream",
    "CUDAEvent": "MUSAEvent",
    "CUDACachingAllocator": "MUSACachingAllocator",
}
# The driver's functions begin with these after `cu`, its types after `CU`: every word that starts
# with two such letters is not the driver's.
_DRIVER = re.compile(
    r"cu(?:Mem(?:cpy|set)|(?:Init|Driver|Device|Ctx|Module|Mem|Array|Stream|Event|Func|Launch|Link|"
    r"Library|Kernel|Occupancy|Pointer|Graph|GetErrorName|GetErrorString|GetProcAddress|TexObject|"
    r"SurfObject|TexRef|TensorMap|Mipmapped|Ipc|Profiler|Param|ThreadExchange)(?=[A-Z_]|$))"
)
_DRIVER_TYPE = re.compile(
    r"CU(device|deviceptr|context|module|function|stream|event|result|array|tensorMap|linkState|"
    r"kernel|library|graph|graphExec|graphNode|texObject|surfObject|memPool|jit_option|launch\w*|"
    r"function_attribute|device_attribute|mem\w*|stream_flags|event_flags)(?=[_A-Z]|$)"
)
_COMPLEX = re.compile(
    r"(make_)?cu((?:Float|Double)?Complex|C(?:add|sub|mul|div|real|imag|conj|abs|fma)f?)$"
)

# Whole header names; what `#include` has between its brackets.
_HEADERS = {
    "cublas_v2.h": "mublas.h",
    "curand_philox4x32_x.h": "murand_philox4x32_10.h",
    "crt/nvfunctional": "crt/mtfunctional",
    "nvfunctional": "mtfunctional",
    "cuComplex.h": "muComplex.h",
    "nvrtc.h": "mtrtc.h",
    "nccl.h": "mccl.h",
    "ATen/cuda/CUDAContext.h": "torch_musa/csrc/aten/musa/MUSAContext.h",
    "ATen/cuda/CUDAContextLight.h": "torch_musa/csrc/aten/musa/MUSAContextLight.h",
    "ATen/cuda/Exceptions.h": "torch_musa/csrc/aten/musa/Exceptions.h",
    "ATen/cuda/CUDAEvent.h": "torch_musa/csrc/core/MUSAEvent.h",
    "ATen/cuda/CUDABlas.h": "torch_musa/csrc/aten/musa/MUSABlas.h",
    "ATen/cuda/CUDAGraphsUtils.cuh": "torch_musa/csrc/aten/musa/MUSAGraphsUtils.muh",
    "ATen/cuda/CUDAGeneratorImpl.h": "torch_musa/csrc/aten/musa/MUSAGeneratorImpl.h",
    "ATen/cuda/CUDAGraph.h": "torch_musa/csrc/aten/musa/MUSAGraph.h",
    "ATen/cuda/DeviceUtils.cuh": "torch_musa/csrc/aten/musa/MUSADeviceUtils.muh",
    "ATen/cuda/Atomic.cuh": "torch_musa/csrc/aten/musa/MUSAAtomic.muh",
    "ATen/cuda/detail/UnpackRaw.cuh": "torch_musa/csrc/aten/musa/UnpackRaw.muh",
    "ATen/cuda/detail/IndexUtils.cuh": "torch_musa/csrc/aten/musa/detail/IndexUtils.muh",
    "c10/cuda/CUDAGuard.h": "torch_musa/csrc/core/MUSAGuard.h",
    "c10/cuda/CUDAStream.h": "torch_musa/csrc/core/MUSAStream.h",
    "c10/cuda/CUDAException.h": "torch_musa/csrc/core/MUSAException.h",
    "c10/cuda/CUDAFunctions.h": "torch_musa/csrc/core/MUSAFunctions.h",
    "c10/cuda/CUDACachingAllocator.h": "torch_musa/csrc/core/MUSACachingAllocator.h",
    "c10/cuda/CUDAMiscFunctions.h": "torch_musa/csrc/core/MUSAMiscFunctions.h",
}
_HEADER_RULES = (
    (re.compile(r"cuda((?:_\w+)?\.h(?:pp)?)$"), r"musa\1"),
    (re.compile(r"cuda(Profiler|Typedefs|GL|EGL)(\w*\.h)$"), r"musa\1\2"),
    (re.compile(r"cu(blas|rand|fft|sparse|solver|pti)(\w*\.h)$"), r"mu\1\2"),
    (re.compile(r"cudnn(\w*\.h)$"), r"mudnn\1"),
    (re.compile(r"cuda/std/(.*)$"), r"musa/std/\1"),
)
# Headers of CUDA's own that MUSA needs no counterpart of: musa_runtime.h declares all of it.
BUILT_IN_HEADERS = frozenset(
    "device_launch_parameters.h device_functions.h sm_20_intrinsics.h sm_30_intrinsics.h"
    " sm_32_intrinsics.h sm_35_intrinsics.h math_functions.h common_functions.h host_defines.h"
    " vector_types.h vector_functions.h driver_types.h device_types.h builtin_types.h".split()
)


@dataclass(frozen=True)
class Tables:
    """Lookup of words and headers; `words` and `headers` go before the rules of this module."""

    words: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    source: str = "musaagent's own rules"

    def word(self, name: str) -> str | None:
        """The MUSA name of a CUDA word; None for every other word."""
        return self.words.get(name) or _WORDS.get(name) or _by_rule(name)

    def header(self, name: str) -> str | None:
        """The MUSA name of a CUDA header; None for every other header."""
        if known := self.headers.get(name) or _HEADERS.get(name):
            return known
        for pattern, replacement in _HEADER_RULES:
            if pattern.match(name):
                return pattern.sub(replacement, name)
        return None


def _by_rule(name: str) -> str | None:
    for prefix, replacement in _CONSTANTS.items():
        if name.startswith(prefix):
            return replacement + name[len(prefix) :]
    for prefix, replacement in _CAMEL.items():
        rest = name[len(prefix) :]
        if name.startswith(prefix) and rest[:1].isupper():
            return replacement + rest
    if _DRIVER.match(name):
        return "mu" + name[2:]
    if _DRIVER_TYPE.match(name):
        return "MU" + name[2:]
    if match := _COMPLEX.match(name):
        return f"{match[1] or ''}mu{match[2]}"
    # curand and cusparse have functions in snake case: curand_init, cusparse_...
    match = re.match(r"(curand|cufft)(_\w+)$", name)
    if match:
        return f"mu{match[1][2:]}{match[2]}"
    return None
