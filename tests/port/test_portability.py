"""What a card does not give is found before compiling, with its line; right code is left alone."""

import sys
from pathlib import Path

import pytest

from musaagent.tools.port.portability import find_remarks

sys.path.insert(0, str(Path(__file__).parents[1] / "musa"))
from warp32 import BUGS, SOURCE

KERNEL = "__global__ void k(float* x) {{ {} }}\n"


def kinds(body: str, arch: str = "mp_22") -> list[str]:
    return [remark.kind for remark in find_remarks(KERNEL.format(body), arch)]


@pytest.mark.parametrize(
    "body",
    [
        "int lane = threadIdx.x & 31;",
        "int lane = threadIdx.x % 32;",
        "int warp = threadIdx.x >> 5;",
        "int tid = threadIdx.x; int warp = tid / 32;",
        "if (threadIdx.x < 32) x[0] = 1;",
        "for (int o = 16; o > 0; o >>= 1) x[0] += __shfl_down_sync(0xffffffff, x[0], o);",
        "x[0] += __shfl_xor_sync(0xffffffffu, x[0], 16);",
        "x[0] = __shfl_sync(0xffffffff, x[0], 0);",
        "unsigned m = __ballot_sync(~0u, x[0] > 0);",
        "unsigned m = __activemask();",
        "if (__any_sync(0xffffffff, x[0] > 0)) x[0] = 1;",
        "auto t = cooperative_groups::tiled_partition<32>(b);",
        "x[0] = __shfl_up_sync(0xffffffff, x[0], 1);",
    ],
)
def test_a_warp_of_32_is_told_on_cards_with_128_lanes_only(body: str) -> None:
    assert "warp_size" in kinds(body, "mp_21")
    assert "warp_size" in kinds(body, "mp_22")
    assert "warp_size" not in kinds(body, "mp_31")


@pytest.mark.parametrize(
    "body",
    [
        "int lane = threadIdx.x % warpSize;",
        "for (int o = warpSize / 2; o > 0; o >>= 1) x[0] += __shfl_down_sync(0xffffffff, x[0], o);",
        "x[0] += __shfl_xor_sync(0xffffffff, x[0], 16, 32); int w = warpSize;",
        "__shared__ float t[32][33]; t[threadIdx.y][threadIdx.x] = 0; __syncthreads();",
        "int i = blockIdx.x * 32 + threadIdx.x; unsigned bits = packed[i / 32] >> (i & 31);",
        "for (int i = 16; i < 32; ++i) x[i] = 0;",
    ],
)
def test_code_for_any_warp_is_left_alone(body: str) -> None:
    assert kinds(body) == []


def test_constants_named_like_a_warp() -> None:
    assert [
        r.line for r in find_remarks("#define WARP_SIZE 32\nconstexpr int kWarp = 32;\n", "mp_22")
    ] == [1, 2]
    assert find_remarks("#define TILE 32\nconst int BLOCK = 32;\n", "mp_22") == ()
    by_arch = (
        "#if defined(__MUSA_ARCH__) && __MUSA_ARCH__ <= 220\n#define WARP_SIZE 128\n"
        "#else\n#define WARP_SIZE 32\n#endif\n"
    )
    assert find_remarks(by_arch, "mp_22") == ()


@pytest.mark.parametrize(
    ("text", "arch", "kind"),
    [
        (KERNEL.format('asm volatile("mov.u32 %0, %laneid;" : "=r"(i));'), "mp_31", "inline_ptx"),
        ("void f() { cudaLaunchCooperativeKernel(k, 1, 1, a); }", "mp_22", "cooperative_launch"),
        (KERNEL.format("cg::this_grid().sync();"), "mp_31", "cooperative_launch"),
        (KERNEL.format("__nanosleep(100);"), "mp_31", "unsupported"),
        (KERNEL.format("int s = __reduce_add_sync(~0u, 1);"), "mp_31", "unsupported"),
        (KERNEL.format("k<<<1, 1>>>(x);"), "mp_31", "unsupported"),
        ("void f() { musaIpcGetMemHandle(&h, p); }", "mp_22", "unsupported"),
        (KERNEL.format("nvcuda::wmma::fragment<int> f;"), "mp_31", "matrix_units"),
        (KERNEL.format("__mt_bfloat16 b;"), "mp_21", "bf16"),
        (KERNEL.format("__nv_fp8_e4m3 b;"), "mp_22", "fp8"),
        (KERNEL.format("__shared__ float s[64][64];"), "mp_31", ""),
        (KERNEL.format("__shared__ double s[1 << 15];"), "mp_31", "shared_memory"),
        ("#define N 96\n" + KERNEL.format("__shared__ float s[N][N * 2];"), "mp_22", "shared_memory"),
        ("__constant__ float w[4096];\n" + KERNEL.format("x[0] = w[0];"), "mp_31", "constant_memory"),
    ],
)  # fmt: skip
def test_what_a_card_lacks_is_named(text: str, arch: str, kind: str) -> None:
    found = {remark.kind for remark in find_remarks(text, arch)}
    assert found == ({kind} if kind else set())


def test_what_a_card_has_is_not_named() -> None:
    assert find_remarks(KERNEL.format("__mt_bfloat16 b; __mt_fp8_e4m3 c;"), "mp_31") == ()
    guarded = "#if __MUSA_ARCH__ >= 220\n" + KERNEL.format("__mt_bfloat16 b;") + "#endif\n"
    assert find_remarks(guarded, "mp_21") == ()
    assert find_remarks('void f() { asm volatile("" ::: "memory"); }', "mp_22") == ()


def test_nine_of_the_ten_planted_warp_bugs_are_seen_by_reading_alone() -> None:
    """`rows_of_32_in_one_warp` is right but for its launch, which only a run shows."""
    found = {remark.line for remark in find_remarks(SOURCE, "mp_22")}
    places = {}
    for name in (*BUGS, "right_for_any_warp"):
        begin = next(i for i, t in enumerate(SOURCE.split("\n"), 1) if f"void {name}(" in t)
        end = next(i for i, t in enumerate(SOURCE.split("\n"), 1) if i > begin and t == "}")
        places[name] = range(begin, end)
    seen = {name for name, lines in places.items() if found & set(lines)}
    assert seen == set(BUGS) - {"rows_of_32_in_one_warp"}
