"""The candidates that are measured, each with its task; both are files of tests/candidates."""

from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
MARK = "# === candidate ==="
# Elementwise, reductions, norms, matrix products, convolutions, fused and scan-like ones. Left out:
# what builds at its first call only, from files, or is like one of these.
NAMES = (
    "add_relu_float4",
    "argmax_rows",
    "batchnorm_train",
    "constant_memory_fir",
    "conv2d_direct",
    "cross_entropy",
    "cumsum_hillis_steele",
    "cumsum_warp_scan",
    "embedding_gather",
    "gelu_half",
    "grid_stride_3d",
    "histogram_atomics",
    "l2_normalize_two_kernels",
    "layernorm_dynamic_shared",
    "leaky_relu_dispatch",
    "matmul_tiled",
    "max_pool2d",
    "minmax_multi_output",
    "mse_last_block",
    "packed_accessor_bmm",
    "softmax_warp",
    "swish_bfloat16",
    "transpose_padded",
)


@dataclass(frozen=True)
class Pair:
    """One task with its candidate."""

    name: str
    task: str
    candidate: str


def pairs(names: tuple[str, ...] = NAMES) -> list[Pair]:
    found = []
    for name in names:
        text = (REPOSITORY / "tests" / "candidates" / f"{name}.py").read_text(encoding="utf-8")
        task, _, candidate = text.partition(MARK)
        found.append(Pair(name, task, candidate))
    return found
