"""What NVIDIA's tools print, read from recorded text."""

from musaagent.tools.cuda import ncu
from musaagent.tools.cuda.bound import classify, suggest
from musaagent.tools.cuda.devices import GpuInfo, parse_gpus, visible
from musaagent.tools.cuda.job import on_a_gpu
from musaagent.tools.cuda.kernels import merge_events
from musaagent.tools.cuda.session import split_kernels
from musaagent.tools.cuda.stats import latency, percentile, speedup
from musaagent.tools.host.diagnostics import Texts, parse
from musaagent.tools.ptxas import base_name

SMI = """0, GPU-aa11, NVIDIA H200, 9.0, 143771, 580.159.04
1, GPU-bb22, NVIDIA H200, 9.0, 143771, 580.159.04
"""
NCU = """==PROF== Connected to process 77
made by the program, with "ID" in it
==PROF== Disconnected from process 77
"ID","Process ID","Kernel Name","dram__bytes.sum","dram__throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum","launch__registers_per_thread","launch__waves_per_multiprocessor","sm__throughput.avg.pct_of_peak_sustained_elapsed","sm__warps_active.avg.pct_of_peak_sustained_active"
"","","","byte","%","ns","register/thread","","%","%"
"0","77","scale_rows","1,073,741,824","81.5","250,000","24","12.5","30.25","88"
"1","77","sum_rows","1000","10","750000","40","0.5","5","20"
"""


def test_gpus_are_read_from_nvidia_smi() -> None:
    gpus = parse_gpus(SMI)
    assert gpus[0] == GpuInfo(0, "GPU-aa11", "NVIDIA H200", "sm_90", 143771, "580.159.04")
    assert [gpu.index for gpu in gpus] == [0, 1]
    assert parse_gpus("No devices were found\n") == ()


def test_cuda_visible_devices_leaves_what_it_names() -> None:
    gpus = parse_gpus(SMI)
    assert visible(gpus, None) == gpus
    assert [g.index for g in visible(gpus, "1,0")] == [1, 0]
    assert [g.index for g in visible(gpus, "GPU-bb")] == [1]
    assert visible(gpus, "") == ()
    assert visible(gpus, "-1,0") == ()


def test_ncu_counters_are_read_beside_what_the_program_prints() -> None:
    entries = ncu.parse(NCU)
    assert [entry["kernel"] for entry in entries] == ["scale_rows", "sum_rows"]
    assert entries[0]["dram_bytes"] == 1073741824.0
    found = ncu.weighted(entries)
    assert found["time_ns"] == 1_000_000
    assert found["dram_pct"] == 0.25 * 81.5 + 0.75 * 10
    assert ncu.parse("==ERROR== ERR_NVGPUCTRPERM\n") == []
    assert ncu.refusal("x\n==ERROR== ERR_NVGPUCTRPERM - no permission\n").startswith("ERR_NV")


def test_ncu_looks_for_the_candidates_kernels_and_leaves_the_clocks() -> None:
    line = ncu.command("ncu", ["scale_rows"], skip=2, count=1)
    assert line[line.index("--clock-control") + 1] == "none"
    assert "regex:^(scale_rows)$" in line


def test_bound_and_suggestion_follow_from_counters() -> None:
    memory = {"dram_pct": 81.5, "sm_pct": 30.0, "dram_bytes": 4e9, "least_bytes": 1e9}
    assert classify(memory) == "memory"
    assert "4.0 times the least bytes" in suggest("memory", memory)
    assert classify({"dram_pct": 20.0, "sm_pct": 75.0}) == "compute"
    assert classify({"dram_pct": 5.0, "sm_pct": 5.0, "waves": 0.3}) == "tail"
    assert classify({"dram_pct": 5.0, "sm_pct": 5.0, "waves": 9.0}) == "latency"
    assert classify({"dram_pct": 90.0, "sm_pct": 5.0, "kernel_share": 0.2}) == "launch"
    assert classify({"bandwidth_share": 0.9, "flops_share": 0.1}) == "memory"
    assert classify({}) == "unknown"
    assert "spill" in suggest("memory", memory | {"spill_bytes": 8.0})


def test_kernels_are_merged_by_launch_and_told_apart_from_libraries() -> None:
    launch = {"grid": [4, 1, 1], "block": [128, 1, 1], "shared memory": 64}
    events = [
        {"cat": "kernel", "name": "void ns::mine<float>(float*, int)", "dur": 2.5, "args": launch},
        {"cat": "kernel", "name": "void ns::mine<float>(float*, int)", "dur": 1.5, "args": launch},
        {"cat": "kernel", "name": "sm90_xmma_gemm_f32f32", "dur": 9, "args": launch},
        {"cat": "kernel", "name": "void at::native::fill(int)", "dur": 1, "args": launch},
        {"cat": "gpu_memcpy", "name": "Memcpy HtoD", "dur": 1, "args": {}},
        {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "dur": 7, "args": {}},
    ]
    merged = merge_events(events)
    assert [(k["count"], k["ns"]) for k in merged] == [(2, 4000), (1, 9000), (1, 1000), (1, 1000)]
    own, foreign = split_kernels(merged, frozenset({"mine"}))
    assert [(o.grid, o.count, o.shared_bytes) for o in own] == [((4, 1, 1), 2, 64)]
    assert foreign == ("library.kernel sm90_xmma_gemm_f32f32",)


def test_plain_names_of_kernels() -> None:
    assert base_name("void ns::k<float, (int)4>(float*)") == "k"
    assert base_name("(anonymous namespace)::k(int)") == "k"
    assert base_name("k") == "k"


def test_times_are_summed_up_with_their_spread() -> None:
    assert percentile([1.0, 2.0, 3.0], 0.5) == 2.0
    found = latency([1.0, 2.0, 3.0], host_s=0.001)
    assert (found.median_ms, found.count, found.host_ms) == (2.0, 3, 1.0)
    ratio = speedup("eager", [[2.0, 2.0], [4.0, 4.0]], [[1.0], [2.0]])
    assert (ratio.ratio, ratio.low, ratio.high) == (2.0, 2.0, 2.0)


def test_a_library_without_headers_is_not_blamed_on_the_host_target() -> None:
    line = "cuda_sources[0]:3:10: fatal error: cusparse.h: No such file or directory\n"
    (found,) = parse(line, "nvcc", Texts({"cuda_sources[0]": "\n\n#include <cusparse.h>"}))
    said = on_a_gpu(found)
    assert said.message == "no cuSPARSE on this machine: its headers were not found"
    assert (said.source, said.line, said.severity) == ("cuda_sources[0]", 3, "error")
    other = found.model_copy(update={"construct": None})
    assert on_a_gpu(other) is other
