"""Makes a CPU-only torch pass for one with a CUDA (or MUSA) device, in the candidate's process.

Tensors stay ordinary CPU tensors. Their `device` says cuda:0, and whatever names that device is
accepted, so that stock candidates run unmodified; all else is torch's own behaviour.
"""

import functools
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from musaagent.tools.host.torch_shim_cuda import install_device_module
from musaagent.tools.host.torch_shim_extension import (
    Hook,
    SourceRequest,
    extension_module,
    kernelbench_load_inline,
    musa_load,
    musa_load_inline,
)
from musaagent.tools.host.torch_shim_state import state, uses
from musaagent.tools.host.torch_shim_tensors import install_tensors

__all__ = ["SourceRequest", "install", "uses"]

_EXTENSION = "torch.utils.cpp_extension"


def install(hook: Hook) -> None:
    """Puts the stand-ins in place, once a process; `hook` builds what the candidate compiles."""
    state.hook = hook
    if state.installed:
        return
    state.installed = True
    torch.utils.rename_privateuse1_backend("musa")
    install_tensors()
    install_device_module()
    extension = extension_module()
    sys.modules[_EXTENSION] = extension
    setattr(torch.utils, "cpp_extension", extension)  # noqa: B010
    sys.meta_path.insert(0, _MusaFinder())
    _install_compile()


class _MusaFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Provides torch_musa and its kin on import, and notes that the candidate speaks MUSA."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name in _CONTENTS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return types.ModuleType(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        # torchada lets a program keep its CUDA words.
        if not module.__name__.startswith("torchada"):
            state.speak("musa")
        for name, value in _CONTENTS[module.__name__]().items():
            setattr(module, name, value)


def _musa_device() -> dict[str, Any]:
    module: Any = torch.musa  # type: ignore[attr-defined]
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


def _musa_extension() -> dict[str, Any]:
    stock: Any = sys.modules[_EXTENSION]
    return {
        "load_inline": musa_load_inline,
        "load": musa_load,
        "MUSAExtension": stock.CUDAExtension,
        "CppExtension": stock.CppExtension,
        "BuildExtension": stock.BuildExtension,
        "MUSA_HOME": "/usr/local/musa",
    }


def _cuda_extension() -> dict[str, Any]:
    own = vars(sys.modules[_EXTENSION])
    return {name: value for name, value in own.items() if not name.startswith("__")}


_CONTENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "torch_musa": _musa_device,
    "torch_musa.core": dict,
    "torch_musa.core.device": dict,
    "torch_musa.utils": dict,
    "torch_musa.utils.musa_extension": _musa_extension,
    "torchada": dict,
    "torchada.utils": dict,
    "torchada.utils.cpp_extension": _cuda_extension,
    "kernelbench": dict,
    "kernelbench.musa_extension": lambda: {"load_inline": kernelbench_load_inline},
}


def _install_compile() -> None:
    """torch.compile gives its argument back; that it was used is noted."""

    def compile_(model: Any = None, **options: Any) -> Any:
        uses.append("torch.compile")
        return (lambda function: function) if model is None else model

    def compile_in_place(self: Any, *args: Any, **options: Any) -> None:
        uses.append("torch.compile")

    def noted(name: str, original: Any) -> Any:
        @functools.wraps(original)
        def make(*args: Any, **kwargs: Any) -> Any:
            uses.append(name)
            return original(*args, **kwargs)

        return make

    for name in ("script", "trace"):  # its functions read tensors with no operator
        setattr(torch.jit, name, noted(f"torch.jit.{name}", getattr(torch.jit, name)))
    torch.compile = compile_
    torch.nn.Module.compile = compile_in_place  # type: ignore[method-assign]
