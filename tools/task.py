"""Task loading: an op file is read and checked by its syntax tree alone, never executed."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from musaagent.errors import TaskError
from musaagent.tools.candidate import content_hash
from musaagent.tools.syntax import parse

_LARGEST_FILE_BYTES = 4 << 20
_FORM = "a task defines class Model (a torch.nn.Module) and get_inputs()"


@dataclass(frozen=True)
class Task:
    """An op to port, as its file states it."""

    path: Path
    source: str
    hash: str
    name: str
    """The file's name without its ending."""


def load_task(path: str | Path) -> Task:
    """Read and check an op file. Raises TaskError, one line, naming file and line."""
    path = Path(path)
    return check_task(path, _read(path))


def check_task(path: Path, source: str) -> Task:
    """Check the text of an op file. Raises TaskError."""
    try:
        tree = parse(source)
    except SyntaxError as error:
        raise TaskError(f"{path}, line {error.lineno or 1}: syntax error: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise TaskError(f"{path}: not Python that can be parsed: {error}") from None
    scope = _Scope(tree)
    _check_model(path, scope)
    _check_callable(path, scope, "get_inputs", required=True)
    _check_callable(path, scope, "get_init_inputs", required=False)
    _check_init_inputs(path, scope)
    return Task(path, source, content_hash(source), path.stem)


def _read(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise TaskError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise TaskError(f"{path}: is a directory; give one op file") from None
    except OSError as error:
        raise TaskError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST_FILE_BYTES:
        raise TaskError(f"{path}: {len(data)} bytes; an op file has at most {_LARGEST_FILE_BYTES}")
    try:
        source = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise TaskError(f"{path}, line {line}: not UTF-8 text; save the file as UTF-8") from None
    if not source.strip():
        raise TaskError(f"{path}: the file is empty; {_FORM}")
    return source


class _Scope:
    """What the module's own statements bind, branches of if, try and with included."""

    def __init__(self, tree: ast.Module) -> None:
        self.names: dict[str, ast.stmt] = {}
        self.has_star_import = False
        for statement in _flat(tree.body):
            if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                self.names[statement.name] = statement
            elif isinstance(statement, ast.Import | ast.ImportFrom):
                for alias in statement.names:
                    self.has_star_import |= alias.name == "*"
                    self.names[alias.asname or alias.name.partition(".")[0]] = statement
            elif isinstance(statement, ast.Assign | ast.AnnAssign):
                for name in _bound(statement):
                    self.names[name] = statement

    def resolve(self, name: str) -> ast.stmt | None:
        """The statement behind a name, through plain aliases (`Model = Net`)."""
        seen = set()
        found = self.names.get(name)
        while isinstance(found, ast.Assign) and isinstance(found.value, ast.Name):
            if found.value.id in seen:
                return None
            seen.add(found.value.id)
            found = self.names.get(found.value.id)
        return found

    def is_module(self, base: ast.expr) -> bool:
        """Whether a base class may be a torch.nn.Module; unknown imported ones may be."""
        if not isinstance(base, ast.Name):
            return True
        found = self.resolve(base.id)
        if isinstance(found, ast.ClassDef):
            return any(self.is_module(inner) for inner in found.bases)
        return found is not None or (self.has_star_import and base.id != "object")


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        for field in ("body", "orelse", "finalbody"):
            if isinstance(statement, ast.If | ast.Try | ast.With):
                yield from _flat(getattr(statement, field, []))
        if isinstance(statement, ast.Try):
            for handler in statement.handlers:
                yield from _flat(handler.body)


def _bound(statement: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    for target in targets:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                yield node.id


def _check_model(path: Path, scope: _Scope) -> None:
    model = scope.resolve("Model")
    if model is None and not scope.has_star_import:
        new = scope.names.get("ModelNew")
        hint = "; ModelNew alone is a candidate, not a task" if new is not None else ""
        raise TaskError(f"{path}: no class Model; {_FORM}{hint}")
    if isinstance(model, ast.FunctionDef | ast.AsyncFunctionDef):
        raise TaskError(f"{path}, line {model.lineno}: Model is a function; {_FORM}")
    if not isinstance(model, ast.ClassDef):
        return
    if not any(scope.is_module(base) for base in model.bases):
        raise TaskError(
            f"{path}, line {model.lineno}: class Model does not derive from torch.nn.Module"
        )
    if _plain_module(model) and _method(model, "forward") is None:
        raise TaskError(f"{path}, line {model.lineno}: class Model has no method forward")


def _plain_module(model: ast.ClassDef) -> bool:
    """Whether every base is nn.Module itself, so that nothing is inherited."""
    names = {b.id if isinstance(b, ast.Name) else getattr(b, "attr", "") for b in model.bases}
    return names == {"Module"}


def _method(model: ast.ClassDef, name: str) -> ast.stmt | None:
    for statement in _flat(model.body):
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            return statement
        if isinstance(statement, ast.Assign) and name in _bound(statement):
            return statement
    return None


def _check_callable(path: Path, scope: _Scope, name: str, *, required: bool) -> None:
    found = scope.resolve(name)
    if found is None:
        if required and not scope.has_star_import:
            raise TaskError(f"{path}: no function {name}; {_FORM}")
        return
    if isinstance(found, ast.ClassDef | ast.AsyncFunctionDef):
        raise TaskError(f"{path}, line {found.lineno}: {name} is not a plain function")
    if isinstance(found, ast.FunctionDef) and (missing := _without_default(found.args)):
        raise TaskError(
            f"{path}, line {found.lineno}: {name} is called without arguments, "
            f"but needs {', '.join(missing)}"
        )


def _check_init_inputs(path: Path, scope: _Scope) -> None:
    model = scope.resolve("Model")
    if not isinstance(model, ast.ClassDef) or "get_init_inputs" in scope.names:
        return
    init = _method(model, "__init__")
    if isinstance(init, ast.FunctionDef) and not scope.has_star_import:
        missing = _without_default(init.args)[1:]
        if missing:
            raise TaskError(
                f"{path}, line {init.lineno}: Model needs {', '.join(missing)}, "
                "but the file has no get_init_inputs()"
            )


def _without_default(arguments: ast.arguments) -> list[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    needed = positional[: len(positional) - len(arguments.defaults)]
    keyword = [
        a
        for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]
    return [a.arg for a in [*needed, *keyword]]
