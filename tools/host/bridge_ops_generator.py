"""Writes the declarations and definitions of aten operations for the thin torch headers.

Run it with the newest supported torch: `python -m musaagent.tools.host.bridge_ops_generator`.
The facts (names, arguments, defaults) come from torch's own operator registry.
"""

import re
from dataclasses import dataclass
from pathlib import Path

THIN = Path(__file__).parent / "include_torch" / "musahost_thin"

DROPPED = re.compile(
    r"^_(?!softmax$|log_softmax$|unsafe_view$|cast_|to_copy$)|backward|fbgemm|mkldnn|miopen|cudnn"
    r"|quant|sparse|qscheme|coalesce|ccol|crow|_copy$|dequant|nested|sym_|symint|_for_|vulkan"
    r"|^(item|data|is_|size|stride|dim|numel|storage_|requires_grad|retain|set_data|output_nr"
    r"|contiguous|to|cpu|cuda|from_blob|tensor|index|index_put_?|get_device|type|print|__"
    r"|nbytes|itemsize|element_size|q_|int_repr|rename|align_|refine_names|lstsq|unsafe_chunk"
    r"|backward|col_indices|row_indices|ccol_indices|crow_indices|to_dense|to_padded|slice_inverse"
    r"|segment_reduce|lift|record_stream|sym|cufft|promote_types|result_type|can_cast|set_)$"
)
KEPT = {"index_put", "is_nonzero", "is_same_size", "is_set_to", "masked_fill", "masked_scatter"}

ARGUMENT_TYPES = {
    "Tensor": "const Tensor&",
    "Tensor?": "const std::optional<Tensor>&",
    "Tensor[]": "TensorList",
    "int": "int64_t",
    "int?": "std::optional<int64_t>",
    "float": "double",
    "float?": "std::optional<double>",
    "bool": "bool",
    "bool?": "std::optional<bool>",
    "Scalar": "const Scalar&",
    "Scalar?": "const std::optional<Scalar>&",
    "str": "std::string_view",
    "str?": "std::optional<std::string_view>",
    "ScalarType": "ScalarType",
    "ScalarType?": "std::optional<ScalarType>",
    "Layout?": "std::optional<Layout>",
    "Device": "Device",
    "Device?": "std::optional<Device>",
    "MemoryFormat": "MemoryFormat",
    "MemoryFormat?": "std::optional<MemoryFormat>",
    "int[]": "IntArrayRef",
    "int[]?": "OptionalIntArrayRef",
    "float[]": "ArrayRef<double>",
    "float[]?": "std::optional<ArrayRef<double>>",
    "Generator?": "std::optional<Generator>",
}
OPTIONS = ("dtype", "layout", "device", "pin_memory")


@dataclass(frozen=True)
class Argument:
    type: str
    name: str
    default: str | None
    written: bool


