"""What a candidate hands to `load_inline`, and the translation units that come of it.

Stock `load_inline` compiles cpp_sources (g++, after torch/extension.h, with the module definition)
and cuda_sources (nvcc, after torch/types.h and the CUDA headers) apart. One unit is cheaper, and is
made where it cannot change what compiles. `stock.py` has what stock refuses besides.
"""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from musaagent.tools.host.constructs import unused_headers
from musaagent.tools.host.diagnostics import Texts
from musaagent.tools.host.lexer import Kind, directives, following
from musaagent.tools.host.reading import Source, read
from musaagent.tools.host.rewrite import rewrite, to_cpu_device
from musaagent.tools.results import Record

Level = Literal["thin", "full"]
Language = Literal["cpp", "cuda", "header"]
DOUBLE_MODULE = "double_module"
FUNCTIONS_LABEL = "functions"

_CPP_SUFFIXES = (".cpp", ".cc", ".cxx", ".c")
_CUDA_SUFFIXES = (".cu", ".mu")
MODULE_MACRO = "PYBIND11_MODULE"
CUDA_PRELUDE = "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n"
_PYBIND_HEADERS = (
    "torch/extension.h",
    "torch/python.h",
    "torch/all.h",
    "torch/torch.h",
    "pybind11/",
)


class SourceFile(Record):
    """One file of `load(sources=[...])`, or a header that lies beside them."""

    path: str
    text: str

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    @property
    def language(self) -> Language:
        if self.name.endswith(_CUDA_SUFFIXES):
            return "cuda"
        return "cpp" if self.name.endswith(_CPP_SUFFIXES) else "header"


class SourceSet(Record):
    """The arguments of one `load_inline` or `load` call."""

    name: str
    cpp_sources: tuple[str, ...] = ()
    cuda_sources: tuple[str, ...] = ()
    functions: tuple[str, ...] | None = None
    extra_cflags: tuple[str, ...] = ()
    extra_cuda_cflags: tuple[str, ...] = ()
    extra_ldflags: tuple[str, ...] = ()
    extra_include_paths: tuple[str, ...] = ()
    files: tuple[SourceFile, ...] = ()
    """The files of `load()`; cpp_sources and cuda_sources are empty then."""
    implicit_headers: bool = True
    """False where the candidate passed no_implicit_headers=True."""
    is_python_module: bool = True


@dataclass(frozen=True)
class Piece:
    """One source text with what was read in it."""

    label: str
    text: str
    language: Language
    source: Source

    @property
    def headers(self) -> frozenset[str]:
        return frozenset(t.text[1:-1] for t in self.source.tokens if t.kind is Kind.HEADER)


@dataclass(frozen=True)
class Unit:
    """One generated file for the compiler."""

    file_name: str
    text: str
    language: Language


def pieces(sources: SourceSet) -> list[Piece]:
    """All texts of a source set, lexed, in the order of compilation."""
    named: list[tuple[str, str, Language]] = []
    named += [(f"cpp_sources[{i}]", text, "cpp") for i, text in enumerate(sources.cpp_sources)]
    named += [(f"cuda_sources[{i}]", text, "cuda") for i, text in enumerate(sources.cuda_sources)]
    named += [(file.name, file.text, file.language) for file in sources.files]
    return [Piece(label, text, language, read(text)) for label, text, language in named]


def texts(sources: SourceSet, parts: Sequence[Piece]) -> Texts:
    """What diagnostics show: every source as the candidate wrote it."""
    return Texts(as_written(sources, parts), {part.label: rewrite_piece(part) for part in parts})


def as_written(sources: SourceSet, parts: Sequence[Piece]) -> dict[str, str]:
    """Every source by its label."""
    original = {part.label: part.text for part in parts}
    if sources.functions is not None:
        original[FUNCTIONS_LABEL] = f"functions={list(sources.functions)}"
    return original


def rewrite_piece(part: Piece) -> str:
    return rewrite(part.text, unused_headers(part.source))


def is_musa(parts: Sequence[Piece]) -> bool:
    """Whether the sources are in the MUSA spelling; mcc compiles all of them then."""
    headers = {header for part in parts for header in part.headers}
    return any(h.startswith(("musa", "torch_musa/")) for h in headers)


def has_module(parts: Iterable[Piece]) -> bool:
    return any(module_places(part) for part in parts)


def is_double_module(sources: SourceSet, parts: Sequence[Piece]) -> bool:
    """Both `functions` and the candidate define the module: stock could not link that."""
    if sources.functions is None:
        return False
    names = ("TORCH_EXTENSION_NAME", sources.name)
    return any(name in names for part in parts for _, name in module_places(part))


def module_places(part: Piece) -> list[tuple[int, str]]:
    """Line and module name of every PYBIND11_MODULE in use."""
    tokens = part.source.tokens
    found: list[tuple[int, str]] = []
    for index, token in enumerate(tokens):
        if token.text != MODULE_MACRO or token.directive or part.source.skipped(index):
            continue
        name = following(tokens, following(tokens, index))
        if name < len(tokens):
            found.append((token.line, tokens[name].text))
    return found


