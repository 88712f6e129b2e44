"""How C++ spells types, headers and stream calls: the one place where CUDA and MUSA differ."""

from dataclasses import dataclass

from musaagent.policies.builtin.sizes import Refusal

_REGISTER = {
    "float32": "float", "float16": "float", "bfloat16": "float", "float64": "double",
    "int64": "int64_t", "int32": "int", "int16": "int16_t", "int8": "int8_t",
    "uint8": "uint8_t", "bool": "bool",
}  # fmt: skip
_SCALAR_TYPE = {
    "float32": "at::kFloat", "float16": "at::kHalf", "bfloat16": "at::kBFloat16",
    "float64": "at::kDouble", "int64": "at::kLong", "int32": "at::kInt", "int16": "at::kShort",
    "int8": "at::kChar", "uint8": "at::kByte", "bool": "at::kBool",
}  # fmt: skip
_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2,
          "int16": 2}  # fmt: skip


@dataclass(frozen=True)
class Dialect:
    runtime_headers: tuple[str, ...]
    half_headers: tuple[str, ...]
    bfloat16: str
    stream: str
    guard: str
    launch_check: str
    """What follows each launch."""
    loader: str
    """The Python import of load_inline."""
    sources: str
    """load_inline's argument for the device source."""


CUDA = Dialect(
    ("cuda_runtime.h", "ATen/cuda/CUDAContext.h", "c10/cuda/CUDAGuard.h",
     "c10/cuda/CUDAException.h"),
    ("cuda_fp16.h", "cuda_bf16.h"),
    "__nv_bfloat16",
    "at::cuda::getCurrentCUDAStream()",
    "const c10::cuda::CUDAGuard on_device({}.device());",
    "C10_CUDA_KERNEL_LAUNCH_CHECK();",
    "from torch.utils.cpp_extension import load_inline",
    "cuda_sources",
)  # fmt: skip
MUSA = Dialect(
    ("musa_runtime.h", "torch_musa/csrc/aten/musa/MUSAContext.h",
     "torch_musa/csrc/core/MUSAGuard.h", "torch_musa/csrc/core/MUSAException.h"),
    ("musa_fp16.h", "musa_bf16.h"),
    "__mt_bfloat16",
    "at::musa::getCurrentMUSAStream()",
    "const c10::musa::MUSAGuard on_device({}.device());",
    "C10_MUSA_KERNEL_LAUNCH_CHECK();",
    "from torch_musa.utils.musa_extension import load_inline",
    "musa_sources",
)  # fmt: skip


def dialect_of(target: str) -> Dialect:
    return MUSA if target == "musa" else CUDA


def register_type(dtype: str) -> str:
    """The C++ type that values of a torch dtype are computed in."""
    if dtype not in _REGISTER:
        raise Refusal(f"no family for tensors of dtype {dtype}")
    return _REGISTER[dtype]


def storage_type(dtype: str, dialect: Dialect) -> str:
    """The C++ type that they lie in memory as."""
    if dtype == "float16":
        return "__half"
    return dialect.bfloat16 if dtype == "bfloat16" else register_type(dtype)


def accumulate_type(dtype: str) -> str:
    """The C++ type that sums over a torch dtype are kept in."""
    register = register_type(dtype)
    return register if register in ("float", "double") else "int64_t"


def scalar_type(dtype: str) -> str:
    return _SCALAR_TYPE[dtype]


def itemsize(dtype: str) -> int:
    return _BYTES.get(dtype, 1)


def is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def is_integer(dtype: str) -> bool:
    return dtype.startswith(("int", "uint"))


def half_prelude(dialect: Dialect) -> str:
    """Conversions between memory and registers, so that kernels name no intrinsic."""
    bf16 = dialect.bfloat16
    return f"""
template <typename T> __device__ __forceinline__ T up(T v) {{ return v; }}
__device__ __forceinline__ float up(__half v) {{ return __half2float(v); }}
__device__ __forceinline__ float up({bf16} v) {{ return __bfloat162float(v); }}
template <typename T> struct Down {{
  template <typename U>
  static __device__ __forceinline__ T from(U v) {{ return static_cast<T>(v); }}
}};
template <> struct Down<__half> {{
  static __device__ __forceinline__ __half from(float v) {{ return __float2half(v); }}
}};
template <> struct Down<{bf16}> {{
  static __device__ __forceinline__ {bf16} from(float v) {{ return __float2bfloat16(v); }}
}};
"""
