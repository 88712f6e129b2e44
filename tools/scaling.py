"""Size constants of an op file: finding them in the syntax tree, and writing others in their place.

Only numbers that the file itself states as sizes may change: integers bound at module level, in
get_inputs (names, and literals in a tensor's shape) and in get_init_inputs. What an op means
(kernel size, stride, padding, dilation, axes, windows) stays, and so do floats and booleans.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from musaagent.tools.syntax import parse

SMALL = 16
"""Below this an integer is a size only where it reaches the shape of an input."""

_OPERATION = frozenset(
    "kernel ksize kernelsize stride strides padding pad dilation dilations axis axes eps epsilon"
    " seed window patch pool pooling shift shifts topk iterations iters steps ratio factor scale"
    " shuffle momentum bits bins ignore idx index chunk upscale downscale multiplier order degree"
    " block tile value clamp threshold alpha beta gamma lambda margin temperature slope".split()
)
_STRUCTURE = frozenset(
    "head heads nhead nheads group groups layer layers blocks expert experts stage stages".split()
)
_WIDTHS = frozenset("dim dims size sizes width widths channels features units hidden d".split())
_BATCH = frozenset("batch bs bsz batchsize nbatch b".split())
_FACTORIES = frozenset("rand randn zeros ones empty full randint normal".split())
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


class Role(StrEnum):
    """What a constant is to the op, and so when it may change."""

    BATCH = "batch"
    """How many independent samples: reduced first."""
    SIZE = "size"
    """Features, channels, spatial extents, lengths."""
    STRUCTURE = "structure"
    """Heads, layers, and sizes below SMALL: reduced when nothing else helps."""
    OPERATION = "operation"
    """Part of the op's meaning: never changed."""


@dataclass(frozen=True)
class SizeConstant:
    """One integer in the file's text; columns are byte offsets in its line."""

    name: str
    value: int
    role: Role
    line: int
    column: int
    end_column: int


def propose_scalings(source: str) -> tuple[SizeConstant, ...]:
    """Every integer constant of the file that could be a size, with its role; names are unique."""
    tree = parse(source)
    file = _File(tree)
    found = [*file.module_constants(), *file.input_constants(), *file.init_constants()]
    return tuple(_unique_names([c for c in found if c.value >= 2]))


def apply_scaling(source: str, overrides: Mapping[str, int]) -> str:
    """The text with other sizes; line numbers stay. Raises KeyError for a name it does not have."""
    constants = {c.name: c for c in propose_scalings(source)}
    lines = source.encode().splitlines(keepends=True)
    edits = [(constants[name], value) for name, value in overrides.items()]
    for constant, value in sorted(edits, key=lambda e: (e[0].line, e[0].column), reverse=True):
        line = lines[constant.line - 1]
        text = str(int(value)).encode()
        lines[constant.line - 1] = line[: constant.column] + text + line[constant.end_column :]
    return b"".join(lines).decode()


class _File:
    """The statements of one op file, and how names flow from constants into calls."""

    def __init__(self, tree: ast.Module) -> None:
        self.body = tree.body
        functions = {s.name: s for s in tree.body if isinstance(s, ast.FunctionDef)}
        self.get_inputs = functions.get("get_inputs")
        self.get_init = functions.get("get_init_inputs")
        self.parameters = _constructor_parameters(tree)
        self.in_shapes = self._sources_of(self.get_inputs)
        self.passed_as = self._constructor_names()

    def module_constants(self) -> Iterator[SizeConstant]:
        last = {name: s for s in self.body for name in _targets(s)}
        for position, statement in enumerate(self.body):
            for name, expression in _assigned(statement):
                if self._dead(position, statement, name, last):
                    continue
                yield from self._constants(name, expression)

    def input_constants(self) -> Iterator[SizeConstant]:
        if self.get_inputs is None:
            return
        for statement in ast.walk(self.get_inputs):
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                for name, expression in _assigned(statement):
                    for found in self._constants(name, expression):
                        yield replace(found, name=f"get_inputs.{found.name}")
            elif isinstance(statement, ast.Call):
                yield from self._shape_literals(statement)

    def init_constants(self) -> Iterator[SizeConstant]:
        for index, element in enumerate(self._init_elements()):
            parameter = self.parameters[index] if index < len(self.parameters) else ""
            for path, leaf in _leaves(element):
                name = f"init {parameter}{path}" if parameter else f"init {index}{path}"
                yield from self._constant(name, leaf, shape=False)

    def _constants(self, name: str, expression: ast.expr) -> Iterator[SizeConstant]:
        for path, leaf in _leaves(expression):
            yield from self._constant(f"{name}{path}", leaf, shape=None)

    def _constant(
        self, name: str, expression: ast.expr, *, shape: bool | None
    ) -> Iterator[SizeConstant]:
        value = _integer(expression)
        if value is None or expression.lineno != expression.end_lineno:
            return
        end = expression.end_col_offset or 0
        base = name.partition("[")[0]
        in_shape = base in self.in_shapes if shape is None else shape
        role = self._role(name, base, value, in_shape=in_shape)
        yield SizeConstant(name, value, role, expression.lineno, expression.col_offset, end)

    def _role(self, name: str, base: str, value: int, *, in_shape: bool) -> Role:
        words = set(_words(base)) | set(_words(name))
        for parameter in self.passed_as.get(base, ()):
            words |= set(_words(parameter))
        widths = words & (_STRUCTURE | {"block"}) and words & _WIDTHS
        if words & _OPERATION and not (words & _OPERATION == {"block"} and widths - {"size"}):
            return Role.OPERATION
        if words & _BATCH and in_shape:
            return Role.BATCH
        if words & _STRUCTURE and not widths:
            return Role.STRUCTURE if value >= SMALL else Role.OPERATION
        if value < SMALL:
            return Role.STRUCTURE if in_shape else Role.OPERATION
        return Role.SIZE

    def _shape_literals(self, call: ast.Call) -> Iterator[SizeConstant]:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if name not in _FACTORIES:
            return
        arguments = list(call.args)
        if name in ("full", "randint", "normal"):
            # Other arguments are values; only a tuple or list here is the shape.
            arguments = [a for a in arguments if isinstance(a, ast.Tuple | ast.List)]
        arguments += [k.value for k in call.keywords if k.arg == "size"]
        for argument in arguments:
            for _, leaf in _leaves(argument):
                for found in self._constant("literal", leaf, shape=True):
                    yield replace(found, name=f"{found.value} on line {found.line}")

    def _dead(
        self, position: int, statement: ast.stmt, name: str, last: Mapping[str, ast.stmt]
    ) -> bool:
        """Whether a later statement binds the name again before anything has read it."""
        first = name.split(" = ")[0]
        if last.get(first) is statement:
            return False
        for later in self.body[position + 1 :]:
            if isinstance(later, ast.FunctionDef | ast.ClassDef):
                continue
            if first in _loads(later):
                return False
            if later is last.get(first):
                return True
        return False

    def _sources_of(self, function: ast.FunctionDef | None) -> set[str]:
        """Module names that a function reads, directly or through names computed from others."""
        if function is None:
            return set()
        reached = _loads(function)
        for statement in reversed(self.body):
            if isinstance(statement, ast.Assign | ast.AnnAssign) and reached & set(
                _targets(statement)
            ):
                reached |= _loads(statement)
        local = {n for s in ast.walk(function) if isinstance(s, ast.stmt) for n in _targets(s)}
        return {f"{a} = {b}" for a in reached for b in reached} | reached | local

    def _constructor_names(self) -> dict[str, set[str]]:
        """For each name in get_init_inputs, the constructor's parameters that it is passed as."""
        names: dict[str, set[str]] = {}
        for index, element in enumerate(self._init_elements()):
            if isinstance(element, ast.Name) and index < len(self.parameters):
                names.setdefault(element.id, set()).add(self.parameters[index])
        return names

    def _init_elements(self) -> list[ast.expr]:
        if self.get_init is None:
            return []
        for statement in ast.walk(self.get_init):
            if isinstance(statement, ast.Return) and isinstance(
                statement.value, ast.List | ast.Tuple
            ):
                return list(statement.value.elts)
        return []


