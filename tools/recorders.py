"""Records of the operators that run with the candidate: in its thread, and in all of them."""

import inspect
import math
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

CANDIDATE_FILE = "candidate.py"
"""What the candidate's code is compiled as."""
FEW_ELEMENTS = 256
"""A few sizes or flags may be read back in forward; more is work that is done on the CPU."""

_MANY_VALUES = "host.copy of more than a few values"
_ANSWERS = frozenset({"_local_scalar_dense", "equal"})
"""Operators that give Python a value: a bit is one as well, from which others can be found."""
_COPIES = frozenset({"aten.clone.default", "aten._to_copy.default", "aten.copy_.default"})


_EMPTY = frozenset(
    f"aten.{name}"
    for name in (
        *("empty.memory_format", "empty_like.default", "empty_strided.default"),
        *("new_empty.default", "new_empty_strided.default"),
    )
)
_NO_WORK = frozenset({"profiler"})
"""Namespaces of operators that compute nothing: marks in a profile."""


def _real_device(tensor: Any) -> str:
    """The device's type, whatever the host target's stand-in says."""
    device: Any = inspect.getattr_static(torch._C.TensorBase, "device")
    return str(device.__get__(tensor).type) if isinstance(tensor, torch.Tensor) else "cpu"


class Places:
    """Where tensors are. The host target has an answer of its own, as all of its are on the CPU."""

    device_of: Callable[[Any], str] = staticmethod(_real_device)
    follow: Callable[[Any, Any], None] = staticmethod(lambda arguments, result: None)
    """Told of every operator's arguments and result."""
    fresh: Callable[[Any], None] = staticmethod(lambda tensor: None)
    """Told of tensors whose memory nobody has written yet."""


class QuietMode(TorchDispatchMode):
    """Does not wake torch's compiler.

    Otherwise torch wraps the handler and imports all of torch._dynamo at the first call.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


def operator_recorder() -> Any:
    """A dispatch mode that notes every ATen operator, called from Python or from C++.

    Of a class of its own each time, which nobody can have changed beforehand.
    """

    class Recorder(QuietMode):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []
            self.lines: dict[str, int] = {}
            """Where in the candidate's text each operator was first called from."""
            self.moved = 0
            """Elements that torch copied."""
            self._items = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = str(func)
            if name not in self.names:
                self.names.append(name)
                self.lines[name] = _line_in(CANDIDATE_FILE)
            if name.startswith("aten.") and name.split(".")[1] in _ANSWERS:
                self._count_host_copy(1)
            result = func(*args, **(kwargs or {}))
            Places.follow((args, kwargs), result)
            if name in _EMPTY:
                Places.fresh(result)
            if name in _COPIES:
                self.moved += args[0].numel()
                self._note_host_copy(args[-1] if name == "aten.copy_.default" else args[0], result)
            return result

        def _note_host_copy(self, source: Any, result: Any) -> None:
            """On a GPU: values that go to the CPU, where their work would be seen by nobody."""
            kinds = (Places.device_of(source), Places.device_of(result))
            if kinds[0] != "cpu" == kinds[1]:
                self._count_host_copy(source.numel())

        def _count_host_copy(self, elements: int) -> None:
            before, self._items = self._items, self._items + elements
            if before <= FEW_ELEMENTS < self._items:
                self.names.append(_MANY_VALUES)

    return Recorder()


def _line_in(file_name: str) -> int:
    """Line of the innermost frame of that file; 0 where there is none."""
    frame = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.endswith(f"/{file_name}"):
        frame = frame.f_back  # type: ignore[assignment]
    return frame.f_lineno if frame is not None else 0


class ThreadRecord:
    """What `operators_in_all_threads` saw."""

    def __init__(self, active: bool) -> None:
        self.active = active
        self.operators: list[str] = []
        self.moved = 0
        """Elements that torch copied within `part_of`, in any thread."""
        self.part = f"musaagent {secrets.token_hex(8)}"
        """Name of a mark for the part of it that is the candidate's."""


@contextmanager
def operators_in_all_threads(active: bool) -> Iterator[ThreadRecord]:
    """Notes every operator that runs, in any thread and under any Python mode (exploits 1, 10, 31).

    Operators that only call others are left out. Where this torch cannot do it, a line that is no
    legal operator says so: the check fails closed.
    """
    record = ThreadRecord(active)
    if not active:
        yield record
        return
    from torch.autograd import profiler

    options: dict[str, Any] = {"use_kineto": False, "record_shapes": True}
    try:
        from torch._C._profiler import _ExperimentalConfig

        options["experimental_config"] = _ExperimentalConfig(profile_all_threads=True)
    except (ImportError, TypeError):
        pass  # before torch 2.8: this thread alone
    with profiler.profile(**options) as profile:
        yield record
    _read_events(profile.function_events or (), record)


def _read_events(events: Iterable[Any], record: ThreadRecord) -> None:
    known = namespaces() - _NO_WORK
    part = next((e.time_range for e in events if e.name == record.part), None)
    if part is None:
        record.operators.append("record.lost: somebody else's profile")
        return
    values = 0
    for event in events:
        space, _, operator = event.name.partition("::")
        if not operator or space not in known:
            continue
        if space != "aten" or not _composite(event.name):
            record.operators.append(event.name)
        inside = part.start <= event.time_range.start <= part.end
        if inside and event.name == "aten::copy_":
            record.moved += math.prod(event.input_shapes[0])
        values += inside and space == "aten" and operator in _ANSWERS
    if values > FEW_ELEMENTS:
        record.operators.append(_MANY_VALUES)


@contextmanager
def part_of(record: ThreadRecord) -> Iterator[None]:
    """Marks what runs in it as the candidate's, for the figures that our own calls add to."""
    if not record.active:
        yield  # another profiler would take the mark for work
        return
    from torch.autograd import profiler

    with profiler.record_function(record.part):
        yield


def _composite(name: str) -> bool:
    """Whether all overloads only call other operators, which are recorded themselves."""
    packet = getattr(torch.ops.aten, name.removeprefix("aten::"), None)
    if packet is None:
        return False
    full = [f"{name}.{o}" if o != "default" else name for o in packet.overloads()]
    return all(_only_calls_others(operator) for operator in full)


def _only_calls_others(operator: str) -> bool:
    try:
        return torch._C._dispatch_has_kernel_for_dispatch_key(operator, "CompositeImplicitAutograd")
    except RuntimeError:
        return True  # TorchScript's alone, which the dispatcher does not know


def namespaces() -> frozenset[str]:
    """Of all operators that torch knows."""
    return frozenset(n.partition("::")[0] for n in torch._C._dispatch_get_all_op_names())
