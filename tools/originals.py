"""What was in the candidate's process before the candidate: functions, classes, hooks."""

import builtins
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from musaagent.tools import hooks

_WATCHED_MODULES = (
    *("torch", "torch.nn.functional", "torch.testing", "torch.cuda", "torch.autograd.profiler"),
    *("torch.musa", "torch.profiler", "torch.autograd", "torch._C._profiler", "contextlib"),
    *("torch.utils._python_dispatch", "torch.utils.cpp_extension", "torch.overrides"),
    *("builtins", "gc", "hashlib", "json", "os", "select", "socket", "struct", "threading", "time"),
)
_WATCHED_CLASSES = (
    *("torch:Tensor", "torch._C:TensorBase", "torch.nn:Module", "torch.cuda:Event"),
    *("torch.cuda:Stream", "torch.utils._python_dispatch:TorchDispatchMode"),
    *("torch.musa:Event", "torch.musa:Stream"),
    *("torch.utils._device:DeviceContext", "torch.nn:Parameter"),
    *("torch.autograd.profiler:profile", "torch.autograd.profiler:record_function"),
    *("torch:no_grad", "torch.utils._contextlib:_DecoratorContextManager", "pathlib:Path"),
    *("contextlib:_GeneratorContextManager", "contextlib:_GeneratorContextManagerBase"),
    *("contextlib:ContextDecorator", "contextlib:AbstractContextManager"),
    *("contextlib:nullcontext", "contextlib:suppress"),
)
_OURS = "musaagent."
_FOLLOWS_A_SETTING = frozenset({"torch.Storage"})
"""Replaced by torch itself, with the default dtype."""
_CONSTANTS = (int, float, str, tuple, frozenset)


class Identities:
    """Functions and classes as they were before the candidate was imported (exploits 28 and 33).

    `objects` are ours that live as long: their class's functions must not be hidden by attributes.
    """

    def __init__(self, objects: Iterable[Any] = ()) -> None:
        self._kept: dict[str, tuple[Any, str, Any, Any]] = {}
        self._owners: list[tuple[str, Any, frozenset[str]]] = []
        for name in _WATCHED_MODULES:
            module = sys.modules.get(name)
            if module is not None:
                self._keep(name, module)
        for place in _WATCHED_CLASSES:
            name, _, kind = place.partition(":")
            owner = getattr(sys.modules.get(name), kind, None)
            if owner is not None:
                self._keep(f"{name}.{kind}", owner)
        for name, module in list(sys.modules.items()):
            if name.startswith(_OURS) and module is not None:
                self._keep(name, module)
                for key, value in list(vars(module).items()):
                    if isinstance(value, type) and value.__module__ == name:
                        self._keep(f"{name}.{key}", value)
        self.check = _checker(self._kept, self._owners, tuple(objects))
        self._kept, self._owners = {}, []

    def _keep(self, place: str, owner: Any) -> None:
        self._owners.append((place, owner, frozenset(vars(owner))))
        for key, value in list(vars(owner).items()):
            function = callable(value) or isinstance(value, property | staticmethod | classmethod)
            function = function or (place.startswith(_OURS) and isinstance(value, types.ModuleType))
            # Our limits and tables; switches that we turn ourselves are bools.
            ours = place.startswith(_OURS) and type(value) in _CONSTANTS and key.isupper()
            if (function or ours) and f"{place}.{key}" not in _FOLLOWS_A_SETTING:
                self._kept[f"{place}.{key}"] = (owner, key, value, _code(value))

    def replaced(self) -> list[str]:
        """Names that stand for something else now; new ones count where they hide an old one."""
        return self.check()


def _checker(
    kept_by_name: dict[str, tuple[Any, str, Any, Any]],
    owned: list[tuple[str, Any, frozenset[str]]],
    objects: tuple[Any, ...],
) -> Callable[[], list[str]]:
    """A function that tells what was replaced.

    All that it needs are its defaults: names of modules and of `builtins`, cells and attributes can
    be exchanged by who finds them, and a tuple cannot. `hooks.hold_code` holds the defaults.
    """
    things = tuple((name, *what) for name, what in kept_by_name.items())
    places = tuple((p, o, type(o), keys, _behind(o)) for p, o, keys in owned)
    # A module of another class calls code when it is asked for a part, as one in its place does.
    # Others than those that are needed may go.
    known = tuple(
        (name, module, type(module), name.startswith(_OURS) or name in _WATCHED_MODULES)
        for name, module in list(sys.modules.items())
        if module is not None
    )
    ours = tuple((o, type(o), tuple(_held(o).items())) for o in objects)
    hung_then = tuple(hooks.in_force().items())

    def check(  # type: ignore[no-untyped-def]
        kept=things,
        owners=places,
        modules=known,
        alive=ours,
        hung=hung_then,
        now_hung=hooks.in_force,
        loaded=sys.modules,
        see=vars,
        kind=type,
        is_a=isinstance,
        wrapped=(staticmethod, classmethod),
        plain=types.FunctionType,
    ) -> list[str]:
        found = []
        for name, owner, key, value, was in kept:
            now = see(owner).get(key)
            bare = now.__func__ if is_a(now, wrapped) else now
            if now is not value or (bare.__code__ if is_a(bare, plain) else None) is not was:
                found.append(name)
        for place, owner, was, keys, behind in owners:
            if kind(owner) is not was:
                found.append(place)
            found += [f"{place}.{k}" for k in see(owner).keys() - keys if k in behind]
        for name, module, was, needed in modules:
            now = loaded.get(name, None if needed else module)
            if kind(module) is not was or now is not module:
                found.append(name)
        for thing, was, held in alive:
            own = see(thing)
            if kind(thing) is not was or [k for k, value in held if own.get(k) is not value]:
                found.append(f"what the {was.__name__} holds")
            found += [f"{was.__name__}.{k}" for k in own if k in see(was)]
        hung_now = now_hung()
        found += [name for name, was in hung if hung_now.get(name) != was]
        return found

    return check


def _held(thing: Any) -> dict[str, Any]:
    """Ours that an object of ours holds for good."""
    return {
        key: value
        for key, value in vars(thing).items()
        if type(value).__module__.startswith(_OURS) and not key.startswith("_")
    }


def _behind(owner: Any) -> frozenset[str]:
    """Names that are looked up elsewhere where `owner` does not have them."""
    hidden = owner.__mro__[1:] if isinstance(owner, type) else (builtins,)
    return frozenset(name for place in hidden for name in vars(place))


def _code(value: Any) -> Any:
    plain = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    return plain.__code__ if isinstance(plain, types.FunctionType) else None