def can_merge(sources: SourceSet, parts: Sequence[Piece]) -> bool:
    """Whether cpp_sources hold only what cannot reach into cuda_sources: functions and includes."""
    if sources.files:
        return False
    for part in parts:
        if part.language != "cpp":
            continue
        outline = part.source.outline
        if outline.others or any(f.words & {"static", "template"} for f in outline.functions):
            return False
        names = {d.name for d in directives(part.source.tokens)}
        if names - {"include", "pragma", ""}:
            return False
    return True


def units(sources: SourceSet, parts: Sequence[Piece], level: Level, *, merged: bool) -> list[Unit]:
    """The files to compile; `merged` puts cpp_sources and cuda_sources into one."""
    if sources.files:
        return [_file_unit(sources, part, level) for part in parts]
    cpp = [part for part in parts if part.language == "cpp"]
    cuda = [part for part in parts if part.language == "cuda"]
    drop_functions = level == "full" and has_module(parts)  # one PyInit only
    functions = None if drop_functions else sources.functions
    implicit = sources.implicit_headers
    first = "#include <torch/extension.h>\n" if implicit else ""
    main = first + _join(cpp, level) + _module(functions, level)
    device = (CUDA_PRELUDE if implicit else "") + _join(cuda, level)
    head = _prelude(sources.name, level)
    if not cuda:
        return [Unit("main.cpp", head + main, "cpp")]
    if merged or (not functions and not any(part.text.strip() for part in cpp)):
        return [Unit("cuda.cpp", head + main + device, "cuda")]
    return [Unit("main.cpp", head + main, "cpp"), Unit("cuda.cpp", head + device, "cuda")]


def _file_unit(sources: SourceSet, part: Piece, level: Level) -> Unit:
    text = f'#line 1 "{part.label}"\n{_host_text(part, level)}\n'
    if part.language == "header":
        return Unit(part.label, text, "header")
    runtime = "#include <cuda_runtime.h>\n" if part.language == "cuda" else ""
    name = part.label.replace(".", "_") + ".cpp"
    return Unit(name, _prelude(sources.name, level) + runtime + text, part.language)


def _host_text(part: Piece, level: Level) -> str:
    text = rewrite_piece(part)
    return to_cpu_device(text) if level == "full" else text


def _join(parts: Sequence[Piece], level: Level) -> str:
    return "".join(f'#line 1 "{part.label}"\n{_host_text(part, level)}\n' for part in parts)


def _prelude(name: str, level: Level) -> str:
    """What stands before everything else. The error attribute makes g++ report a reached call."""
    lines = [
        "namespace musahost {",
        '__attribute__((error("musahost: unsupported construct: inline PTX")))',
        "void unsupported_inline_ptx();",
        "}",
    ]
    if level == "full":
        # torch's headers call it themselves, and our <assert.h> does not declare it.
        lines.append('extern "C" void __assert_fail(const char*, const char*, unsigned,')
        lines.append("    const char*) noexcept __attribute__((noreturn));")
    if level == "thin":
        lines += ["#undef TORCH_EXTENSION_NAME", f"#define TORCH_EXTENSION_NAME {name}"]
    return "\n".join(lines) + "\n"


def _module(functions: tuple[str, ...] | None, level: Level) -> str:
    if not functions:
        return ""
    if level == "thin":
        body = f"MUSAHOST_EXPORT_TABLE({', '.join(functions)})"
    else:
        calls = "".join(
            f'm.def("{f}", torch::wrap_pybind_function({f}), "{f}");' for f in functions
        )
        body = f"{MODULE_MACRO}(TORCH_EXTENSION_NAME, m) {{ {calls} }}"
    return f'#line 1 "{FUNCTIONS_LABEL}"\n{body}\n'


def definitions(sources: SourceSet, language: Language | None = None) -> list[str]:
    """The -D and -U of the candidate's flags (and -fopenmp); others do not concern the host.

    `language` None takes both lists, for a merged unit.
    """
    flags: list[str] = []
    if language in ("cpp", None):
        flags += split_flags(sources.extra_cflags)
    if language in ("cuda", None):
        flags += split_flags(sources.extra_cuda_cflags)
    kept: list[str] = []
    for index, flag in enumerate(flags):
        if flag in ("-D", "-U") and index + 1 < len(flags):
            kept.append(flag + flags[index + 1])
        elif (flag.startswith(("-D", "-U")) and len(flag) > 2) or flag == "-fopenmp":
            kept.append(flag)
    return list(dict.fromkeys(kept))


def split_flags(flags: Iterable[str]) -> list[str]:
    """Flags as the shell that ninja starts would split them."""
    text = " ".join(flag.strip() for flag in flags)
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
