"""Functions of a module that pybind made fail when they are asked to, and only then."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from musaagent.tools.host.bridge_functions import made_to_fail
from musaagent.tools.host.toolchain import find_cxx, find_torch, python_include
from musaagent.tools.worker_candidate import load_pybind

SOURCE = """
#include <pybind11/pybind11.h>
struct Counter { int value = 0; int next() { return ++value; } };
PYBIND11_MODULE(guarded, m) {
  m.def("add", [](int a, int b) { return a + b; }, "adds", pybind11::arg("a"), pybind11::arg("b") = 1);
  pybind11::class_<Counter>(m, "Counter").def(pybind11::init<>()).def("next", &Counter::next);
}
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    torch = find_torch()
    if torch is None:
        pytest.skip("torch has no headers here")
    folder: Path = tmp_path_factory.mktemp("pybind")
    (folder / "m.cpp").write_text(SOURCE)
    line = [find_cxx().path, "-std=c++17", "-O0", "-shared", "-fPIC", "m.cpp", "-o", "guarded.so"]
    line += [f"-I{path}" for path in [*torch.include, python_include()]]
    subprocess.run(line, cwd=folder, check=True)
    yield load_pybind("guarded", str(folder / "guarded.so"))
    sys.modules.pop("guarded", None)


def test_calls_go_through_as_they_are(module: ModuleType) -> None:
    assert module.add(2, b=5) == 7
    assert (module.add.__name__, "adds" in module.add.__doc__) == ("add", True)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        module.add("x")

    class Holder:
        add = module.add

    assert Holder().add(2) == 3  # no method, as a builtin is none


def test_a_function_fails_and_what_hides_it_is_seen(module: ModuleType) -> None:
    kept = module.add
    with pytest.raises(RuntimeError, match="add: CUDA error"), made_to_fail(True):
        kept(1)
    with made_to_fail(True):
        try:
            value = kept(1)
        except RuntimeError:
            value = -1
    assert value == -1
    assert kept(1) == 2


def test_where_nothing_was_asked_to_fail_nothing_is_told(module: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="no function"), made_to_fail(True):
        module.Counter().next()
    with made_to_fail(False):
        assert module.Counter().next() == 1
