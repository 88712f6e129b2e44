"""A candidate's Python to torch_musa: imports, arguments of load_inline, devices, its C++ texts.

Edits are made at tokens of the original text, so that layout and comments stay. What the Python
says of devices is found in its syntax tree; strings that hold C++ go through `cxx`.
"""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from musaagent.tools.host.reading import read
from musaagent.tools.port.compiler_flags import port_flag
from musaagent.tools.port.cxx import defined_names, port_cxx
from musaagent.tools.port.literals import Literal
from musaagent.tools.port.remarks import Change, Ported, Remark
from musaagent.tools.port.tables import Tables
from musaagent.tools.syntax import parse

_CPP_SIGNS = re.compile(
    r"#\s*include\b|__global__|__device__|\b(?:torch|at)::Tensor\b|\bcuda[A-Z]\w+\s*\(|<<<"
)
_DEVICE = re.compile(r"cuda((?::\d+)?)$")
_SUFFIX = re.compile(r"(.*\.)cu(h?)$", re.DOTALL)
_EXTENSION = "torch.utils.cpp_extension"
_MUSA_EXTENSION = "torch_musa.utils.musa_extension"
_KEYWORDS = {
    "cuda_sources": "musa_sources",
    "extra_cuda_cflags": "extra_musa_cflags",
    "with_cuda": "with_musa",
}
_LOADERS = frozenset({"load_inline", "load"})
_FLAG_ARGUMENTS = frozenset({"extra_cuda_cflags", "extra_musa_cflags"})
_ATTRIBUTES = {
    "torch.cuda": "torch.musa",
    "torch.backends.cuda.matmul": "torch.backends.mudnn",
    "torch.backends.cudnn": "torch.backends.mudnn",
    _EXTENSION: _MUSA_EXTENSION,
}
_DOUBTFUL = {
    "torch.version.cuda": "torch.version.cuda: torch_musa has torch_musa.__version__",
    "torch.cuda.nvtx": "torch.cuda.nvtx has no counterpart in torch_musa",
    "torch.cuda.CUDAGraph": "graphs of torch_musa were not tried",
}


@dataclass(frozen=True)
class _Edit:
    start: int
    end: int
    text: str


@dataclass
class _Marks:
    """Places in the text, by offset, that the syntax tree says something about."""

    flags: set[tuple[int, int]] = field(default_factory=set)
    sources: set[tuple[int, int]] = field(default_factory=set)
    docstrings: set[tuple[int, int]] = field(default_factory=set)


def port_python(text: str, tables: Tables, arch: str, *, source: str = "") -> Ported:
    """Raises SyntaxError where the text is not Python."""
    return _PythonPorter(text, tables, arch, source).run()


