"""Building elementwise values: broadcasting, type promotion, and the formulas' notation."""

from collections.abc import Callable, Sequence
from typing import Any

from musaagent.policies.builtin.body import Body, Coordinates, Scalar, literal
from musaagent.policies.builtin.dialect import is_float, is_integer, register_type
from musaagent.policies.builtin.index import Index, index
from musaagent.policies.builtin.ir import Pointwise, Value
from musaagent.policies.builtin.sizes import ONE, Num, Real, Refusal, Shape

Operand = Value | Num | Real | float | int | bool

_WIDTH = {"bool": 0, "uint8": 1, "int8": 1, "int16": 2, "int32": 3, "int64": 4}
_FLOAT_WIDTH = {"float16": 1, "bfloat16": 1, "float32": 2, "float64": 3}


class Types:
    """Notation for formulas in one C++ type: `t(0.5)` is a literal, `t.exp(x)` is expf or exp."""

    def __init__(self, ctype: str) -> None:
        self.ctype = ctype

    def __call__(self, value: float) -> str:
        return literal(value, self.ctype)

    def __getattr__(self, name: str) -> Callable[..., str]:
        function = name if self.ctype != "float" else name + "f"
        return lambda *arguments: f"{function}({', '.join(arguments)})"


def narrowed(at: Sequence[Index], shape: Shape) -> Coordinates:
    """Coordinates in a tensor that broadcasts, from coordinates in the result."""
    tail = at[len(at) - len(shape) :]
    return tuple(index(0) if n == ONE else i for i, n in zip(tail, shape, strict=True))


def broadcast_shape(*shapes: Shape) -> Shape:
    """Raises Refusal where they do not broadcast at both sets of shapes."""
    rank = max(map(len, shapes))
    out = []
    for k in range(rank):
        sizes = [s[k - rank + len(s)] for s in shapes if k - rank + len(s) >= 0]
        wide = [n for n in sizes if n != ONE]
        if any(n != wide[0] for n in wide):
            raise Refusal("the shapes broadcast at one scale and not at another")
        out.append(wide[0] if wide else ONE)
    return tuple(out)


def promoted(operands: Sequence[Operand]) -> str:
    """torch.result_type: dims beat 0-dim tensors beat Python numbers, within a kind."""
    tensors = [o for o in operands if isinstance(o, Value)]
    groups = ([t.dtype for t in tensors if t.rank], [t.dtype for t in tensors if not t.rank])
    kinds = [_kind(o) for o in operands]
    for dtypes in groups:
        at_top = [d for d in dtypes if _kind_of(d) == max(kinds)]
        if at_top:
            return _widest(at_top)
    if max(kinds) == 2:
        return "float32"
    return "int64" if max(kinds) == 1 else "bool"


def _kind(operand: Operand) -> int:
    if isinstance(operand, Value):
        return _kind_of(operand.dtype)
    if isinstance(operand, bool):
        return 0
    return 1 if isinstance(operand, (int, Num)) else 2


def _kind_of(dtype: str) -> int:
    return 2 if is_float(dtype) else 1 if is_integer(dtype) else 0


def _widest(dtypes: Sequence[str]) -> str:
    if {"float16", "bfloat16"} <= set(dtypes):
        return "float32" if "float64" not in dtypes else "float64"
    if "uint8" in dtypes and "int8" in dtypes:
        return _widest([*(d for d in dtypes if d not in ("uint8", "int8")), "int16"])
    table = _FLOAT_WIDTH if any(map(is_float, dtypes)) else _WIDTH
    return max(dtypes, key=lambda d: table[d])


Code = Callable[..., str]
"""(t, x, y, ...) -> C++ text, with t a `Types` and one text for each operand."""


def apply(
    shape: Shape,
    dtype: str,
    operands: Sequence[Operand],
    code: Code,
    compute: str | None = None,
    weight: int = 1,
) -> Pointwise:
    """An elementwise value of operands that broadcast to shape.

    compute: the dtype that operands are converted to; the result's where None. A formula gives a
    value of the result's register type, or of the compute type, which is then converted.
    """
    ctype = register_type(compute or dtype)
    result = register_type(dtype)
    sources = [o for o in operands if isinstance(o, Value)]

    def element(body: Body, at: Coordinates) -> Scalar:
        scalars = [_operand(body, o, at, ctype) for o in operands]
        text = code(Types(ctype), *(s.text for s in scalars))
        made = "bool" if result == "bool" else ctype
        return body.cast(body.let(text, made, *scalars), result)

    return Pointwise(shape, dtype, sources, element, weight=weight)


def _operand(body: Body, operand: Operand, at: Coordinates, ctype: str) -> Scalar:
    if isinstance(operand, Value):
        return body.cast(body.read(operand, narrowed(at, operand.shape)), ctype)
    return body.constant(operand, ctype)


def of_coordinates(
    shape: Shape, dtype: str, code: Callable[[Body, Coordinates], Scalar]
) -> Pointwise:
    """A value computed from where it is and nothing else (`arange`, `eye`, a mask)."""
    return Pointwise(shape, dtype, (), code)


def filled(shape: Shape, dtype: str, value: Num | Real | float | int | bool) -> Pointwise:
    ctype = register_type(dtype)
    return of_coordinates(shape, dtype, lambda body, at: body.constant(value, ctype))


def converted(value: Value, dtype: str) -> Value:
    """The value in another dtype, rounded to it."""
    if value.dtype == dtype:
        return value
    if dtype not in ("float16", "bfloat16"):
        return apply(value.shape, dtype, (value,), lambda t, x: x)

    def element(body: Body, at: Coordinates) -> Scalar:
        wide = body.cast(body.read(value, at), "float")
        return body.let(body.kernel.up(body.kernel.down(wide, dtype), dtype), "float", wide)

    return Pointwise(value.shape, dtype, (value,), element)


def clipped(t: Any, x: str, low: float, high: float) -> str:
    """x held between low and high; NaN stays."""
    return f"({x} < {t(low)} ? {t(low)} : {x} > {t(high)} ? {t(high)} : {x})"


def add(x: Operand, y: Operand, dtype: str) -> Pointwise:
    return _arithmetic(lambda t, a, b: f"{a} + {b}", x, y, dtype)


def sub(x: Operand, y: Operand, dtype: str) -> Pointwise:
    return _arithmetic(lambda t, a, b: f"{a} - {b}", x, y, dtype)


def mul(x: Operand, y: Operand, dtype: str) -> Pointwise:
    return _arithmetic(lambda t, a, b: f"{a} * {b}", x, y, dtype)


def div(x: Operand, y: Operand, dtype: str) -> Pointwise:
    return _arithmetic(lambda t, a, b: f"{a} / {b}", x, y, dtype)


def _arithmetic(code: Code, x: Operand, y: Operand, dtype: str) -> Pointwise:
    shape = broadcast_shape(*(o.shape for o in (x, y) if isinstance(o, Value)))
    return apply(shape, dtype, (x, y), code)
