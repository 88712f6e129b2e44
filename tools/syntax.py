"""Python's parser, one thread at a time.

CPython 3.11 keeps the depth of the tree that it builds for the whole interpreter (seen in 3.11.7).
Where another thread parses in the midst of it, when a collection of garbage lets it run, both get
"SystemError: AST constructor recursion depth mismatch".
"""

import ast
import threading

_turn = threading.Lock()


def parse(source: str) -> ast.Module:
    """Raises what ast.parse raises."""
    with _turn:
        return ast.parse(source)


def parse_expression(text: str) -> ast.Expression:
    """Raises what ast.parse raises."""
    with _turn:
        return ast.parse(text, mode="eval")