def _constructor_parameters(tree: ast.Module) -> list[str]:
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef) and statement.name == "Model":
            for inner in statement.body:
                if isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
                    return [a.arg for a in inner.args.args[1:]]
    return []


def _assigned(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Names with their values; `a = b = 3` is one name `a = b`, tuples are taken apart."""
    if isinstance(statement, ast.AnnAssign):
        if isinstance(statement.target, ast.Name) and statement.value is not None:
            yield statement.target.id, statement.value
        return
    if not isinstance(statement, ast.Assign):
        return
    if all(isinstance(t, ast.Name) for t in statement.targets):
        names = [t.id for t in statement.targets if isinstance(t, ast.Name)]
        yield " = ".join(names), statement.value
        return
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        for one, expression in zip(target.elts, value.elts, strict=False):
            if isinstance(one, ast.Name):
                yield one.id, expression


def _leaves(expression: ast.expr, path: str = "") -> Iterator[tuple[str, ast.expr]]:
    """Number expressions inside lists, tuples, dicts and keyword calls, with their places."""
    if isinstance(expression, ast.Tuple | ast.List):
        for index, element in enumerate(expression.elts):
            yield from _leaves(element, f"{path}[{index}]")
    elif isinstance(expression, ast.Dict):
        for key, value in zip(expression.keys, expression.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str | int):
                yield from _leaves(value, f"{path}[{key.value!s}]")
    elif isinstance(expression, ast.Call):
        for keyword in expression.keywords:
            yield from _leaves(keyword.value, f"{path}[{keyword.arg}]")
    elif isinstance(expression, ast.BinOp) and isinstance(expression.left, ast.List | ast.Tuple):
        yield from _leaves(expression.left, path)
    else:
        yield path, expression


def _integer(expression: ast.expr) -> int | None:
    """The value of an expression of integer literals alone (`2048 * 2`)."""
    if isinstance(expression, ast.Constant):
        is_int = isinstance(expression.value, int) and not isinstance(expression.value, bool)
        return expression.value if is_int and isinstance(expression.value, int) else None
    if isinstance(expression, ast.BinOp):
        left, right = _integer(expression.left), _integer(expression.right)
        if left is None or right is None:
            return None
        if isinstance(expression.op, ast.Mult):
            return left * right
        if isinstance(expression.op, ast.Add):
            return left + right
        if isinstance(expression.op, ast.Sub):
            return left - right
        if isinstance(expression.op, ast.Pow) and 0 <= right <= 64:
            return int(left**right)
        if isinstance(expression.op, ast.LShift) and 0 <= right <= 64:
            return left << right
        if isinstance(expression.op, ast.FloorDiv) and right:
            return left // right
    return None


def _targets(statement: ast.stmt) -> list[str]:
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]


def _loads(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _unique_names(constants: list[SizeConstant]) -> Iterator[SizeConstant]:
    seen: dict[str, int] = {}
    places: set[tuple[int, int]] = set()
    for constant in constants:
        if (constant.line, constant.column) in places:
            continue
        places.add((constant.line, constant.column))
        count = seen[constant.name] = seen.get(constant.name, 0) + 1
        yield constant if count == 1 else replace(constant, name=f"{constant.name} ({count})")
