"""Kernels give the right results in every mode, thread order and warp size."""

import ctypes
import os
import warnings

import numpy as np
import pytest

MODES = [
    pytest.param((order, warp_size, checked), id=f"{name}-{warp_size}-{mode}")
    for order, name in enumerate(("forward", "reverse", "random"))
    for warp_size in (32, 128)
    for checked, mode in ((False, "fast"), (True, "checked"))
]


@pytest.fixture(params=MODES)
def kernels(runtime, kernels_of, request):
    kernels = kernels_of("basic", request.param)
    yield kernels
    report = runtime.report()
    assert report["findings"] == []
    assert report["error"] == 0


@pytest.fixture
def random():
    seed = int.from_bytes(os.urandom(4))
    print("seed", seed)
    return np.random.default_rng(seed)


def test_every_thread_of_a_grid_runs_once(kernels, random):
    x = random.random(5000, dtype=np.float32)
    y = np.zeros_like(x)
    assert kernels("elementwise", x, y, x.size) == 0
    assert np.array_equal(y, 2 * x + 1)


def test_tiled_matmul(kernels, random):
    a, b = random.random((2, 45, 45), dtype=np.float32)
    c = np.zeros_like(a)
    assert kernels("matmul", a, b, c, 45) == 0
    assert np.allclose(c, a @ b, rtol=1e-5)


def test_block_reduction_in_dynamic_shared_memory_and_by_shuffles(kernels, random):
    x = random.random((6, 700), dtype=np.float32)
    sums = np.zeros(6, np.float32)
    assert kernels("row_sums", x, sums, 6, 700) == 0
    assert np.allclose(sums, x.sum(1), rtol=1e-5)


def test_histogram_by_atomics(kernels, random):
    x = random.integers(0, 50, 3000).astype(np.int32)
    bins = np.zeros(50, np.int32)
    assert kernels("histogram", x, bins, x.size, 50) == 0
    assert np.array_equal(bins, np.bincount(x, minlength=50))


def test_the_last_block_sees_what_all_wrote(kernels, random):
    x = random.random(4000, dtype=np.float32)
    total = np.zeros(1, np.float32)
    partials, counter = np.zeros(20, np.float32), np.zeros(1, np.int32)
    assert kernels("last_block_sum", x, partials, counter, total, x.size, 20) == 0
    assert np.allclose(total, x.sum(), rtol=1e-4)


@pytest.mark.parametrize(("threads", "threshold"), [(300, 7), (64, 64), (33, 0)])
def test_reducing_barriers(kernels, threads, threshold):
    out = np.zeros((threads, 3), np.int32)
    assert kernels("reduce_barriers", out, threads, threshold) == 0
    wanted = [threshold, int(threshold == threads), int(threshold > 0)]
    assert (out == wanted).all()


def test_shuffles_rotate_a_whole_warp(kernels):
    out = np.zeros((2, 256), np.int32)
    assert kernels("rotate_lanes", out, 256, 5) == 0
    warps = np.arange(256).reshape(-1, kernels.warp_size)
    assert (out == np.roll(warps, -5, axis=1).reshape(-1)).all()


