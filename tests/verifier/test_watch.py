"""What is seen of a call: operators, what it leaves behind, what is hung in or replaced."""

import gc
import os
import signal
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from musaagent.tools import hooks, recorders, watch
from musaagent.tools.originals import Identities
from musaagent.tools.watch import Leftovers


def test_new_files_are_left_behind_but_not_what_is_mounted_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lent, own = tmp_path / "lent", tmp_path / "own"
    lent.mkdir()
    own.mkdir()
    really = os.path.ismount
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) == str(lent) or really(path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = Leftovers(native_threads=False)
    (lent / "module.so").touch()
    (own / "result.bin").touch()
    assert before.found() == ["file own/result.bin"]


def test_operators_of_all_libraries_and_threads_are_recorded_and_copies_counted() -> None:
    x = torch.randn(6, 5)
    with recorders.operators_in_all_threads(True) as record:
        x.t().contiguous()
        with recorders.part_of(record):
            worker = threading.Thread(target=lambda: [x.t().contiguous(), [v.item() for v in x[0]]])
            worker.start()
            worker.join()
            torch.ops.profiler._record_function_enter_new("a mark", None)
    assert {"aten::clone", "aten::copy_"} <= set(record.operators)
    assert not any("profiler" in name or "record" in name for name in record.operators)
    assert record.moved == 30
    with recorders.operators_in_all_threads(True) as lost:
        pass
    assert lost.operators == ["record.lost: somebody else's profile"]


def test_values_read_back_in_a_thread_are_counted() -> None:
    x = torch.randn(300)
    for few, told in ((200, False), (300, True)):
        with recorders.operators_in_all_threads(True) as record, recorders.part_of(record):
            worker = threading.Thread(target=lambda n=few: [v.item() for v in x[:n].unbind(0)])
            worker.start()
            worker.join()
        assert ("host.copy of more than a few values" in record.operators) is told


class Talking(torch.nn.Module):
    """Says what it likes of its tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(3))
        self.again = self.gain
        self.inner = torch.nn.BatchNorm1d(2)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("was asked")

    named_buffers = named_modules = parameters = named_parameters


def test_members_are_those_of_the_module_and_no_method_is_called() -> None:
    model = Talking()
    assert list(watch.members(model, "_parameters")) == ["gain", "inner.weight", "inner.bias"]
    names = [f"inner.{n}" for n in ("running_mean", "running_var", "num_batches_tracked")]
    assert list(watch.members(model, "_buffers")) == names


def test_attributes_that_hide_a_tensors_own_are_told() -> None:
    x, y = torch.ones(2), torch.ones(2)
    x.note = "free"  # type: ignore[attr-defined]
    assert hooks.shadows([x], [y]) == []
    y.detach = lambda: x  # type: ignore[method-assign]
    x.__class__ = type("Mine", (torch.Tensor,), {})
    assert hooks.shadows([x], [y]) == ["Tensor.__class__", "Tensor.detach"]
    assert type(watch.detached(y)) is torch.Tensor
    assert watch.detached(y).data_ptr() == y.data_ptr()


def _set_profile() -> None:
    sys.setprofile(lambda *args: None)


def _enter_mode() -> None:
    TorchFunctionMode().__enter__()


def _handle_signal() -> None:
    signal.signal(signal.SIGUSR1, lambda *args: None)


HUNG = {
    "sys.setprofile": (_set_profile, lambda: sys.setprofile(None)),
    "torch's stack of modes": (
        _enter_mode,
        lambda: torch._C._pop_torch_function_stack(),
    ),
    f"the handler of signal {int(signal.SIGUSR1)}": (
        _handle_signal,
        lambda: signal.signal(signal.SIGUSR1, signal.SIG_DFL),
    ),
    "gc.callbacks": (lambda: gc.callbacks.append(print), lambda: gc.callbacks.remove(print)),
    "torch": (
        lambda: sys.modules.update(torch=types.ModuleType("torch")),
        lambda: sys.modules.update(torch=torch),
    ),
}


@pytest.mark.parametrize("name", HUNG)
def test_what_is_hung_into_the_interpreter_is_told(name: str) -> None:
    known = Identities()
    hang, take_down = HUNG[name]
    hang()
    try:
        found = known.replaced()
    finally:
        take_down()
    assert found == [name]
    assert known.replaced() == []


def test_an_object_of_ours_keeps_its_functions() -> None:
    kept = Leftovers(native_threads=False)
    known = Identities([kept])
    kept.found = list  # type: ignore[method-assign]
    assert known.replaced() == ["Leftovers.found"]


HOLDING = """
import sys
from musaagent.tools import hooks
from musaagent.tools.originals import Identities
known = Identities()
hooks.hold_code()
sys.addaudithook(lambda *args: print("hooked"))
for name, value in ("__defaults__", ()), ("__code__", (lambda: []).__code__), ("__kwdefaults__", {}):
    try:
        setattr(known.check, name, value)
    except RuntimeError as error:
        print(error)
def own(): ...
own.__code__ = (lambda: 3).__code__
print(own(), known.replaced())
"""


def test_our_functions_cannot_be_rewritten_nor_audit_hooks_be_added() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HOLDING], capture_output=True, text=True, timeout=120, check=True
    )
    said = done.stdout.splitlines()
    assert [line.split()[0] for line in said[:3]] == ["__defaults__", "__code__", "__kwdefaults__"]
    assert said[3:] == ["3 []"]
