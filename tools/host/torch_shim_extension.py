"""torch.utils.cpp_extension, whose compiles go to the parent process.

The module is a stand-in because the real one imports setuptools and looks for a CUDA SDK. Its
functions take exactly the parameters of the installed torch.
"""

import ast
import functools
import importlib.machinery
import importlib.util
import inspect
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from musaagent.tools.host.torch_shim_state import state


@dataclass(frozen=True)
class SourceRequest:
    """One call of load_inline or load."""

    name: str
    cpp_sources: tuple[str, ...] = ()
    cuda_sources: tuple[str, ...] = ()
    functions: tuple[str, ...] | None = None
    extra_cflags: tuple[str, ...] = ()
    extra_cuda_cflags: tuple[str, ...] = ()
    extra_ldflags: tuple[str, ...] = ()
    extra_include_paths: tuple[str, ...] = ()
    with_files: dict[str, str] = field(default_factory=dict)
    """Path and text of the files that load() names and of the headers beside them."""
    implicit_headers: bool = True
    is_python_module: bool = True


Hook = Callable[[SourceRequest], Any]

_STOCK = "torch.utils.cpp_extension"
_STOCK_FILE = Path(torch.__file__).parent / "utils" / "cpp_extension.py"
_HEADER_SUFFIXES = (".h", ".cuh", ".hpp", ".muh", ".inc")


def extension_module() -> types.ModuleType:
    """The stand-in; what it lacks comes from the real module, when asked for."""
    signatures = _signatures()

    def load_inline(*args: Any, **kwargs: Any) -> Any:
        return _submit(_inline_request(_bound("load_inline", signatures, args, kwargs)))

    def load(*args: Any, **kwargs: Any) -> Any:
        return _submit(_file_request(_bound("load", signatures, args, kwargs)))

    for function in (load_inline, load):
        function.__signature__ = signatures[function.__name__]  # type: ignore[attr-defined]
    module: Any = types.ModuleType(_STOCK)
    module.__package__ = "torch.utils"
    module.__spec__ = importlib.machinery.ModuleSpec(_STOCK, None)
    module.load_inline = load_inline
    module.load = load
    module.CUDA_HOME = "/usr/local/cuda"
    module.IS_HIP_EXTENSION = False
    module.CUDAExtension = _refused_build("CUDAExtension")
    module.CppExtension = _refused_build("CppExtension")
    module.BuildExtension = _RefusedBuildExtension
    module.check_compiler_ok_for_platform = lambda compiler: True
    module.is_ninja_available = lambda: True
    module.verify_ninja_availability = lambda: None
    module.__getattr__ = _stock_attribute
    return module  # type: ignore[no-any-return]


def _stock_attribute(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_stock_module(), name)