def test_groups_of_lanes_with_masks_of_their_own(kernels):
    out = np.zeros(256, np.int32)
    assert kernels("group_sums", out, 256) == 0
    lanes = np.arange(256) % kernels.warp_size
    assert (out == (lanes // 8 * 8) * 8 + 28).all()


def test_active_mask_is_the_branch_that_runs(kernels):
    out = np.zeros(32, np.int32)
    assert kernels("converged", out, 32) == 0
    mask = sum(1 << i for i in range(0, 32, 3))
    wanted = np.int64(mask * 100 % 2**32).astype(np.uint32).astype(np.int32)
    assert (out == np.where(np.arange(32) % 3 == 0, wanted, -1)).all()


def test_a_block_may_wait_for_a_later_one(kernels):
    out = np.zeros(32, np.int32)
    assert kernels("spin_between_blocks", np.zeros(1, np.int32), out) == 0
    assert out.all()


def test_grid_barrier_of_a_cooperative_launch(kernels):
    out = np.zeros(20 * 32, np.int32)
    assert kernels("grid_barrier", np.zeros(1, np.int32), out, 20, 1) == 0
    assert (out == 20 * 32).all()


@pytest.fixture(params=MODES)
def right(runtime, kernels_of, request):
    kernels = kernels_of("right", request.param)
    yield kernels
    report = runtime.report()
    assert report["findings"] == []
    assert report["error"] == 0


def test_compare_and_swap_loop(right, random):
    x = random.integers(0, 1000, 500).astype(np.int32)
    most = np.zeros(1, np.int32)
    assert right("maximum_by_swaps", x, most, x.size) == 0
    assert most[0] == x.max()


def test_threads_may_write_the_same_value(right):
    y = np.zeros(1, np.float32)
    assert right("same_value", y, 3) == 0
    assert y[0] == 3


def test_locks_order_what_they_guard(right):
    value, y = np.zeros(2, np.int32), np.zeros(2, np.int32)
    assert right("locked_update", np.zeros(1, np.int32), value, 12) == 0
    assert list(value) == [12, 12]
    assert right("locked_in_block", y) == 0
    assert list(y) == [64, 64]


def test_chain_of_blocks(right, random):
    x = random.integers(0, 100, 30).astype(np.int32)
    sums, flags, ticket = np.zeros(30, np.int32), np.zeros(30, np.int32), np.zeros(1, np.int32)
    assert right("chained_scan", x, sums, flags, ticket, 30) == 0
    assert np.array_equal(sums, np.cumsum(x))


def test_hand_made_grid_barrier(right):
    values, out = np.zeros(10 * 32, np.int32), np.zeros((10, 32), np.int32)
    assert right("hand_made_grid_barrier", values, np.zeros(1, np.int32), out, 10) == 0
    assert (out == (np.arange(10)[:, None] + 1) % 10).all()


def test_fences_before_a_barrier_cover_the_counter_after_it(right):
    values, total = np.zeros(8 * 32, np.int32), np.zeros(1, np.int32)
    assert right("fence_before_barrier", values, np.zeros(1, np.int32), total, 8) == 0
    assert total[0] == 8 * 32


def test_vectors_in_place_and_single_bytes(right, random):
    x = random.random((100, 4), dtype=np.float32)
    wanted, names = 2 * x, np.zeros(100, np.int8)
    assert right("in_place", x, names, 100) == 0
    assert np.array_equal(x, wanted)
    assert np.array_equal(names, np.arange(100))


def test_variables_of_the_module(right):
    y = np.zeros(8, np.int32)
    assert right("module_variables", y) == 8
    assert list(y) == [1, 2, 3, 4] * 2


def test_warp_barriers_order_shared_memory(right):
    y = np.zeros((2, 128), np.int32)
    assert right("warp_exchange", y) == 0
    assert (y == (np.arange(128) ^ 1) + 3).all()


def test_waiting_for_threads_of_the_own_block(right):
    y = np.zeros(1, np.int32)
    assert right("wait_in_block", y) == 0
    assert y[0] == 1


def test_waiting_for_a_volatile_in_checked_mode(runtime, kernels_of):
    kernels = kernels_of("right", (0, 32, True))
    y = np.zeros(1, np.int32)
    assert kernels("wait_for_volatile", np.zeros(1, np.int32), np.zeros(1, np.int32), y) == 0
    assert y[0] == 5
    assert runtime.report()["findings"] == []


def test_launches_are_counted_with_their_traffic(runtime, kernels_of):
    kernels = kernels_of("basic", (0, 32, True))
    x = np.ones(1000, np.float32)
    for _ in range(3):
        kernels("elementwise", x, np.zeros_like(x), x.size)
    wanted = {
        "kernel": "elementwise",
        "grid": [4, 1, 1],
        "block": [256, 1, 1],
        "shared_bytes": 0,
        "count": 3,
        "global_read_bytes": 12000,
        "global_write_bytes": 12000,
    }
    assert runtime.report()["launches"] == [wanted]
    assert runtime.report()["launches"] == []


def test_a_forked_child_runs_kernels_in_parallel_too(runtime, kernels_of):
    """The parent has worker threads by then; the child must start its own."""
    kernels = kernels_of("basic", (0, 32, False))
    runtime.configure(threads=2)
    x = np.ones(100_000, np.float32)
    y = np.zeros_like(x)
    assert kernels("elementwise", x, y, x.size) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        child = os.fork()
    if child == 0:
        y[:] = 0
        ok = kernels("elementwise", x, y, x.size) == 0 and (y == 3).all()
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_cuda_malloc_is_aligned_poisoned_and_freed_once(runtime):
    library = runtime.library
    address = library.musahost_malloc(1000)
    assert address % 256 == 0
    assert ctypes.string_at(address, 1000) == b"\xff" * 1000
    assert library.musahost_free(address) == 0
    assert library.musahost_free(address) == 1
    assert library.musahost_last_error(1) == 1
    assert library.musahost_last_error(1) == 0
