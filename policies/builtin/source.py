"""What a candidate keeps of the task's own text: everything but `Model.forward` and the inputs."""

import ast
import builtins
from collections.abc import Iterable
from dataclasses import dataclass

from musaagent.policies.builtin.sizes import Refusal
from musaagent.tools.syntax import parse


@dataclass(frozen=True)
class TaskText:
    prelude: str
    """Imports, constants, functions and classes that the module's constructor uses."""
    body: str
    """The class body without forward, indented; empty where there is nothing in it."""
    bases: str
    signature: str
    """forward's parameters, without annotations."""
    parameters: tuple[str, ...]


def task_text(source: str) -> TaskText:
    """Raises Refusal where the file has no class `Model` with a forward of its own."""
    tree = parse(source)
    model = _last_class(tree, "Model")
    forward = next(
        (n for n in model.body if isinstance(n, ast.FunctionDef) and n.name == "forward"), None
    )
    if forward is None:
        raise Refusal("class Model has no forward of its own")
    kept = [n for n in model.body if n is not forward and not _is_docstring(n)]
    renamed = [_Renamed().visit(n) for n in kept]
    wanted = _names([*renamed, *model.bases, *forward.args.defaults])
    return TaskText(
        prelude="\n".join(_needed(tree, wanted)),
        body="\n".join(_indented(ast.unparse(n)) for n in renamed),
        bases=", ".join(ast.unparse(b) for b in model.bases),
        signature=ast.unparse(_without_annotations(forward.args)),
        parameters=tuple(a.arg for a in (*forward.args.posonlyargs, *forward.args.args))[1:],
    )


def _last_class(tree: ast.Module, name: str) -> ast.ClassDef:
    found = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name]
    if not found:
        raise Refusal(f"the task has no top-level class {name}")
    return found[-1]


class _Renamed(ast.NodeTransformer):
    """Model becomes ModelNew, as in super(Model, self); docstrings go."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if len(node.body) > 1 and _is_docstring(node.body[0]):
            del node.body[0]
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id == "Model":
            return ast.copy_location(ast.Name("ModelNew", node.ctx), node)
        return node


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}


def _bound(node: ast.stmt) -> set[str]:
    """The names that a top-level statement makes."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(a.asname or a.name).split(".")[0] for a in node.names}
    return {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


def _needed(tree: ast.Module, wanted: set[str]) -> list[str]:
    """Top-level statements that bind what is wanted, and what those need, in order."""
    wanted = {n for n in wanted if not hasattr(builtins, n)} | {"torch", "nn"}
    skipped = {"Model", "get_inputs", "get_init_inputs"}
    chosen: set[int] = set()
    grew = True
    while grew:
        grew = False
        for k, node in enumerate(tree.body):
            if k in chosen or not _bound(node) & wanted or _bound(node) & skipped:
                continue
            chosen.add(k)
            wanted |= _names([node])
            grew = True
    future = [
        k for k, n in enumerate(tree.body)
        if isinstance(n, ast.ImportFrom) and n.module == "__future__"
    ]  # fmt: skip
    lines = [ast.unparse(tree.body[k]) for k in sorted({*chosen, *future})]
    if "import torch" not in lines:
        lines.insert(len(future), "import torch")
    if "import torch.nn as nn" not in lines and "from torch import nn" not in lines:
        lines.insert(len(future) + 1, "import torch.nn as nn")
    return lines


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _without_annotations(arguments: ast.arguments) -> ast.arguments:
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return arguments


def _indented(text: str) -> str:
    return "\n".join("    " + line if line else "" for line in text.split("\n")) + "\n"
