"""A candidate: one complete Python text that defines `ModelNew`."""

import ast
import hashlib
from dataclasses import dataclass

from musaagent.tools.syntax import parse


def content_hash(text: str) -> str:
    """First 16 hex digits of the sha256 of the text: the identity of tasks and candidates."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Candidate:
    source: str
    parent: str | None = None
    """Hash of the candidate that this one revises."""

    @property
    def hash(self) -> str:
        return content_hash(self.source)


def parse_problem(source: str) -> str | None:
    """Why the text is no candidate, in one line; None when it is one."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        place = f" at line {line}" if line else ""
        return f"the candidate is not valid Python{place}: {getattr(error, 'msg', error)}"
    names = {n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef)}
    assigned = {
        t.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Assign)
        for t in n.targets
        if isinstance(t, ast.Name)
    }
    if "ModelNew" not in names | assigned:
        return "the candidate defines no class ModelNew"
    return None
