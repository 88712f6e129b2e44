"""What the host target can say of performance: structure and traffic, never time."""

from musaagent.tools.opgraph import OpGraph, Plan, TensorMeta
from musaagent.tools.results import KernelResources, Launch, Profile, Verdict

# NVIDIA H100 SXM data sheet and CUDA programming guide, compute capability 9.0.
PEAK_FLOPS_FP32 = 67e12
PEAK_BYTES_PER_S = 3.35e12
SM_THREADS = 2048
SM_REGISTERS = 65536
SM_SHARED_BYTES = 227 * 1024
SM_BLOCKS = 32
RESERVED_SHARED_BYTES = 1024
"""Shared memory that the driver keeps for each block."""

_ITEM_BYTES = {"float64": 8, "int64": 8, "complex64": 8, "float16": 2, "bfloat16": 2, "int16": 2}
_BYTE_TYPES = {"bool", "uint8", "int8"}


def host_profile(plan: Plan, verdict: Verdict, checked_shapes: tuple[str, ...]) -> Profile:
    """Traffic of the checked run, occupancy from ptxas, and one suggestion."""
    launches = verdict.launches
    resources = verdict.build.resources if verdict.build else ()
    moved = sum(launch.global_read_bytes + launch.global_write_bytes for launch in launches)
    least = _checked_least_bytes(plan, launches, checked_shapes)
    occupancy = min((_occupancy(launch, resources) for launch in launches), default=0.0)
    counters = {
        "launches": float(sum(launch.count for launch in launches)),
        "global_bytes": float(moved),
        "least_bytes": float(least),
        "traffic_ratio": moved / least if least else 0.0,
        "occupancy": occupancy,
        "registers": float(max((r.registers for r in resources), default=0)),
        "spill_bytes": float(sum(r.spill_store_bytes + r.spill_load_bytes for r in resources)),
        "threads_per_block": float(max((_threads(launch) for launch in launches), default=0)),
    }
    bound = "memory"
    if plan.least_bytes and plan.flops / plan.least_bytes > PEAK_FLOPS_FP32 / PEAK_BYTES_PER_S:
        bound = "compute"
    engine = "host checked run"
    if resources:
        engine += f" + {verdict.build.real_compile}" if verdict.build else ""
    return Profile(
        target="host",
        engine=engine,
        launches=launches,
        resources=resources,
        bound="compute" if bound == "compute" else "memory",
        counters=counters,
        suggestion=_suggestion(counters),
    )


def _suggestion(counters: dict[str, float]) -> str:
    if counters["spill_bytes"]:
        return "registers spill to memory: give each thread less work or smaller tiles"
    if counters["traffic_ratio"] > 4:
        return (
            f"kernels ask global memory for {counters['traffic_ratio']:.1f} times the least bytes:"
            " reuse data through shared memory or registers (larger tiles)"
        )
    if 0 < counters["occupancy"] < 0.25:
        return "few threads fit on a multiprocessor: use less shared memory or fewer registers"
    if counters["traffic_ratio"] > 1.6 and counters["launches"] > 1:
        return "intermediate results travel through global memory: fuse the kernels"
    return ""


def _threads(launch: Launch) -> int:
    x, y, z = launch.block
    return x * y * z


def _occupancy(launch: Launch, resources: tuple[KernelResources, ...]) -> float:
    """Share of a compute capability 9.0 multiprocessor's threads that can be resident."""
    threads = max(_threads(launch), 1)
    name = launch.kernel.split("<")[0].split("::")[-1].strip()
    used = [r for r in resources if name and name in r.kernel]
    registers = max((r.registers for r in used), default=32)
    shared = launch.shared_bytes + max((r.static_shared_bytes for r in used), default=0)
    warps = -(-threads // 32)
    by_registers = SM_REGISTERS // max(-(-registers // 8) * 8 * 32 * warps, 1)
    by_shared = SM_SHARED_BYTES // (shared + RESERVED_SHARED_BYTES)
    blocks = min(SM_THREADS // threads, SM_BLOCKS, by_registers, by_shared)
    return min(blocks * threads / SM_THREADS, 1.0)


def _checked_least_bytes(
    plan: Plan, launches: tuple[Launch, ...], checked_shapes: tuple[str, ...]
) -> int:
    """Least traffic at the checked shapes: the plan's own, scaled by what the inputs measure."""
    if plan.graph is None or not launches:
        return 0
    own = sum(_bytes(value.meta) for value in plan.graph.inputs)
    checked = sum(_text_bytes(text) for text in checked_shapes)
    if not own or not checked:
        return 0
    return int(checked + _output_bytes(plan.graph) * checked / own)


def _output_bytes(graph: OpGraph) -> int:
    return sum(_bytes(meta) for meta in graph.nodes[-1].outputs) if graph.nodes else 0


def _bytes(meta: TensorMeta) -> int:
    count = 1
    for n in meta.shape:
        count *= n
    return count * _item_bytes(meta.dtype)


def _item_bytes(dtype: str) -> int:
    return 1 if dtype in _BYTE_TYPES else _ITEM_BYTES.get(dtype, 4)


def _text_bytes(text: str) -> int:
    """`float32[64, 1000]` -> bytes; 0 for what is no tensor."""
    dtype, _, rest = text.partition("[")
    if not rest.endswith("]"):
        return 0
    count = 1
    for part in rest[:-1].split(","):
        if part.strip():
            count *= int(part)
    return count * _item_bytes(dtype)
