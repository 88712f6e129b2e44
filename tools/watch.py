"""What the candidate's worker sees of the candidate beside its outputs.

Evidence for the parent, with that of `recorders`: replaced functions, switched settings, memory
that is used again, and what a call leaves behind. It is gathered in the candidate's own process, so
it can only be trusted as far as `Identities` finds the process as it was.
"""

import gc
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from musaagent.tools import hooks
from musaagent.tools.originals import Identities
from musaagent.tools.recorders import namespaces

_MOST_FILES = 2000
_MOST_KEPT_BYTES = 1 << 30
"""A larger output is not kept until the next call."""
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
