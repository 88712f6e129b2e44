"""Every kind of fault is found, named, and placed on its line; the process lives on."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

SOURCE = Path(__file__).parent / "faults.cpp"
ILLEGAL_ADDRESS, ASSERT, LAUNCH_FAILURE = 700, 710, 719


def planted_line(function: str) -> int:
    """Where `// here` stands in a function of faults.cpp."""
    lines = SOURCE.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if f" {function}(" in line)
    return next(i + 1 for i in range(start, len(lines)) if "// here" in lines[i])


@pytest.fixture(params=[0, 1, 2], ids=["forward", "reverse", "random"])
def order(request):
    return request.param


@pytest.fixture
def run(runtime, kernels_of, line_of):
    """Runs a planted fault and gives the one finding, with its place checked."""

    def call(name, *arguments, order=0, checked=True, warp_size=32, placed=True):
        kernels_of("faults", (order, warp_size, checked))(name, *arguments)
        report = runtime.report()
        kinds = {f["kind"] for f in report["findings"]}
        assert len(kinds) == 1, report
        finding = report["findings"][0]
        assert finding["kernel"] == name
        if placed:
            assert line_of(finding) == planted_line(name), finding
        return finding, report["error"]

    return call


def floats(*shape):
    return np.zeros(shape, np.float32)


def test_write_past_a_tensor(run, order):
    room = floats(64)  # the tensor is its first half, so that the write hurts nobody
    finding, error = run("write_past_tensor", room[:10], 10, order=order)
    assert finding["kind"] == "out_of_bounds"
    assert finding["message"] == (
        "write of 4 bytes: 0 bytes past the end of tensor 't' (float32[10])"
    )
    assert finding["thread"] == [10, 0, 0]
    assert finding["block"] == [0, 0, 0]
    assert error == ILLEGAL_ADDRESS


def test_read_before_a_tensor(run):
    room = floats(64)
    finding, error = run("read_before_tensor", room[32:], floats(8))
    assert "4 bytes before the start of tensor 't' (float32[32])" in finding["message"]
    assert finding["thread"] == [0, 0, 0]
    assert error == ILLEGAL_ADDRESS


def test_past_shared_variables(run, order):
    finding, _ = run("past_shared", floats(32), order=order)
    assert finding["message"] == (
        "write of 4 bytes: 0 bytes past the end of shared variable 'tile' of 124 bytes"
    )
    finding, _ = run("past_dynamic_shared", order=order)
    assert "past the end of dynamic shared memory of 64 bytes" in finding["message"]


def test_past_a_variable_of_the_module(run, order):
    finding, _ = run("past_module_variable", floats(10), order=order)
    assert finding["message"] == (
        "read of 4 bytes: 0 bytes past the end of variable 'weights' of 36 bytes"
    )
    assert finding["thread"] == [9, 0, 0]


def test_host_memory_is_no_tensor(run):
    memory = ctypes.create_string_buffer(1 << 22)
    finding, _ = run("read_host_memory", ctypes.byref(memory, 1 << 21), floats(4))
    assert finding["kind"] == "out_of_bounds"
    assert "host memory, belongs to no tensor" in finding["message"]


def test_freed_memory_is_named(run, runtime):
    old = np.zeros(1 << 20, np.float32)
    runtime.library.musahost_register(old.ctypes.data, old.nbytes, b"tensor 'old'")
    runtime.library.musahost_unregister(old.ctypes.data)
    address = ctypes.c_void_p(old.ctypes.data + (1 << 21))
    finding, _ = run("read_host_memory", address, floats(4))
    assert "memory that was freed: tensor 'old'" in finding["message"]


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("address", [0, 0x10, 0x123456789000])
def test_unmapped_addresses_do_not_kill(run, checked, address):
    finding, error = run("wild_write", ctypes.c_long(address), checked=checked)
    assert finding["kind"] == "out_of_bounds"
    assert ("null pointer" if address < 4096 else "no memory is at") in finding["message"]
    assert error == ILLEGAL_ADDRESS


def test_an_error_of_the_device_refuses_later_launches(run, runtime, kernels_of):
    run("wild_write", ctypes.c_long(0), checked=False)
    library = runtime.driver("basic", False)
    assert library.elementwise(None, None, 0) != 0
    y = floats(10)
    pointer = ctypes.c_void_p(y.ctypes.data)
    assert library.elementwise(pointer, pointer, 10) == ILLEGAL_ADDRESS
    finding = runtime.report()["findings"][-1]
    assert finding["kind"] == "invalid_launch"
    assert "an earlier kernel failed (error 700)" in finding["message"]
    assert not y.any()
    runtime.configure()
    assert library.elementwise(pointer, pointer, 10) == 0
    assert y.all()


RACES = {
    "missing_barrier": ([floats(64)], "no __syncthreads() is between them"),
    "missing_second_barrier": (
        [np.arange(256, dtype=np.float32), floats(64)],
        "conflicts with the read by thread",
    ),
    "warp_without_sync": ([floats(1)], "lanes of a warp do not run in lockstep"),
    "plain_update_between_blocks": ([np.zeros(1, np.int32)], "blocks run in any order"),
    "halves_race": ([np.zeros(64, np.int16)], "no __syncthreads() is between them"),
    "last_block_without_fence": (
        [floats(8), np.zeros(1, np.int32), floats(1), 8],
        "blocks run in any order",
    ),
    "atomic_then_plain_read": ([np.zeros(64, np.int32)], "not every access is atomic"),
}


@pytest.mark.parametrize("name", RACES)
def test_races(run, runtime, kernels_of, line_of, name, order):
    arguments, advice = RACES[name]
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    kernels_of("faults", (order, 32, True))(name, *copies)
    findings = runtime.report()["findings"]
    # Where nothing orders a write and a read, the read may also come before the first write.
    assert {f["kind"] for f in findings} <= {"race", "uninitialised_read"}
    races = [f for f in findings if f["kind"] == "race"]
    assert races
    places = set()
    for finding in races:
        places.add(line_of(finding))
        places.add(line_of({"line": 0, **finding["other"]}))
        assert finding["message"].count(" by thread (") == 1
    assert planted_line(name) in places
    assert any(advice in f["message"] for f in races)


def test_reports_of_one_race_are_few_and_fast(run, runtime, kernels_of):
    x, y = floats(256), floats(64)
    kernels_of("faults", (0, 32, True))("missing_second_barrier", x + 1, y)
    assert len(runtime.report()["findings"]) <= 2


def test_uninitialised_shared_memory(run, order):
    finding, _ = run("unset_shared", floats(64), order=order)
    assert finding["kind"] == "uninitialised_read"
    assert (
        "of shared variable 'tile', which no thread of the block has written"
        in (finding["message"])
    )


@pytest.mark.parametrize("checked", [False, True])
def test_divergent_barrier(run, order, checked):
    finding, error = run("divergent_barrier", np.zeros(64, np.int32), checked=checked, placed=False)
    assert finding["kind"] == "divergent_barrier"
    line = planted_line("divergent_barrier")
    assert f"line {line}" in finding["message"]
    assert f"line {line - 3}" in finding["message"]
    assert error == 0


def test_deadlock(run, order):
    finding, error = run("lonely_grid_barrier", checked=False, order=order)
    assert finding["kind"] == "deadlock"
    assert "3 threads wait at __syncthreads()" in finding["message"]
    assert "1 threads wait at a grid-wide barrier" in finding["message"]
    assert error == LAUNCH_FAILURE


def test_grid_barrier_without_cooperative_launch(run, runtime, kernels_of):
    kernels_of("basic", (0, 32, False))("grid_barrier", np.zeros(1, np.int32), floats(64), 2, 0)
    finding = runtime.report()["findings"][0]
    assert finding["kind"] == "trap"
    assert "cooperative" in finding["message"]


def test_absent_lanes_are_a_remark_and_the_kernel_goes_on(run, order):
    y = np.zeros(32, np.int32)
    finding, error = run("absent_lanes", y, checked=False, order=order)
    assert finding["kind"] == "partial_warp"
    assert "0xffffffff" in finding["message"]
    assert list(y[:8]) == [1, 0, 3, 2, 5, 4, 7, 6]
    assert error == 0


def test_lane_outside_its_own_mask(run):
    y = np.zeros(32, np.int32)
    finding, _ = run("outside_own_mask", y, checked=False)
    assert finding["kind"] == "partial_warp"
    assert "not in its own mask 0xff" in finding["message"]
    assert np.array_equal(y, np.arange(32))


def test_shuffle_from_a_lane_that_is_not_there(run):
    y = np.zeros(20, np.int32)
    finding, _ = run("reads_absent_lane", y, checked=False)
    assert finding["kind"] == "undefined_shuffle"
    assert "which is not in the block" in finding["message"]
    assert list(y) == [*range(10, 20), *[-1] * 10]


REFUSED = [
    ((1, 1, 1, 1089, 1, 1, 0, 0), 9, "has 1089 threads, the limit is 1024"),
    ((1, 1, 1, 33, 33, 1, 0, 0), 9, "has 1089 threads, the limit is 1024"),
    ((1, 1, 1, 1, 1, 65, 0, 0), 9, "z is limited to 64"),
    ((0, 1, 1, 1, 1, 1, 0, 0), 9, "grid (0,1,1) has a zero dimension"),
    ((1, 1, 1, 0, 1, 1, 0, 0), 9, "block (0,1,1) has a zero dimension"),
    ((1, 65536, 1, 1, 1, 1, 0, 0), 9, "y and z are limited to 65535"),
    ((1, 1, 65536, 1, 1, 1, 0, 0), 9, "y and z are limited to 65535"),
    ((2147483648, 1, 1, 1, 1, 1, 0, 0), 9, "x is limited to 2147483647"),
    ((1, 1, 1, 1, 1, 1, 49153, 0), 1, "cudaFuncSetAttribute"),
    ((1, 1, 1, 1, 1, 1, 232449, 0), 1, "the device has 232448"),
]


@pytest.mark.parametrize(("shape", "error", "reason"), REFUSED)
def test_launches_that_a_device_refuses(run, runtime, shape, error, reason):
    library = runtime.driver("faults", False)
    arguments = [ctypes.c_uint(v) for v in shape[:6]]
    result = library.launch_shape(*arguments, ctypes.c_ulong(shape[6]), shape[7])
    assert result == error
    report = runtime.report()
    (finding,) = report["findings"]
    assert report["launches"] == []
    assert report["error"] == error
    assert finding["kind"] == "invalid_launch"
    assert reason in finding["message"]
    assert finding["line"] == planted_line("launch_shape")
    assert finding["source"].endswith("faults.cpp")


def test_shared_memory_limits(runtime):
    library = runtime.driver("faults", False)
    ones = [ctypes.c_uint(1)] * 6
    assert library.launch_shape(*ones, ctypes.c_ulong(49152), 0) == 0
    assert library.launch_shape(*ones, ctypes.c_ulong(100000), 232449) == 1
    assert library.launch_shape(*ones, ctypes.c_ulong(100000), 100000) == 0
    assert library.launch_shape(*ones, ctypes.c_ulong(100001), 0) == 1
    runtime.report()
    assert library.big_static_shared() == 1
    (finding,) = runtime.report()["findings"]
    assert "51200 bytes of static shared memory" in finding["message"]


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        ("device_trap", [], LAUNCH_FAILURE, "__trap()"),
        ("device_assert", [], ASSERT, "assertion failed"),
        ("divide_by", [np.zeros(4, np.int32), 0], LAUNCH_FAILURE, "division by zero"),
    ],
)
def test_traps(run, checked, name, arguments, error, message):
    finding, got = run(name, *arguments, checked=checked)
    assert finding["kind"] == "trap"
    assert message in finding["message"]
    assert got == error


def test_stack_overflow_and_exceptions_do_not_kill(run):
    finding, _ = run("stack_overflow", np.zeros(1, np.int32), checked=False, placed=False)
    assert finding["kind"] == "trap"
    assert "stack overflow" in finding["message"]
    finding, _ = run("throwing", checked=False, placed=False)
    assert "exception" in finding["message"]


def test_kernels_launch_no_kernels(runtime):
    runtime.driver("faults", False).nested_launch()
    (finding,) = runtime.report()["findings"]
    assert finding["kind"] == "invalid_launch"
    assert "dynamic parallelism" in finding["message"]
    assert finding["line"] == planted_line("nested_launch")


def test_configure_starts_afresh(runtime):
    runtime.driver("faults", False).device_trap()
    assert runtime.library.musahost_last_error(1) == LAUNCH_FAILURE
    assert runtime.library.musahost_last_error(1) == LAUNCH_FAILURE
    runtime.configure()
    assert runtime.library.musahost_last_error(1) == 0
    assert runtime.report()["findings"] == []
