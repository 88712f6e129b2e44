"""Whose the device time is, from lists of what ran as torch's profiler writes them."""

from typing import Any

from musaagent.tools.cuda.kernels import merge_events
from musaagent.tools.cuda.shares import DeviceTime, device_time, short_name, with_share
from musaagent.tools.results import Status, Trial, Verdict

FILL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<{}>, "
    "std::array<char*, 1ul> >(int, at::native::FillFunctor<{}>, std::array<char*, 1ul>)"
)
COPY = (
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::"
    "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}> >(int, int)"
)
SHAPE = {"grid": [4, 1, 1], "block": [128, 1, 1]}


def event(name: str, us: float, kind: str = "kernel") -> dict[str, Any]:
    return {"cat": kind, "name": name, "dur": us, "args": SHAPE if kind == "kernel" else {}}


def listed() -> list[dict[str, Any]]:
    return merge_events(
        [
            event("void (anonymous namespace)::mine<float>(float const*, int)", 2),
            event("_Z4yourPf", 1),
            event(FILL.format("float", "float"), 4),
            event(FILL.format("unsigned char", "unsigned char"), 90),
            event(COPY, 1),
            event("Memcpy DtoD (Device -> Device)", 1.5, "gpu_memcpy"),
            event("Memset (Device)", 0.5, "gpu_memset"),
            event("cudaLaunchKernel", 50, "cuda_runtime"),
        ]
    )


def passed(*flags: str) -> Verdict:
    trials = (Trial(name="seed 1 of 1", passed=True),)
    return Verdict(status=Status.PASSED, target="cuda", trials=trials, flags=flags)


def test_fills_and_copies_are_not_the_candidates_own() -> None:
    found = device_time(listed(), {"mine", "your"}, poisoned=True)
    assert found.own_ns == 3000
    assert found.rest_ns == {
        "FillFunctor<float>": 4000,
        "direct_copy_kernel_cuda": 1000,
        "Memcpy DtoD": 1500,
        "Memset": 500,
    }
    assert found.own_share == 0.3
    assert device_time(listed(), {"mine", "your"}).own_share == 0.03


def test_a_small_share_is_a_flag_with_the_largest_of_the_rest() -> None:
    verdict = with_share(passed("audit: x"), device_time(listed(), {"mine", "your"}, poisoned=True))
    assert verdict.own_share == 0.3
    assert verdict.flags == (
        "audit: x",
        "share: 30% of the device time is the candidate's own kernels; the rest: "
        "FillFunctor<float> 40%, Memcpy DtoD 15%, direct_copy_kernel_cuda 10%",
    )


def test_a_later_measure_takes_the_place_of_an_earlier_one() -> None:
    low, high = DeviceTime(10, {"Memset": 90}), DeviceTime(90, {"Memset": 10})
    verdict = with_share(with_share(passed(), low), high)
    assert (verdict.own_share, verdict.flags) == (0.9, ())
    assert with_share(verdict, None) == with_share(verdict, DeviceTime()) == verdict


def test_what_a_worker_sends_may_be_anything() -> None:
    odd: list[Any] = [None, {"kernel": "k"}, {"kernel": 7, "ns": "x"}, {"kernel": "k", "ns": -5}]
    assert device_time(odd, {"k"}) == DeviceTime()
    for raw in (None, 5, "text", {"a": 1}):
        assert device_time(raw, {"k"}) == DeviceTime()


def test_names_are_short() -> None:
    assert short_name("Memcpy HtoD (Pageable -> Device)") == "Memcpy HtoD"
    assert short_name("void cub::DeviceScan<int>(int)") == "DeviceScan"
