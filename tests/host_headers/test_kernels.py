"""Kernels on the device headers, rewritten and run by the real runtime."""

import ctypes
import subprocess
import sys

import numpy as np
import pytest


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def outputs(count: int, dtype: type = np.float32) -> np.ndarray:
    return np.zeros(count, dtype)


@pytest.mark.parametrize("width", [32, 8])
def test_shuffles(kernels: ctypes.CDLL, warp_size: int, width: int) -> None:
    threads = 128
    out = outputs(6 * threads, np.int32)
    kernels.run_shuffles(pointer(out), threads, width)
    index, up, down, xor, double, half = out.reshape(6, threads)
    t = np.arange(threads)
    lane, first = t % width, t - t % width
    assert (index == first + 5 % width).all()
    assert (up == np.where(lane >= 3, t - 3, t)).all()
    assert (down == np.where(lane + 3 < width, t + 3, t)).all()
    assert (xor == t ^ 5).all()
    assert (double == np.where(lane + 1 < width, t + 1, t)).all()
    assert (half == t ^ 1).all()


def test_shuffles_over_the_whole_warp(kernels: ctypes.CDLL, warp_size: int) -> None:
    threads = 128
    out = outputs(6 * threads, np.int32)
    kernels.run_shuffles(pointer(out), threads, warp_size)
    t = np.arange(threads)
    assert (
        out[2 * threads : 3 * threads] == np.where(t % warp_size + 3 < warp_size, t + 3, t)
    ).all()
    assert (out[:threads] == t // warp_size * warp_size + 5).all()


def test_votes_matches_and_reductions(kernels: ctypes.CDLL, warp_size: int) -> None:
    threads = 128
    out = outputs(9 * threads, np.uint32)
    kernels.run_votes(pointer(out), threads)
    ballot, any_all, match, match_all, total, most, active, partial, size = out.reshape(9, threads)
    t = np.arange(threads)
    group, warp = t // 32, t // warp_size
    assert (ballot == 0xAAAAAAAA).all()
    assert ((any_all & 1) == (40 // warp_size == warp)).all()
    whole = np.array([(t[warp == w] < 32).all() for w in warp])
    assert ((any_all >> 1) == whole).all()
    wanted = [sum(1 << (o % 32) for o in t if o % 5 == x % 5 and o // 32 == x // 32) for x in t]
    assert match.tolist() == wanted
    assert (match_all == (0xFFFFFFFF if warp_size == 32 else 0)).all()
    assert total.tolist() == [int(t[warp == w].sum()) for w in warp]
    assert most.tolist() == [1000 - int(t[warp == w].min()) for w in warp]
    assert (active[t % 32 < 8] & 0xFF == 0xFF).all()
    assert (partial[t % 32 < 4] == (group * 32 + 2)[t % 32 < 4]).all()
    assert (size == warp_size).all()


def test_barriers_that_vote(kernels: ctypes.CDLL) -> None:
    out = outputs(200, np.int32)
    kernels.run_block_votes(pointer(out), 100)
    assert (out[:100] == 34).all()
    assert (out[100:] == 3).all()


def test_atomics(kernels: ctypes.CDLL) -> None:
    out = outputs(17, np.float64)
    blocks, threads = 20, 96
    kernels.run_atomics(pointer(out), blocks, threads)
    n = blocks * threads
    cycle = n % 10
    expected = [
        -2 * n, 2 * n, cycle, (10 - cycle) % 10, 2**32 - 1, n * 2.0**33, n / 2, n / 4, 1 - n, n - 1,
        (n - 1) * 2.0**40, n - 1, 7, 64, 64, 64, 128,
    ]  # fmt: skip
    assert out.tolist() == expected


def test_a_spinning_thread_lets_others_run(kernels: ctypes.CDLL) -> None:
    out = outputs(2, np.int32)
    kernels.run_locked(pointer(out), 64)
    assert out.tolist() == [0, 64]


def test_cooperative_groups(kernels: ctypes.CDLL, warp_size: int) -> None:
    threads = 128
    out = outputs(7 * threads)
    kernels.run_groups(pointer(out), threads)
    total, most, shuffled, scanned, ballot, together, meta = out.reshape(7, threads)
    t = np.arange(threads)
    assert (total == [t[t // 32 == w].sum() for w in t // 32]).all()
    assert (most == t // 8 * 8 + 7).all()
    assert (shuffled == t // 8 * 8 + 3 + 1000 * (t % 8)).all()
    assert (scanned == [t[x // 8 * 8 : x + 1].sum() for x in t]).all()
    assert (ballot == 7).all()
    members = t[t % 4 == 1]
    assert (together[members] == warp_size // 4 * 100 + members % warp_size // 4).all()
    assert (meta == t // 32 * 10 + threads // 8).all()


def test_grid_barrier_of_a_cooperative_launch(kernels: ctypes.CDLL) -> None:
    blocks, threads = 6, 64
    out = outputs(blocks * threads + 1, np.int32)
    assert kernels.run_grid_sum(pointer(out), blocks, threads) == 0
    assert out[-1] == blocks * threads


def test_block_and_warp_collectives(kernels: ctypes.CDLL) -> None:
    out = outputs(2 + 2 * 64 + 1)
    kernels.run_collectives(pointer(out))
    t = np.arange(64)
    assert out[:2].tolist() == [t.sum(), 63]
    assert (out[2:66] == np.cumsum(t) - t).all()
    assert out[66:68].tolist() == [t[:32].sum(), t[32:].sum()]
    assert out[130] == t.sum()


def test_device_collectives(kernels: ctypes.CDLL) -> None:
    given = np.random.default_rng(5).integers(-50, 50, 200).astype(np.float32)
    out = outputs(4 + 2 * len(given))
    assert kernels.run_device_collectives(pointer(given), len(given), pointer(out)) == 0
    assert out[:3].tolist() == [given.sum(), given.max(), given.min()]
    assert (out[4:204] == np.cumsum(given) - given).all()
    assert (out[204:] == np.sort(given)).all()


def test_philox_gives_the_published_words(kernels: ctypes.CDLL) -> None:
    """Known answers of Random123's philox4x32-10 for counter 0, key 0."""
    words, uniform, normal = outputs(10, np.uint32), outputs(4000), outputs(4000)
    kernels.run_randoms(pointer(words), pointer(uniform), pointer(normal))
    assert words[:4].tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert words[8] == words[5]
    assert ((uniform > 0) & (uniform <= 1)).all()
    assert abs(uniform.mean() - 0.5) < 0.02
    assert abs(normal.mean()) < 0.06
    assert abs(normal.std() - 1) < 0.05


def test_arguments_convert_to_parameters(kernels: ctypes.CDLL) -> None:
    out = outputs(32)
    assert kernels.run_launches(pointer(out)) == 1
    rows = out.reshape(8, 4).tolist()
    assert rows[0] == rows[1] == [12, 13, 14, 15]
    assert rows[2] == [6] * 4
    assert rows[3] == [5] * 4
    assert rows[4][:2] == [1, 2]
    assert rows[5] == [0, 1, 4, 9]
    assert rows[6] == [7] * 4
    assert rows[7] == [0.5, 1.5, 2.5, 3.5]


def test_indices_in_three_dimensions(kernels: ctypes.CDLL) -> None:
    out = outputs(24 * 24, np.int32)
    kernels.run_places(pointer(out))
    assert out.tolist() == [b * 1000 + t for b in range(24) for t in range(24)]


def test_shared_memory_above_the_default_needs_the_attribute(kernels: ctypes.CDLL) -> None:
    out = outputs(32)
    assert kernels.run_big_shared(pointer(out), 0) == 1
    assert kernels.run_big_shared(pointer(out), 1) == 0
    assert out.tolist() == [t ^ 1 for t in range(32)]
    assert kernels.too_much_shared() == 1
    assert kernels.last_error() == 1


def test_errors_have_cuda_names_and_texts(kernels: ctypes.CDLL) -> None:
    kernels.error_text.restype = kernels.error_name.restype = ctypes.c_char_p
    assert kernels.run_too_many_threads() == 9
    assert kernels.error_text(9) == b"invalid configuration argument"
    assert kernels.error_name(700) == b"cudaErrorIllegalAddress"
    assert kernels.error_text(12345) == b"unrecognized error code"
    assert kernels.last_error() == 0


ASSERT = """
import ctypes, sys
runtime = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
kernels = ctypes.CDLL(sys.argv[2])
print(kernels.run_assert(4), kernels.run_assert(3), kernels.run_assert(4))
"""


def test_assert_ends_the_kernel_and_not_the_process(
    kernels: ctypes.CDLL, session_runtime: ctypes.CDLL
) -> None:
    """In a process of its own, as the error stays."""
    paths = [session_runtime._name, kernels._name]
    done = subprocess.run([sys.executable, "-c", ASSERT, *paths], capture_output=True, text=True)
    assert done.stdout.split() == ["0", "710", "710"], done.stderr


def test_runtime_interface(kernels: ctypes.CDLL) -> None:
    out, elapsed, counted = outputs(8), outputs(1), outputs(1, np.int32)
    assert kernels.run_runtime(pointer(out), pointer(elapsed), pointer(counted)) == 0
    assert out.tolist() == [2, 4, 6, 8, 2, 0, 6, 0]
    assert elapsed[0] > 0
    assert counted[0] == 4


def test_copies_of_a_pipeline(kernels: ctypes.CDLL) -> None:
    given = np.arange(128, dtype=np.float32)
    out = outputs(128)
    kernels.run_pipelined(pointer(given.copy()), pointer(out))
    assert (out.reshape(32, 4) == given.reshape(32, 4)[::-1]).all()


def test_musa_spelling(musa_kernels: ctypes.CDLL) -> None:
    given = np.arange(32, dtype=np.float32)
    out = outputs(32)
    assert musa_kernels.run_musa(pointer(given), pointer(out)) == 0
    assert (out == 2 * given[::-1]).all()