@functools.cache
def _stock_module() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("musaagent_stock_cpp_extension", _STOCK_FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__package__ = "torch.utils"
    spec.loader.exec_module(module)
    return module


@functools.cache
def _signatures() -> dict[str, inspect.Signature]:
    return _stock_signatures(_STOCK_FILE.read_text(encoding="utf-8"))


def _stock_signatures(text: str) -> dict[str, inspect.Signature]:
    """Of load and load_inline, read from torch's source text so that nothing is imported."""
    found = {}
    for name in ("load_inline", "load"):
        start = text.index(f"\ndef {name}(") + 1
        end = text.index("\n    ", text.index(")", text.index("is_python_module", start)))
        definition = ast.parse(text[start:end] + " ...").body[0]
        assert isinstance(definition, ast.FunctionDef)
        found[name] = _signature_of(definition.args)
    return found


def _signature_of(arguments: ast.arguments) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [a.arg for a in arguments.args]
    required = len(names) - len(arguments.defaults)
    defaults = [inspect.Parameter.empty] * required
    defaults += [ast.literal_eval(d) for d in arguments.defaults]
    return inspect.Signature(
        [
            inspect.Parameter(name, kind, default=default)
            for name, default in zip(names, defaults, strict=True)
        ]
    )


def _bound(
    name: str,
    signatures: dict[str, inspect.Signature],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> dict[str, Any]:
    try:
        bound = signatures[name].bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}() {error}") from None
    bound.apply_defaults()
    return bound.arguments


def _submit(request: SourceRequest) -> Any:
    if state.hook is None:
        raise RuntimeError("torch_shim.install() has not been called")
    return state.hook(request)


def _texts(value: Any) -> tuple[str, ...]:
    if not value:
        return ()
    return (value,) if isinstance(value, str) else tuple(str(v) for v in value)


def _function_names(functions: Any) -> tuple[str, ...] | None:
    if functions is None:
        return None
    if isinstance(functions, str):
        return (functions,)
    if not isinstance(functions, list | dict):
        raise ValueError(f"Expected 'functions' to be a list or dict, but was {type(functions)}")
    return tuple(functions)


def _inline_request(given: dict[str, Any]) -> SourceRequest:
    cpp = given["cpp_sources"]
    if not isinstance(cpp, str | list):
        # Stock inserts its header into the list.
        raise AttributeError(f"{type(cpp).__name__!r} object has no attribute 'insert'")
    return SourceRequest(
        name=given["name"],
        cpp_sources=_texts(cpp),
        cuda_sources=_texts(given["cuda_sources"]),
        functions=_function_names(given["functions"]),
        implicit_headers=not given.get("no_implicit_headers", False),
        **_common(given),
    )


def _file_request(given: dict[str, Any]) -> SourceRequest:
    sources = [Path(path) for path in _texts(given["sources"])]
    files = {str(path): path.read_text(encoding="utf-8") for path in sources}
    for header in _headers_beside(sources):
        files.setdefault(str(header), header.read_text(encoding="utf-8", errors="replace"))
    return SourceRequest(name=given["name"], with_files=files, **_common(given))


def _headers_beside(sources: Iterable[Path]) -> Iterable[Path]:
    for folder in dict.fromkeys(path.parent for path in sources):
        yield from sorted(p for p in folder.iterdir() if p.suffix in _HEADER_SUFFIXES)


def _common(given: dict[str, Any]) -> dict[str, Any]:
    return {
        "extra_cflags": _texts(given.get("extra_cflags")),
        "extra_cuda_cflags": _texts(given.get("extra_cuda_cflags")),
        "extra_ldflags": _texts(given.get("extra_ldflags")),
        "extra_include_paths": _texts(given.get("extra_include_paths")),
        "is_python_module": bool(given.get("is_python_module", True)),
    }


def musa_load_inline(
    name: str,
    cpp_sources: Any,
    musa_sources: Any = None,
    functions: Any = None,
    extra_cflags: Any = None,
    extra_musa_cflags: Any = None,
    extra_ldflags: Any = None,
    extra_include_paths: Any = None,
    build_directory: Any = None,
    verbose: bool = False,
    with_musa: Any = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    cuda_sources: Any = None,
) -> Any:
    """torch_musa's form, which names its sources musa_sources."""
    request = SourceRequest(
        name=name,
        cpp_sources=_texts(cpp_sources),
        cuda_sources=_texts(musa_sources) + _texts(cuda_sources),
        functions=_function_names(functions),
        extra_cflags=_texts(extra_cflags),
        extra_cuda_cflags=_texts(extra_musa_cflags),
        extra_ldflags=_texts(extra_ldflags),
        extra_include_paths=_texts(extra_include_paths),
        is_python_module=is_python_module,
    )
    return _submit(request)


def musa_load(name: str, sources: Any, **options: Any) -> Any:
    """torch_musa's load(), whose options say musa where torch's say cuda."""
    renamed = {_STOCK_OPTIONS.get(key, key): value for key, value in options.items()}
    given = {"name": name, "sources": sources, **renamed}
    return _submit(_file_request(_bound("load", _signatures(), (), given)))


_STOCK_OPTIONS = {"extra_musa_cflags": "extra_cuda_cflags", "with_musa": "with_cuda"}


def kernelbench_load_inline(
    name: str,
    cpp_sources: Any = None,
    cuda_sources: Any = None,
    functions: Any = None,
    verbose: bool = False,
    extra_cflags: Any = None,
    extra_ldflags: Any = None,
    with_cuda: bool = True,
    **kwargs: Any,
) -> Any:
    """The MUSA port of KernelBench: all sources make one file, the module comes after them."""
    if not functions:
        raise ValueError("load_inline requires at least one function name")
    sources = _texts(cpp_sources) + _texts(cuda_sources)
    if not sources:
        raise ValueError("load_inline requires cpp_sources and/or cuda_sources")
    own_module = any("PYBIND11_MODULE" in text for text in sources)
    names = None if own_module else _texts(functions)
    return _submit(SourceRequest(name=name, cpp_sources=sources, functions=names))


def _refused_build(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{name} builds a package; a candidate compiles with load_inline")

    return refuse


class _RefusedBuildExtension:
    """Importable, never usable."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refused_build("BuildExtension")()