@dataclass(frozen=True)
class Operation:
    name: str
    overload: str
    arguments: tuple[Argument, ...]
    returns: tuple[str, ...]

    @property
    def op(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name


def plain_type(text: str) -> str:
    """`SymInt[2]`, `Tensor(a!)` and `int[1]?` without size, alias and symbol."""
    text = re.sub(r"\([^)]*\)", "", text).replace("SymInt", "int")
    return re.sub(r"\[\d+\]", "[]", text)


def split_top(text: str) -> list[str]:
    """Splits at the commas outside of brackets and quotes."""
    parts = re.findall(r"(?:\[[^\]]*\]|\([^)]*\)|\"[^\"]*\"|[^,])+", text)
    return [part.strip() for part in parts if part.strip()]


def parse(schema: str) -> Operation:
    head, _, returns = schema.rpartition(" -> ")
    match = re.fullmatch(r"aten::(\w+)(?:\.(\w+))?\((.*)\)", head)
    if match is None:
        raise ValueError(f"not an aten schema: {schema}")
    arguments = []
    for part in split_top(match.group(3)):
        if part == "*":
            continue
        type_text, _, rest = (
            part.rpartition(" ") if "=" not in part else part.partition("=")[0].rpartition(" ")
        )
        default = part.partition("=")[2] or None
        arguments.append(Argument(plain_type(type_text), rest, default, "!" in type_text))
    if returns.startswith("("):
        kinds = tuple(plain_type(r.split()[0]) for r in split_top(returns[1:-1]))
    else:
        kinds = (plain_type(returns.split()[0]),)
    return Operation(match.group(1), match.group(2) or "", tuple(arguments), kinds)


def default_text(argument: Argument) -> str | None:
    value = argument.default
    if value is None:
        return None
    if value == "None":
        return "{}" if argument.type in ("Tensor?", "int[]?", "Scalar?") else "std::nullopt"
    if argument.type in ("int[]", "int[]?"):
        entries = value.strip("[]").split(",")
        same = len({e.strip() for e in entries}) == 1
        return (entries[0].strip() or "{}") if same else "{" + value.strip("[]") + "}"
    if argument.type in ("bool", "bool?"):
        return value.lower()
    if argument.type in ("MemoryFormat", "MemoryFormat?"):
        return "MemoryFormat::Contiguous"
    if argument.type == "float[]":
        return "{}"
    return value.replace("False", "false").replace("True", "true")


CPP_RESERVED = {"default", "register", "union", "and", "or", "xor", "not", "operator", "new"}


def safe(name: str) -> str:
    return name + "_" if name in CPP_RESERVED else name


def return_type(operation: Operation, in_place: bool) -> str | None:
    names = {
        "Tensor": "Tensor",
        "bool": "bool",
        "int": "int64_t",
        "float": "double",
        "Scalar": "Scalar",
        "Tensor[]": "std::vector<Tensor>",
    }
    if any(kind not in names for kind in operation.returns):
        return None
    if in_place and operation.returns == ("Tensor",):
        return "Tensor&"
    if not operation.returns:
        return "void"
    if len(operation.returns) == 1:
        return names[operation.returns[0]]
    return "std::tuple<" + ", ".join(names[kind] for kind in operation.returns) + ">"


@dataclass(frozen=True)
class Parameter:
    declaration: str
    default: str | None
    boxes: tuple[str, ...]


def parameters(operation: Operation, packed: bool) -> list[Parameter]:
    """C++ parameters, in schema order; `packed` folds dtype, layout, device, pin_memory into one."""
    result = []
    names = [a.name for a in operation.arguments]
    has_options = all(name in names for name in OPTIONS)
    for argument in operation.arguments:
        if argument.type == "Generator?":
            result.append(Parameter("", None, ("std::nullopt",)))
            continue
        if has_options and packed and argument.name in OPTIONS:
            if argument.name == "dtype":
                boxes = (
                    "options.dtype_opt()",
                    "options.layout_opt()",
                    "options.device_opt()",
                    "options.pinned_memory_opt()",
                )
                default = "{}" if argument.default == "None" else None
                result.append(Parameter("TensorOptions options", default, boxes))
            continue
        name = safe(argument.name)
        if argument.written and argument.type == "Tensor":
            cpp = "Tensor&"
        else:
            cpp = ARGUMENT_TYPES[argument.type]
        default = default_text(argument)
        if has_options and not packed and argument.name in OPTIONS:
            default = None
        box = name
        if has_options and packed and argument.name == "memory_format":
            box = f"{name} ? {name} : options.memory_format_opt()"
        result.append(Parameter(f"{cpp} {name}", default, (box,)))
    return result


def settle_defaults(params: list[Parameter]) -> list[str]:
    """Declarations, with defaults only where no later parameter lacks one."""
    texts: list[str] = []
    open_tail = True
    for param in reversed([p for p in params if p.declaration]):
        open_tail = open_tail and param.default is not None
        texts.append(param.declaration + (f"={param.default}" if open_tail else ""))
    return texts[::-1]


def body(operation: Operation, result: str, boxes: list[str], in_place: str | None) -> str:
    array = f"const Arg boxed[]{{{', '.join(boxes)}}};"
    count = len(boxes)
    op = operation.op
    if in_place is not None:
        return f'{array} call("{op}", boxed, {count}); return {in_place};'
    if result == "Tensor":
        return f'{array} return call_tensor("{op}", boxed, {count});'
    if result == "std::vector<Tensor>":
        return f'{array} return call_tensors("{op}", boxed, {count});'
    if result == "Scalar":
        return f'{array} return call_scalar("{op}", boxed, {count});'
    if result in ("bool", "int64_t"):
        return f'{array} return call("{op}", boxed, {count}).integer;'
    if result == "double":
        return f'{array} return call("{op}", boxed, {count}).real;'
    if result == "void":
        return f'{array} call("{op}", boxed, {count});'
    reads = []
    for index, kind in enumerate(operation.returns):
        item = f"items(r)[{index}]"
        reads.append(
            {
                "Tensor": f"read_tensor({item})",
                "Tensor[]": f"read_tensors({item})",
                "int": f"{item}.integer",
                "float": f"{item}.real",
            }[kind]
        )
    return f'{array} const Box r = call("{op}", boxed, {count}); return {{{", ".join(reads)}}};'


class Writer:
    """Collects the three texts, each signature once."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.methods: list[str] = []
        self.definitions: list[str] = []
        self._seen: set[str] = set()

    def _once(self, scope: str, name: str, params: list[Parameter]) -> bool:
        kinds = ",".join(p.declaration.rpartition(" ")[0] for p in params if p.declaration)
        key = f"{scope}{name}({kinds})"
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def function(
        self,
        operation: Operation,
        name: str,
        params: list[Parameter],
        result: str,
        boxes: list[str],
        in_place: str | None,
    ) -> None:
        if not self._once("at::", name, params):
            return
        plain = ", ".join(p.declaration for p in params if p.declaration)
        declared = ", ".join(settle_defaults(params))
        self.functions.append(f"MUSAHOST_THIN_API {result} {name}({declared});")
        text = body(operation, result, boxes, in_place)
        self.definitions.append(f"{result} at::{name}({plain}) {{ {text} }}")

    def method(
        self,
        operation: Operation,
        params: list[Parameter],
        result: str,
        boxes: list[str],
        in_place: bool,
    ) -> None:
        rest = [p for p in params if p.declaration and not p.declaration.endswith(" self")]
        if not self._once("Tensor::", operation.name, rest):
            return
        plain = ", ".join(p.declaration for p in rest)
        declared = ", ".join(settle_defaults(rest))
        self.methods.append(f"{result} {operation.name}({declared}) const;")
        boxes = ["*this" if box == "self" else box for box in boxes]
        text = body(operation, result, boxes, "const_cast<Tensor&>(*this)" if in_place else None)
        self.definitions.append(f"{result} Tensor::{operation.name}({plain}) const {{ {text} }}")

    def add(self, operation: Operation, is_function: bool, is_method: bool) -> None:
        in_place = operation.name.endswith("_") and not operation.name.endswith("__")
        written = [a for a in operation.arguments if a.written]
        is_out = bool(written) and not in_place
        names = [a.name for a in operation.arguments]
        forms = (True, False) if all(n in names for n in OPTIONS) else (True,)
        for packed in forms:
            params = parameters(operation, packed)
            boxes = [box for p in params for box in p.boxes]
            result = return_type(operation, in_place or is_out)
            if result is None:
                return
            if is_out:
                self._out(operation, params, boxes, written)
                continue
            if is_function:
                self.function(
                    operation, operation.name, params, result, boxes, "self" if in_place else None
                )
            if is_method and "self" in names:
                self.method(operation, params, result, boxes, in_place)

    def _out(
        self,
        operation: Operation,
        params: list[Parameter],
        boxes: list[str],
        written: list[Argument],
    ) -> None:
        outs = [safe(a.name) for a in written]
        moved = [p for p in params if p.declaration.startswith("Tensor& ")]
        others = [p for p in params if not p.declaration.startswith("Tensor& ")]
        if len(moved) != len(outs):
            return
        result = (
            "Tensor&"
            if len(outs) == 1
            else ("std::tuple<" + ", ".join("Tensor&" for _ in outs) + ">")
        )
        value = outs[0] if len(outs) == 1 else f"{result}({', '.join(outs)})"
        self.function(operation, f"{operation.name}_out", moved + others, result, boxes, value)


def native_names() -> tuple[set[str], set[str]]:
    """Names of at:: functions and of Tensor methods, from the installed torch's headers."""
    import torch

    include = Path(torch.__file__).parent / "include" / "ATen"
    functions: set[str] = set()
    for path in (include / "ops").glob("*.h"):
        functions.update(re.findall(r"^inline [^\n(]*?\b(\w+)\(", path.read_text(), re.M))
    methods = set(
        re.findall(r"inline [^\n;]*?Tensor::(\w+)\(", (include / "core/TensorBody.h").read_text())
    )
    return functions, methods


def operations() -> list[tuple[Operation, bool, bool]]:
    """All operations that the headers declare, each with: is a function, is a method."""
    import torch

    functions, methods = native_names()
    chosen = []
    for schema in torch._C._jit_get_all_schemas():
        if not schema.name.startswith("aten::"):
            continue
        name = schema.name[6:]
        if (DROPPED.search(name) and name not in KEPT) or "twin" in schema.overload_name:
            continue
        text = str(schema)
        if (
            name not in functions | methods
            or "Dimname" in text
            or "Storage" in text
            or "Stream" in text
        ):
            continue
        operation = parse(text)
        if not has_kernel(operation):
            continue
        if any(a.type not in ARGUMENT_TYPES for a in operation.arguments):
            continue
        chosen.append((operation, name in functions, name in methods))
    return sorted(chosen, key=lambda entry: (entry[0].name, entry[0].overload, str(entry[0])))


def has_kernel(operation: Operation) -> bool:
    """Whether the dispatcher knows it. TorchScript's builtins share the namespace without an entry,
    and an out form that only copies a functional result is not worth a declaration."""
    import torch

    full = f"aten::{operation.op}"
    if not torch._C._dispatch_has_kernel(full):
        return False
    keys = ["CPU", "CompositeImplicitAutograd"]
    if operation.name.endswith("_") or not any(a.written for a in operation.arguments):
        keys.append("CompositeExplicitAutograd")
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(full, key) for key in keys)


def main() -> None:
    writer = Writer()
    for operation, is_function, is_method in operations():
        writer.add(operation, is_function, is_method)
    header = "// Written by bridge_ops_generator.py. Do not edit.\n"
    (THIN / "ops_functions.h").write_text(
        header
        + '#pragma once\n#include "index.h"\n\nnamespace at {\n\n'
        + "\n".join(writer.functions)
        + "\n\n}  // namespace at\n"
    )
    (THIN / "ops_methods.h").write_text(
        header + "// Included inside class Tensor.\n" + "\n".join(writer.methods) + "\n"
    )
    (THIN / "ops_definitions.inc").write_text(header + "\n".join(writer.definitions) + "\n")


if __name__ == "__main__":
    main()
