"""Guarded and registered memory in checked runs."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch

Run = Callable[[Callable[[], None]], None]


def checked(
    runtime_library: Path,
    library: Path,
    body: Callable[[ModuleType, Callable[[], list[str]]], None],
) -> Callable[[], None]:
    """`body` in a process whose runs are watched; it gets the functions and the findings."""

    def run() -> None:
        from musaagent.tools.host import bridge

        bridge.load_runtime(runtime_library)
        bridge.configure(checked=True, threads=1)
        module = bridge.load_library(library, checked=True)

        def findings() -> list[str]:
            report = json.loads(bridge.take_report())
            return [f"{f['kind']}: {f['message']}" for f in report["findings"]]

        body(module, findings)

    return run


def test_right_kernels_on_guarded_tensors_report_nothing(
    in_child: Run, runtime_library: Path, checked_library: Path
) -> None:
    def body(functions: ModuleType, findings: Callable[[], list[str]]) -> None:
        from musaagent.tools.host import bridge

        for x in (torch.randn(100), torch.randn(4, 6).t(), torch.ones(1).expand(3), torch.ones(0)):
            copy = bridge.guard_copy(x, "input")
            assert torch.equal(copy, x)
            if x.is_contiguous():
                assert copy.stride() == x.stride()
                torch.testing.assert_close(functions.scaled(copy, 2.0), x * 2)
        weight = torch.nn.Parameter(torch.ones(2))
        assert bridge.guard_copy(weight).requires_grad
        functions.by_address(bridge.data_pointer(torch.ones(7)), 7)
        assert findings() == []

    in_child(checked(runtime_library, checked_library, body))


def test_an_overrun_names_the_tensor(
    in_child: Run, runtime_library: Path, checked_library: Path
) -> None:
    def body(functions: ModuleType, findings: Callable[[], list[str]]) -> None:
        from musaagent.tools.host import bridge

        functions.overrun(bridge.guard_copy(torch.ones(5), "input 0"))
        (found,) = findings()
        assert found.startswith("out_of_bounds")
        assert "input 0 float32[5]" in found
        functions.overrun(functions.poisoned(torch.ones(1)))
        (found,) = findings()
        assert found.startswith("out_of_bounds")

    in_child(checked(runtime_library, checked_library, body))


def test_host_memory_is_out_of_bounds(
    in_child: Run, runtime_library: Path, checked_library: Path
) -> None:
    def body(functions: ModuleType, findings: Callable[[], list[str]]) -> None:
        functions.on_host()
        assert any(found.startswith("out_of_bounds") for found in findings())

    in_child(checked(runtime_library, checked_library, body))
