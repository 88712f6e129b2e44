"""What test_memory.py checks, each in a process whose runs are watched."""

import json
from types import ModuleType

import torch

from musaagent.tools.host import bridge


def start(runtime: str, library: str) -> ModuleType:
    bridge.load_runtime(runtime)
    bridge.configure(checked=True, threads=1)
    return bridge.load_library(library, checked=True)


def findings() -> list[str]:
    report = json.loads(bridge.take_report())
    return [f"{f['kind']}: {f['message']}" for f in report["findings"]]


def right_kernels_on_guarded_tensors_report_nothing(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    for x in (torch.randn(100), torch.randn(4, 6).t(), torch.ones(1).expand(3), torch.ones(0)):
        copy = bridge.guard_copy(x, "input")
        assert torch.equal(copy, x)
        if x.is_contiguous() and x.numel():
            assert copy.stride() == x.stride()
            torch.testing.assert_close(functions.scaled(copy, 2.0), x * 2)
    weight = torch.nn.Parameter(torch.ones(2))
    assert bridge.guard_copy(weight).requires_grad
    functions.by_address(bridge.data_pointer(torch.ones(7)), 7)
    assert findings() == []


def an_overrun_names_the_tensor(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    functions.overrun(bridge.guard_copy(torch.ones(5), "input 0"))
    (found,) = findings()
    assert found.startswith("out_of_bounds")
    assert "input 0 float32[5]" in found


def an_overrun_of_what_cpp_made_is_found(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    functions.overrun(functions.poisoned(torch.ones(1)))
    (found,) = findings()
    assert found.startswith("out_of_bounds")
    assert "float32[3, 4]" in found


def host_memory_is_out_of_bounds(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    functions.on_host()
    assert any(found.startswith("out_of_bounds") for found in findings())
