"""The loaders that a candidate may call on a machine with torch_musa, each handing over sources.

Three spellings: torch_musa's own, stock torch's, torchada's (and that of KernelBench's MUSA port).
torch_musa and torch stay what they are; only these modules are stood in for.
"""

import contextlib
import importlib
import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Any

from musaagent.tools.host.torch_shim_extension import (
    Hook,
    extension_module,
    kernelbench_load_inline,
    musa_load,
    musa_load_inline,
)
from musaagent.tools.host.torch_shim_state import state


def install_loaders(hook: Hook) -> None:
    """Puts the stand-ins in place, once a process; `hook` builds what the candidate compiles."""
    import torch

    # Imported before the stand-ins, since it reads private names of the stock module.
    if importlib.util.find_spec("torch_musa") is not None:
        importlib.import_module("torch_musa")
    state.hook = hook
    stock: Any = extension_module()
    _place("torch.utils.cpp_extension", stock)
    setattr(torch.utils, "cpp_extension", stock)  # noqa: B010
    _place("torch_musa.utils.musa_extension", _musa_extension(stock))
    _place("torchada.utils.cpp_extension", stock)
    _place("kernelbench.musa_extension", _module(load_inline=kernelbench_load_inline))


def _musa_extension(stock: Any) -> types.ModuleType:
    return _module(
        load_inline=musa_load_inline,
        load=musa_load,
        MUSAExtension=stock.CUDAExtension,
        CppExtension=stock.CppExtension,
        BuildExtension=stock.BuildExtension,
        MUSA_HOME="/usr/local/musa",
    )


def _module(**names: Any) -> types.ModuleType:
    module = types.ModuleType("musaagent_loader")
    vars(module).update(names)
    return module


def _place(name: str, module: types.ModuleType) -> None:
    """In sys.modules, with the packages above it where they are not installed."""
    parent, _, last = name.rpartition(".")
    if parent and parent not in sys.modules and importlib.util.find_spec(parent.split(".")[0]):
        with contextlib.suppress(ImportError):
            importlib.import_module(parent)
    if parent and parent not in sys.modules:
        _place(parent, types.ModuleType(parent))
    if parent:
        setattr(sys.modules[parent], last, module)
        module.__package__ = parent
    sys.modules[name] = module


class NotRunnable:
    """Stands for a library that was compiled only to be looked at."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, function: str) -> Callable[..., Any]:
        def refuse(*_: Any, **__: Any) -> Any:
            raise RuntimeError(f"{self._name}.{function}: compiled only, there is no card here")

        if function.startswith("__"):
            raise AttributeError(function)
        return refuse
