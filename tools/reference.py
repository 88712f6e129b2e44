"""The task's own module, run for inputs, weights and expected values, in the jailed worker.

Nothing here is trusted by the parent: it executes the task's code.
"""

import contextlib
import copy
import linecache
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from musaagent.tools import trees
from musaagent.tools.scaling import apply_scaling
from musaagent.tools.trees import Tree

_LONGEST_MESSAGE = 300
_DEVICE_WORDS = ("cuda", "musa")


class TaskCodeError(Exception):
    """The task's own code failed; str() is one line with its place, `line` its line or 0."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Expected:
    """What the reference returned for one set of inputs."""

    tree: Tree
    """Nesting of the outputs (`trees`); tensors by their index in `native`."""
    native: list[torch.Tensor]
    """Outputs in the task's own dtypes."""
    exact: list[torch.Tensor] | None
    """The same from the float64 run; None where it cannot be had, and `reference` says why."""
    reference: str
    """`float64`, or the task's own dtype and why."""
    buffers: dict[str, torch.Tensor]
    """Buffers after the run, as running statistics."""
    exact_buffers: dict[str, torch.Tensor] = field(default_factory=dict)
    changed_inputs: list[int] = field(default_factory=list)
    """Input tensors (by flat index) that forward changed in place."""
    random: bool = False
    """Whether two runs with different random states differ."""


class ReferenceModel:
    """A task's module at one scale. Every method raises TaskCodeError where the task's code fails.

    `overrides` maps size constants to other values (`scaling.apply_scaling`). `devices` makes a
    context in which code written for a GPU runs on the CPU.
    """

    def __init__(
        self,
        source: str,
        overrides: Mapping[str, int] | None = None,
        *,
        name: str = "task",
        devices: Callable[[], AbstractContextManager[Any]] | None = None,
    ) -> None:
        self.source = apply_scaling(source, overrides) if overrides else source
        self.filename = f"<{name}.py>"
        if devices is None and any(word in source for word in _DEVICE_WORDS):
            devices = CpuDevices
        self._devices = devices or contextlib.nullcontext
        self.module: torch.nn.Module | None = None
        with self.on_cpu("import"):
            self.namespace = _execute(self.source, self.filename)
        self.asked_for_tf32 = _tf32_flags()
        _strict_numerics()
        if not callable(self.namespace.get("Model")):
            raise TaskCodeError("defines no class Model")
        if not callable(self.namespace.get("get_inputs")):
            raise TaskCodeError("defines no function get_inputs")

    def init_inputs(self, seed: int) -> Any:
        """What get_init_inputs() returns after manual_seed(seed); [] where there is none."""
        getter = self.namespace.get("get_init_inputs")
        if getter is None:
            return []
        with self.on_cpu("get_init_inputs()"):
            torch.manual_seed(seed)
            return getter()

    def construct(self, seed: int, init: Any = None) -> torch.nn.Module:
        """Model(*init) after manual_seed(seed), in the mode it leaves its constructor in."""
        init = self.init_inputs(seed) if init is None else init
        positional, named = call_arguments(init)
        with self.on_cpu("Model(*get_init_inputs())"), torch.no_grad():
            torch.manual_seed(seed)
            module = self.namespace["Model"](*positional, **named)
        if not isinstance(module, torch.nn.Module):
            raise TaskCodeError(f"Model() makes a {type(module).__name__}, not a torch.nn.Module")
        self.module = module
        self._rebuild = (seed, init)
        return module

    def inputs(self, seed: int) -> Any:
        """What get_inputs() returns after manual_seed(seed), without gradients."""
        with self.on_cpu("get_inputs()"), torch.no_grad():
            torch.manual_seed(seed)
            values = self.namespace["get_inputs"]()
        call_arguments(values)
        tree, tensors = _flatten(values, "get_inputs()")
        return trees.unflatten(tree, [t.detach() for t in tensors])

    def state(self) -> dict[str, torch.Tensor]:
        """The module's state_dict: parameters and persistent buffers by qualified name."""
        return dict(self._constructed().state_dict())

    def run(
        self, module: torch.nn.Module, inputs: Any, seed: int
    ) -> tuple[Tree, list[torch.Tensor]]:
        """forward on `inputs` as they are, without gradients; outputs are detached copies."""
        positional, named = call_arguments(inputs)
        _strict_numerics()
        with self.on_cpu("forward"), torch.no_grad():
            torch.manual_seed(seed)
            result = module(*positional, **named)
        tree, tensors = _flatten(result, "forward")
        return tree, [t.detach().clone() for t in tensors]

    def expected(self, inputs: Any, seed: int = 0) -> Expected:
        """Run on copies of module and inputs, in the task's dtypes and in float64.

        The module itself is not changed: running statistics after the run are in `buffers`.
        """
        module = self.copy()
        arguments = clone(inputs)
        tree, native = self.run(module, arguments, seed)
        drew = drew_random(seed)
        random = drew and self._differs(inputs, seed, native)
        buffers = {k: b.detach().clone() for k, b in module.named_buffers()}
        changed = [i for i, t in enumerate(_tensors(arguments)) if t._version > 0]
        exact, exact_buffers, reference = self._exact(inputs, seed, tree, native, random)
        return Expected(tree, native, exact, reference, buffers, exact_buffers, changed, random)

    def copy(self) -> torch.nn.Module:
        """A fresh module with the same state."""
        module = self._constructed()
        try:
            return copy.deepcopy(module)
        except Exception:  # modules may hold what cannot be copied: build it again
            again = self.construct(*self._rebuild)
            self.module = module
            again.load_state_dict(module.state_dict())
            return again

    def wide_copy(self) -> torch.nn.Module:
        """A copy whose floating tensors, those outside the state_dict included, are float64."""
        module = self.copy().double()
        for part in module.modules():
            for name, value in list(vars(part).items()):
                if isinstance(value, torch.Tensor):
                    setattr(part, name, _widen(value))
        return module

    def run_wide(self, module: torch.nn.Module, inputs: Any, seed: int) -> list[torch.Tensor]:
        """forward of a `wide_copy` on float64 copies of `inputs`, new tensors float64 too."""
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return self.run(module, _map(inputs, _widen), seed)[1]
        finally:
            torch.set_default_dtype(default)

    def _exact(
        self, inputs: Any, seed: int, tree: Tree, native: Sequence[torch.Tensor], random: bool
    ) -> tuple[list[torch.Tensor] | None, dict[str, torch.Tensor], str]:
        own = "+".join(sorted({str(t.dtype).removeprefix("torch.") for t in native})) or "values"
        if random:
            return None, {}, f"{own}: forward draws random numbers"
        if not any(t.is_floating_point() or t.is_complex() for t in native):
            return None, {}, f"{own}: no floating outputs"
        module = self.wide_copy()
        try:
            wide = self.run_wide(module, inputs, seed)
        except TaskCodeError as error:
            return None, {}, f"{own}: the float64 run fails ({error})"
        if [t.shape for t in wide] != [t.shape for t in native]:
            return None, {}, f"{own}: the float64 run returns other shapes"
        return wide, dict(module.named_buffers()), "float64"

    def _differs(self, inputs: Any, seed: int, native: Sequence[torch.Tensor]) -> bool:
        _, again = self.run(self.copy(), clone(inputs), seed + 1)
        return len(again) != len(native) or not all(
            a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())
            for a, b in zip(again, native, strict=True)
        )

    def _constructed(self) -> torch.nn.Module:
        if self.module is None:
            raise RuntimeError("construct() comes first")
        return self.module

    @contextlib.contextmanager
    def on_cpu(self, doing: str) -> Iterator[None]:
        """Run the task's code on the CPU; what it raises becomes a TaskCodeError."""
        try:
            with self._devices():
                yield
        except TaskCodeError:
            raise
        except (Exception, SystemExit) as error:
            raise task_code_error(error, self.filename, doing) from error