class _PythonPorter:
    def __init__(self, text: str, tables: Tables, arch: str, label: str) -> None:
        self.text = text
        self.tables = tables
        self.arch = arch
        self.label = label
        self.tree = parse(text)
        # Columns of the syntax tree are bytes, those of tokens are characters.
        self.lines = re.findall(r"[^\n]*\n|[^\n]+\Z", text)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.edits: list[_Edit] = []
        self.changes: list[Change] = []
        self.remarks: list[Remark] = []
        self.marks = _Marks()
        self.texts: list[tuple[str, Callable[[int], int]]] = []
        """C++ texts, each with the way from its lines to the file's."""

    def run(self) -> Ported:
        self.mark()
        for node in ast.walk(self.tree):
            self.node(node)
        self.strings()
        out, position = [], 0
        for edit in sorted(set(self.edits), key=lambda e: (e.start, e.end)):
            if edit.start < position:
                continue
            out += [self.text[position : edit.start], edit.text]
            position = edit.end
        out.append(self.text[position:])
        changes = tuple(sorted(self.changes, key=lambda c: c.line))
        remarks = tuple(sorted(self.remarks, key=lambda r: r.line))
        return Ported(text="".join(out), changes=changes, remarks=remarks)

    # ---- places

    def offset(self, line: int, byte_column: int) -> int:
        prefix = self.lines[line - 1].encode()[:byte_column]
        return self.starts[line - 1] + len(prefix.decode(errors="replace"))

    def span(self, node: ast.expr | ast.keyword | ast.alias | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.offset(node.lineno, node.col_offset)
        return start, self.offset(node.end_lineno, node.end_col_offset)

    def edit(self, start: int, end: int, new: str, kind: str) -> None:
        old = self.text[start:end]
        if new != old:
            line = self.text.count("\n", 0, start) + 1
            self.edits.append(_Edit(start, end, new))
            self.changes.append(Change(kind=kind, old=old, new=new, line=line))

    def remark(self, kind: str, line: int, message: str) -> None:
        self.remarks.append(Remark(kind=kind, source=self.label, line=line, message=message))

    # ---- the tree

    def mark(self) -> None:
        names: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                for keyword in node.keywords:
                    self.mark_keyword(keyword, names)
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
                value = body[0].value
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    self.marks.docstrings.add(self.span(value))
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and any(
                isinstance(t, ast.Name) and t.id in names for t in node.targets
            ):
                self.marks.sources.add(self.span(node.value))

    def mark_keyword(self, keyword: ast.keyword, names: set[str]) -> None:
        if keyword.arg in ("cpp_sources", "cuda_sources", "musa_sources"):
            self.marks.sources.add(self.span(keyword.value))
            names |= {n.id for n in ast.walk(keyword.value) if isinstance(n, ast.Name)}
        if keyword.arg in _FLAG_ARGUMENTS:
            self.flags(keyword.value)

    def flags(self, value: ast.expr) -> None:
        """Each literal flag of nvcc's: kept, written as mcc's, or taken out of the list."""
        literals = [
            n for n in ast.walk(value) if isinstance(n, ast.Constant) and isinstance(n.value, str)
        ]
        # Set first, since the strings are looked at again as strings.
        self.marks.flags |= {self.span(n) for n in literals}
        if not isinstance(value, ast.List | ast.Tuple):
            for literal in literals:
                self.remark("flag", literal.lineno, f"nvcc flags in a string: {literal.value!r}")
            return
        kept: list[str] = []
        for element in value.elts:
            start, end = self.span(element)
            if not (isinstance(element, ast.Constant) and isinstance(element.value, str)):
                kept.append(self.text[start:end])
                continue
            flags, doubt = port_flag(element.value, self.arch)
            kept += [f'"{flag}"' for flag in flags if f'"{flag}"' not in kept]
            if doubt:
                self.remark("flag", element.lineno, doubt)
        start, end = self.span(value)
        joined = ", ".join(kept)
        if isinstance(value, ast.Tuple):
            joined = f"({joined},)" if kept else "()"
        else:
            joined = f"[{joined}]"
        if [ast.unparse(e) for e in value.elts] != [ast.unparse(parse(k)) for k in kept]:
            self.edit(start, end, joined, "flag")

    def node(self, node: ast.AST) -> None:
        match node:
            case ast.ImportFrom():
                self.import_from(node)
            case ast.Import():
                for alias in node.names:
                    if alias.name == _EXTENSION:
                        start, end = self.span(alias)
                        new = self.text[start:end].replace(_EXTENSION, _MUSA_EXTENSION, 1)
                        self.edit(start, end, new, "python")
            case ast.Attribute():
                self.attribute(node)
            case ast.Call():
                self.call(node)

    def import_from(self, node: ast.ImportFrom) -> None:
        start, end = self.span(node)
        text = self.text[start:end]
        if node.module == _EXTENSION:
            odd = [a.name for a in node.names if a.name not in _LOADERS]
            if odd:
                self.remark("python", node.lineno, f"{', '.join(odd)}: not in torch_musa's loader")
            new = re.sub(r"torch\.utils\.cpp_extension", _MUSA_EXTENSION, text, count=1)
            self.edit(start, end, new, "python")
        elif node.module == "torch.utils" and any(a.name == "cpp_extension" for a in node.names):
            others = [a for a in node.names if a.name != "cpp_extension"]
            known = next(a for a in node.names if a.name == "cpp_extension").asname
            new = f"from torch_musa.utils import musa_extension as {known or 'cpp_extension'}"
            if others:
                new = f"from torch.utils import {', '.join(map(ast.unparse, others))}; " + new
            self.edit(start, end, new, "python")

    def attribute(self, node: ast.Attribute) -> None:
        dotted = _dotted(node)
        if dotted in _DOUBTFUL:
            self.remark("python", node.lineno, _DOUBTFUL[dotted])
        if dotted in _ATTRIBUTES:
            self.edit(*self.span(node), _ATTRIBUTES[dotted], "python")
        elif node.attr == "is_cuda" and not dotted.startswith("torch.cuda"):
            _, end = self.span(node)
            self.edit(end - len("is_cuda"), end, "is_musa", "device")

    def call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr == "cuda":
            _, end = self.span(function)
            if _dotted(function) != "torch.cuda":
                self.edit(end - len("cuda"), end, "musa", "device")
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name not in _LOADERS:
            return
        for keyword in node.keywords:
            if keyword.arg in _KEYWORDS:
                start, _ = self.span(keyword)
                new = _KEYWORDS[keyword.arg]
                self.edit(start, start + len(keyword.arg), new, "python")
        if name == "load_inline" and len(node.args) > 3:
            self.remark("python", node.lineno, "functions given by position: name them")

    # ---- strings

    def strings(self) -> None:
        for start, end in self.string_tokens():
            if (start, end) in self.marks.flags or (start, end) in self.marks.docstrings:
                continue
            prefix, quote = _opening(self.text[start:end])
            low, high = start + len(prefix) + len(quote), end - len(quote)
            inner = self.text[low:high]
            literal = Literal(inner, quote=quote, raw="r" in prefix.lower())
            given = any(a <= start and end <= b for a, b in self.marks.sources)
            if given or _CPP_SIGNS.search(literal.value):
                self.cxx(low, literal)
            elif match := _DEVICE.match(inner):
                self.edit(low, high, f"musa{match[1]}", "device")
            elif (match := _SUFFIX.match(inner)) and "\n" not in inner:
                self.edit(low, high, f"{match[1]}mu{match[2]}", "suffix")

    def string_tokens(self) -> Iterator[tuple[int, int]]:
        """Spans of all string literals; from Python 3.12 on the parts of f-strings come apart."""
        opened: list[int] = []
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            name = tokenize.tok_name[token.type]
            start = self.starts[token.start[0] - 1] + token.start[1]
            end = self.starts[token.end[0] - 1] + token.end[1]
            if name == "FSTRING_START":
                opened.append(start)
            elif name == "FSTRING_END" and opened:
                begin = opened.pop()
                if not opened:
                    yield begin, end
            elif name == "STRING" and not opened:
                yield start, end

    def cxx(self, low: int, literal: Literal) -> None:
        """Words of the literal change in its own text; escapes and layout stay."""
        own = defined_names(read(literal.value)) | self.python_names
        ported = port_cxx(
            literal.value,
            self.tables,
            own_names=own,
            own_headers=self.written_headers,
            source=self.label,
        )
        for start, end, new in ported.edits:
            place = low + literal.start(start), low + literal.end(end)
            self.edits.append(_Edit(*place, literal.written(new)))

        def line(of_value: int) -> int:
            return self.text.count("\n", 0, low + literal.line_start(of_value)) + 1

        self.texts.append((literal.value, line))
        self.changes += [c.model_copy(update={"line": line(c.line)}) for c in ported.changes]
        self.remarks += [r.model_copy(update={"line": line(r.line)}) for r in ported.remarks]

    @cached_property
    def written_headers(self) -> frozenset[str]:
        """Headers that the candidate writes to files itself, for load()."""
        return frozenset(
            node.value.rpartition("/")[2]
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.endswith(".cuh")
            and "\n" not in node.value
        )

    @cached_property
    def python_names(self) -> frozenset[str]:
        """Functions that Python calls by name are the candidate's, whatever they are called."""
        return frozenset(
            element.value
            for node in ast.walk(self.tree)
            if isinstance(node, ast.keyword) and node.arg == "functions"
            for element in ast.walk(node.value)
            if isinstance(element, ast.Constant) and isinstance(element.value, str)
        )


def cxx_texts(text: str) -> list[tuple[str, Callable[[int], int]]]:
    """The C++ in a Python text, each with the way from its lines to the file's.

    Raises SyntaxError.
    """
    porter = _PythonPorter(text, Tables(), "", "")
    porter.run()
    return porter.texts


def _opening(literal: str) -> tuple[str, str]:
    """Prefix and quotes: `r`, triple quotes."""
    match = re.match(r"([A-Za-z]*)('''|\"\"\"|'|\")", literal)
    assert match is not None
    return match[1], match[2]


def _dotted(node: ast.expr) -> str:
    """`torch.cuda.synchronize`; empty for what is no dotted name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join(reversed([*parts, node.id]))
