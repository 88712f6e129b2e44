"""What the parent makes of a GPU worker's words: kernels that ran, faults of the device, digests."""

from typing import Any

import pytest
import torch

from musaagent.tools.cuda.on_card import device_digest, mixed_sum, raw_bytes
from musaagent.tools.cuda.session import CudaSession
from musaagent.tools.host.sources import SourceSet
from musaagent.tools.results import Build
from musaagent.tools.session import RunnerSettings
from musaagent.tools.watch import Watcher, digest

SOURCES = SourceSet(
    name="mine",
    cpp_sources=("",),
    cuda_sources=("__global__ void mine(float* x) { x[0] = 1.f; }",),
    functions=("f",),
)


def session() -> CudaSession:
    settings = RunnerSettings(runtime_library="", checked=False, warp_size=32, timeout_s=1.0)
    made = CudaSession(None, settings, lambda sources: Build(ok=True), None)  # type: ignore[arg-type]
    made.builds.append((SOURCES, Build(ok=True, level="thin")))
    return made


def ran(name: str, ns: int = 1000) -> dict[str, Any]:
    return {"kernel": name, "grid": [1, 1, 1], "block": [1, 1, 1], "shared_bytes": 0} | {
        "count": 2,
        "ns": ns,
    }


def test_own_kernels_are_counted_where_somebody_looked() -> None:
    seen = session()
    copy = {"kernel": "Memcpy DtoD (Device -> Device)", "count": 1, "ns": 3000}
    assert seen._note_kernels({"kernels": [ran("mine(float*)"), copy]}) == 2
    assert seen._note_kernels({"kernels": []}) == 0
    assert seen._note_kernels({"kernels": None}) is None
    assert seen._note_kernels({"kernels": [], "kernels_unseen": "no CUPTI"}) is None
    assert seen.evidence.device_time is not None
    assert seen.evidence.device_time.own_share == 0.25


@pytest.mark.parametrize(
    ("message", "alive"),
    [
        ("CUDA error: an illegal memory access was encountered", False),
        ("CUDA error: misaligned address", False),
        ("CUDA error: device-side assert triggered", False),
        ("CUDA error: invalid configuration argument", True),
        ("only even sizes are supported", True),
    ],
)
def test_after_a_fault_of_the_device_a_process_is_of_no_more_use(message: str, alive: bool) -> None:
    failure = session()._raised("run forward", {"type": "RuntimeError", "message": message})
    assert failure.raised is alive


def changed(values: torch.Tensor, how: str) -> torch.Tensor:
    other = values.clone()
    match how:
        case "one":
            other.view(-1)[7] += 1
        case "negated":
            other = -other
        case "swapped":
            other.view(-1)[[3, 5]] = other.view(-1)[[5, 3]]
        case "two signs":
            other.view(-1)[[1, 3]] *= -1
        case "reversed":
            other = other.flip(0)
    return other


@pytest.mark.parametrize("how", ["one", "negated", "swapped", "two signs", "reversed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64, torch.int64])
@pytest.mark.parametrize("shape", [(31,), (64, 48)])
def test_a_sum_of_mixed_words_tells_values_apart(
    how: str, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    values = torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape).to(dtype)
    was = mixed_sum(raw_bytes(values))
    assert mixed_sum(raw_bytes(values.clone())) == was
    assert mixed_sum(raw_bytes(changed(values, how))) != was


def test_parts_of_a_large_tensor_have_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("musaagent.tools.cuda.on_card._WORDS", 16)
    values = torch.arange(100, dtype=torch.float64)
    moved = torch.cat([values[16:32], values[:16], values[32:]])
    assert mixed_sum(raw_bytes(values)) != mixed_sum(raw_bytes(moved))
    assert device_digest(torch.empty(0)) == digest(torch.empty(0))


def test_changed_parameters_and_memory_used_again_are_seen_by_any_digest() -> None:
    watcher = Watcher(lambda tensor: mixed_sum(raw_bytes(tensor)), native_threads=False)
    model, buffer = torch.nn.Linear(3, 3), torch.zeros(4)
    watcher.begin(model)
    assert watcher.end(model, [], [buffer])["changed_parameters"] == []
    buffer += 1
    with torch.no_grad():
        model.bias += 1
    told = watcher.end(model, [], [torch.zeros(4)])
    assert (told["changed_parameters"], told["overwritten_outputs"]) == (["bias"], 1)