class CpuDevices(TorchFunctionMode):
    """Sends what the task puts on a GPU to the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _DEVICE_WORDS and args:
            return args[0]
        mapped = {key: _on_cpu(value) for key, value in (kwargs or {}).items()}
        return func(*[_on_cpu(value) for value in args], **mapped)


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type in _DEVICE_WORDS:
        return torch.device("cpu")
    if isinstance(value, str) and value.partition(":")[0] in _DEVICE_WORDS:
        return "cpu"
    return value


def call_arguments(values: Any) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments from what get_inputs() or get_init_inputs() returned.

    A list or tuple is positional, a dict is named, one tensor is one argument; `[[...], {...}]`
    is both (KernelBook's form).
    """
    if isinstance(values, dict):
        return [], dict(values)
    if isinstance(values, torch.Tensor):
        return [values], {}
    if not isinstance(values, list | tuple):
        kind = type(values).__name__
        raise TaskCodeError(f"get_inputs() and get_init_inputs() return a list, not a {kind}")
    if len(values) == 2 and isinstance(values[0], list) and isinstance(values[1], dict):
        return list(values[0]), dict(values[1])
    return list(values), {}


def clone(values: Any) -> Any:
    """A deep copy of nested values; tensors keep dtype and strides where they are dense."""
    return _map(values, lambda t: t.detach().clone())


def task_code_error(error: BaseException, filename: str, doing: str) -> TaskCodeError:
    """One line: the place in the task's file, the exception's type and the message's first line."""
    lines = str(error).strip().splitlines()
    message = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    if isinstance(error, SyntaxError):
        return TaskCodeError(f"line {error.lineno}: syntax error: {error.msg}", error.lineno or 0)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == filename]
    line = (frames[-1].lineno or 0) if frames else 0
    place = f"line {line}, in {frames[-1].name}" if frames else doing
    return TaskCodeError(f"{place}: {message[:_LONGEST_MESSAGE]}", line)


def _execute(source: str, filename: str) -> dict[str, Any]:
    """Run the text as a module that dataclasses, pickling and inspect can find."""
    name = "musaagent_task"
    module = types.ModuleType(name)
    module.__file__ = filename
    sys.modules[name] = module
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), module.__dict__)
    return module.__dict__


def _flatten(value: Any, place: str) -> tuple[Tree, list[torch.Tensor]]:
    try:
        return trees.flatten(value, place)
    except trees.UnsupportedValue as error:
        raise TaskCodeError(str(error)) from None


def _tensors(values: Any) -> list[torch.Tensor]:
    return _flatten(values, "inputs")[1]


def _map(values: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    tree, tensors = _flatten(values, "inputs")
    return trees.unflatten(tree, [change(t) for t in tensors])


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in float64 (complex128); other dtypes are copied as they are."""
    if tensor.is_complex():
        return tensor.detach().to(torch.complex128, copy=True)
    if tensor.is_floating_point():
        return tensor.detach().to(torch.float64, copy=True)
    return tensor.detach().clone()


def drew_random(seed: int) -> bool:
    """Whether anything took random numbers since torch.manual_seed(seed)."""
    now = torch.get_rng_state()
    torch.manual_seed(seed)
    return not torch.equal(now, torch.get_rng_state())


def _tf32_flags() -> bool:
    """Whether the task's code asked for reduced float32 matrix products."""
    return torch.get_float32_matmul_precision() != "highest"


def _strict_numerics() -> None:
    """Full float32 products, whatever the task's code set."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
