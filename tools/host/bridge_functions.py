"""The functions that a compiled candidate exports, called with Python's arguments."""

import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from musaagent.tools.host.bridge_casts import Converter, parse_code
from musaagent.tools.host.bridge_runtime import Runtime
from musaagent.tools.host.bridge_values import (
    Tag,
    Value,
)

failing = False
"""Set to make every function raise, as a broken build or device would."""
_asked = 0
"""How many calls have failed so."""


@contextmanager
def made_to_fail(active: bool) -> Iterator[None]:
    """Every compiled function raises meanwhile, where `active`.

    If none was asked, nothing is known of what would be done without it (classes and operators of
    pybind's modules cannot be made to fail, and a CUDA graph calls nothing): RuntimeError.
    """
    global failing, _asked
    failing, _asked = active, 0
    try:
        yield
    finally:
        failing = False
    if active and not _asked:
        raise RuntimeError("no function that can be made to fail was called")


def _fail(name: str) -> None:
    global _asked
    _asked += 1
    raise RuntimeError(f"{name}: CUDA error: unspecified launch failure")


class Guarded:
    """A function of a module that pybind made, which can be made to fail too."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__wrapped__ = function
        self.__name__ = self.__qualname__ = getattr(function, "__name__", "function")
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if failing:
            _fail(self.__name__)
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)


def guard(module: types.ModuleType) -> None:
    """All functions of a module that pybind made; its classes stay as they are."""
    for name, value in list(vars(module).items()):
        if isinstance(value, types.BuiltinFunctionType):
            setattr(module, name, Guarded(value))


class Function:
    """One exported C++ function, or several of one name that are tried in turn."""

    def __init__(self, runtime: Runtime, name: str, doc: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__doc__ = doc or None
        self._runtime = runtime
        self._forms: list[Form] = []

    def add(self, form: "Form") -> None:
        self._forms.append(form)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if failing:
            _fail(self.__name__)
        for form in self._forms:
            keep: list[Any] = []
            values = form.bind(self._runtime, args, kwargs, keep)
            if values is not None:
                return self._runtime.call(form.pointer, values, len(form.parameters))
        raise TypeError(self._refusal(args, kwargs))

    def __repr__(self) -> str:
        return f"<built-in function {self.__name__}>"

    def _refusal(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        lines = [
            f"{self.__name__}(): incompatible function arguments. "
            "The following argument types are supported:"
        ]
        lines += [f"    {i}. {form.signature()}" for i, form in enumerate(self._forms, 1)]
        given = ", ".join(repr(a) for a in args)
        if kwargs:
            given += "; kwargs: " + ", ".join(f"{k}={v!r}" for k, v in kwargs.items())
        return "\n".join([*lines, "", f"Invoked with: {given}"])


class Form:
    """One signature of a function."""

    def __init__(self, runtime: Runtime, pointer: int, code: str, arguments: list[str]) -> None:
        self.pointer = pointer
        self.parameters, self._result = parse_code(code)
        self._named = bool(arguments)
        self._defaults = [a.endswith("=") for a in arguments] or [False] * len(self.parameters)
        self._names = [a.removesuffix("=") for a in arguments] or [
            f"arg{i}" for i in range(len(self.parameters))
        ]
        self._runtime = weakref.proxy(runtime)

    def bind(
        self, runtime: Runtime, args: tuple[Any, ...], kwargs: dict[str, Any], keep: list[Any]
    ) -> Any:
        """The boxed arguments; None where they do not fit. `keep` must outlive the call."""
        count = len(self.parameters)
        if len(args) > count or (kwargs and not self._named):
            return None
        values = (Value * max(count, 1))()
        keep.append(values)
        used = 0
        for index, (converter, _) in enumerate(self.parameters):
            name = self._names[index]
            if index < len(args):
                item = args[index]
                if name in kwargs:
                    return None
            elif name in kwargs:
                item = kwargs[name]
                used += 1
            elif self._defaults[index]:
                values[index].tag = Tag.DEFAULT
                continue
            else:
                return None
            if not _convert(converter, runtime, values[index], item, name, keep):
                return None
        return values if used == len(kwargs) else None

    def signature(self) -> str:
        """As pybind11 writes it: `(x: torch.Tensor, eps: float = 1e-05) -> torch.Tensor`."""
        texts = []
        for index, (_, kind) in enumerate(self.parameters):
            default = ""
            if self._defaults[index]:
                value = self._runtime.library.musahost_thin_default(self.pointer, index)
                default = f" = {self._runtime.unbox(value[0], [])!r}"
            texts.append(f"{self._names[index]}: {kind}{default}")
        return f"({', '.join(texts)}) -> {self._result}"


def _convert(
    converter: Converter, runtime: Runtime, value: Value, item: Any, name: str, keep: list[Any]
) -> bool:
    return converter(runtime, value, item, name, keep)
