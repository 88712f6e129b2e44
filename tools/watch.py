"""What the candidate's worker sees of the candidate beside its outputs.

Evidence for the parent: operators in all threads, replaced functions, switched settings, memory
that is used again, and what a call leaves behind. It is gathered in the candidate's own process, so
it can only be trusted as far as `Identities` finds the process as it was.
"""

import gc
import hashlib
import inspect
import math
import os
import secrets
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from musaagent.tools import hooks
from musaagent.tools.originals import Identities

_MOST_FILES = 2000
_MOST_KEPT_BYTES = 1 << 30
"""A larger output is not kept until the next call."""
CANDIDATE_FILE = "candidate.py"
"""What the candidate's code is compiled as."""
_POOL_THREAD = "musahost"
"""The name of the host runtime's own threads (runtime/pool.cpp)."""


def members(model: Any, kind: str) -> dict[str, Any]:
    """The tensors of `_parameters` or `_buffers`, by name, each once. No method is called."""
    found: dict[str, Any] = {}
    seen: set[int] = set()

    def walk(module: Any, prefix: str) -> None:
        seen.add(id(module))
        own = object.__getattribute__(module, "__dict__")
        for name, tensor in _items(own.get(kind)):
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                found[prefix + name] = tensor
        for name, child in _items(own.get("_modules")):
            if child is not None and id(child) not in seen:
                walk(child, f"{prefix}{name}.")

    walk(model, "")
    return found


def _items(held: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(held, dict):
        return list(dict.items(held))
    return list(held.items()) if held is not None else []  # TorchScript's


def detached(tensor: Any) -> Any:
    """A plain tensor of the same memory; nothing that the candidate hung on this one is called."""
    import torch

    with torch._C.DisableTorchFunction():
        return torch.Tensor.detach(tensor)


def digest(tensor: Any) -> str:
    """Of the values, NaNs included."""
    import torch

    flat = detached(tensor).contiguous().view(-1)
    raw = flat.view(torch.uint8) if flat.numel() else flat
    values = torch._C.TensorBase.numpy(raw)  # the host target's stand-in would copy it
    return hashlib.blake2b(values.tobytes(), digest_size=16).hexdigest()


def _memory(tensor: Any) -> int:
    """The address of the storage, whatever the host target's stand-in says."""
    import torch

    storage_base: Any = torch._C.StorageBase
    return int(storage_base.data_ptr(tensor.untyped_storage()))


def settings() -> dict[str, str]:
    """Global switches that would change a reference in the same process (exploit 27)."""
    import torch

    return {
        "torch default dtype": str(torch.get_default_dtype()),
        "float32 matmul precision": torch.get_float32_matmul_precision(),
        "cudnn.allow_tf32": str(torch.backends.cudnn.allow_tf32),
        "deterministic algorithms": str(torch.are_deterministic_algorithms_enabled()),
        "grad mode": str(torch.is_grad_enabled()),
    }


def differences(before: dict[str, str], now: dict[str, str]) -> list[str]:
    return [f"{key} from {old} to {now[key]}" for key, old in before.items() if now[key] != old]


FEW_ELEMENTS = 256
"""A few sizes or flags may be read back in forward; more is work that is done on the CPU."""

_MANY_VALUES = "host.copy of more than a few values"
_COPIES = frozenset({"aten.clone.default", "aten._to_copy.default", "aten.copy_.default"})


_NO_WORK = frozenset({"profiler"})
"""Namespaces of operators that compute nothing: marks in a profile."""


def _real_device(tensor: Any) -> str:
    """The device's type, whatever the host target's stand-in says."""
    import torch

    device: Any = inspect.getattr_static(torch._C.TensorBase, "device")
    return str(device.__get__(tensor).type) if isinstance(tensor, torch.Tensor) else "cpu"


class Places:
    """Where tensors are. The host target has an answer of its own, as all of its are on the CPU."""

    device_of: Callable[[Any], str] = staticmethod(_real_device)
    follow: Callable[[Any, Any], None] = staticmethod(lambda arguments, result: None)
    """Told of every operator's arguments and result."""


def operator_recorder() -> Any:
    """A dispatch mode that notes every ATen operator, called from Python or from C++."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
            self.names: list[str] = []
            self.lines: dict[str, int] = {}
            """Where in the candidate's text each operator was first called from."""
            self.moved = 0
            """Elements that torch copied."""
            self._items = 0

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            # Otherwise torch wraps the handler and imports all of torch._dynamo at the first call.
            return False

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = str(func)
            if name not in self.names:
                self.names.append(name)
                self.lines[name] = _line_in(CANDIDATE_FILE)
            if name == "aten._local_scalar_dense.default":
                self._count_host_copy(1)
            result = func(*args, **(kwargs or {}))
            Places.follow((args, kwargs), result)
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
        values += inside and event.name == "aten::_local_scalar_dense"
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
    import torch

    packet = getattr(torch.ops.aten, name.removeprefix("aten::"), None)
    if packet is None:
        return False
    full = [f"{name}.{o}" if o != "default" else name for o in packet.overloads()]
    return all(_only_calls_others(operator) for operator in full)


def _only_calls_others(operator: str) -> bool:
    import torch

    try:
        return torch._C._dispatch_has_kernel_for_dispatch_key(operator, "CompositeImplicitAutograd")
    except RuntimeError:
        return True  # TorchScript's alone, which the dispatcher does not know


def namespaces() -> frozenset[str]:
    """Of all operators that torch knows."""
    import torch

    return frozenset(n.partition("::")[0] for n in torch._C._dispatch_get_all_op_names())


class Leftovers:
    """Threads, processes and files that a call leaves behind (exploits 17, 31 and 35)."""

    def __init__(self, native_threads: bool) -> None:
        self._native = native_threads
        self.before = self._now()

    def found(self) -> list[str]:
        now = self._now()
        return sorted(now - self.before)

    def _now(self) -> set[str]:
        seen = {f"thread {t.name}" for t in threading.enumerate()}
        if self._native:
            seen |= set(_native_threads())
        seen |= {f"process {pid}" for pid in _children()}
        for folder in {str(Path.cwd()), os.environ.get("TMPDIR", "")} - {"", "/"}:
            seen |= {f"file {path}" for path in _files(folder)}
        return seen


def _python_threads() -> set[str]:
    """By name, or by number where `threading` does not know of them."""
    names = {t.ident: t.name for t in threading.enumerate()}
    return {names.get(ident) or f"number {ident}" for ident in sys._current_frames()}


def _native_threads() -> Iterator[str]:
    """Threads that neither Python nor the host runtime's pool started, by id and name."""
    python = {t.native_id for t in threading.enumerate()} | {os.getpid()}
    try:
        for task in Path("/proc/self/task").iterdir():
            name = (task / "comm").read_text().strip()
            if name != _POOL_THREAD and int(task.name) not in python:
                yield f"native thread {task.name} ({name})"
    except OSError:
        return


def _children() -> list[str]:
    try:
        return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    except OSError:
        return []


def _files(folder: str) -> Iterable[str]:
    count = 0
    for place, folders, names in os.walk(folder):
        # Caches of drivers and of Python are no work of the candidate's, nor is what the jail
        # shows it there, as the libraries that it built while it ran.
        folders[:] = [
            f
            for f in folders
            if f != "__pycache__" and not f.startswith(".") and not os.path.ismount(f"{place}/{f}")
        ]
        for name in names:
            count += 1
            if count > _MOST_FILES:
                return
            yield os.path.relpath(f"{place}/{name}", folder)


class Watcher:
    """Around each run: what was before, and what is to be told of it afterwards.

    `summed` tells values apart, of outputs and parameters.
    """

    def __init__(
        self, summed: Callable[[Any], str] = digest, *, native_threads: bool = True
    ) -> None:
        self.identities: Identities
        self.settings = settings()
        self._namespaces = namespaces()
        self._summed = summed
        self._native_threads = native_threads
        self._outputs: list[tuple[Any, str]] = []
        self._parameters: dict[str, str] = {}
        self._leftovers = Leftovers(native_threads)
        self._threads = _python_threads()

    def seal(self, *objects: Any) -> None:
        """All that is there now is original. `objects` of ours are watched like classes."""
        gc.disable()  # what it calls by itself runs where the worker collects
        self.identities = Identities((*objects, self))

    def own_namespaces(self) -> tuple[str, ...]:
        """Namespaces of operators that the candidate registered, as `mine.`.

        Such an operator is a way to call its own code. What that code calls is recorded only below
        Python, so a run that has one is to be recorded there.
        """
        return tuple(f"{name}." for name in sorted(namespaces() - self._namespaces))

    def begin(self, model: Any) -> None:
        self._parameters = {n: self._summed(p) for n, p in members(model, "_parameters").items()}

    @contextmanager
    def leftovers(self) -> Iterator[None]:
        """The innermost context: what the recorders start is not the candidate's."""
        self._leftovers = Leftovers(self._native_threads)
        yield

    def _left_behind(self) -> list[str]:
        """Of this call; and Python's threads that run since the import, whoever started them."""
        older = _python_threads() - self._threads
        return sorted({*self._leftovers.found(), *(f"thread {name}" for name in older)})

    def forget_outputs(self) -> None:
        self._outputs = []

    def end(self, model: Any, inputs: Iterable[Any], outputs: Iterable[Any]) -> dict[str, Any]:
        told = {
            "replaced": hooks.shadows(inputs, outputs),
            "switched": differences(self.settings, settings()),
            "left_behind": self._left_behind(),
        }
        return told | self._compared(model, inputs, outputs)

    def _compared(
        self, model: Any, inputs: Iterable[Any], outputs: Iterable[Any]
    ) -> dict[str, Any]:
        overwritten = [1 for tensor, was in self._outputs if self._summed(tensor) != was]
        now = members(model, "_parameters")
        lent = {_memory(t) for t in (*inputs, *now.values())}
        self._outputs = [
            (t, self._summed(t))
            for t in outputs
            if _memory(t) not in lent and t.nbytes <= _MOST_KEPT_BYTES
        ]
        changed = [
            name
            for name, was in self._parameters.items()
            if name in now and self._summed(now[name]) != was
        ]
        return {"overwritten_outputs": len(overwritten), "changed_parameters": changed}
