"""What stock `load_inline` refuses and the host's own compile could not see.

Each of these fails on a GPU machine, in g++, in nvcc or at import, so it must not pass here.
"""

from collections.abc import Iterable, Sequence

from musaagent.tools.host.lexer import Kind, following, previous
from musaagent.tools.host.scopes import Function
from musaagent.tools.host.sources import (
    MODULE_MACRO,
    Piece,
    SourceSet,
    is_musa,
    module_places,
    split_flags,
)
from musaagent.tools.results import Diagnostic

_DEVICE_ONLY = frozenset("threadIdx blockIdx blockDim gridDim __syncthreads".split())
_PYBIND_HEADERS = ("torch/extension.h", "torch/python.h", "pybind11/")
# Beginnings of what g++ takes, and what nvcc takes and g++ does not know.
_GCC_FLAGS = (
    *("-O", "-D", "-U", "-I", "-std=", "-W", "-f", "-m", "-g", "-w", "-p", "-x", "-l", "-L", "-s"),
    *("-include", "-isystem", "-c", "-E", "-S", "-v", "-B", "--std=", "--param", "-no", "-t", "-u"),
)
_NVCC_ONLY = ("-gencode", "-maxrregcount", "-restrict", "-res-usage", "-lineinfo", "-ptx")
# g++ flags that nvcc does not know: it takes them after -Xcompiler only.
_NOT_NVCC = ("-f", "-march", "-mtune", "-mavx", "-msse", "-W", "-pthread", "-Ofast")
_NVCC_BUT = (
    *("-fmad", "-ftz", "-fatbin", "-forward", "-foreign", "-Werror", "-Wreorder", "-Wext-lambda"),
    *("-Wno-deprecated", "-Wdefault-stream", "-Wmissing-launch-bounds"),
)
_NOT_MCC = (
    *("--use_fast_math", "-use_fast_math", "-gencode", "--generate-code", "-arch", "--expt-"),
    *("--extended-lambda", "-Xptxas", "--ptxas-options", "-lineinfo", "--maxrregcount", "-ccbin"),
)
_NVCC_WITH_VALUE = ("-Xcompiler", "--compiler-options", "-Xptxas", "-Xlinker", "-Xcudafe")


def stock_refusals(sources: SourceSet, parts: Sequence[Piece]) -> list[Diagnostic]:
    """What g++, nvcc or the import would refuse in stock `load_inline` and we could not see."""
    found: list[Diagnostic] = []
    if not is_musa(parts):
        for part in parts:
            if part.language == "cpp":
                found += _cuda_in_cpp(part)
            elif part.language == "cuda" and sources.implicit_headers and not sources.files:
                found += _pybind_without_header(part, parts)
    for part in parts:
        found += _initialised_shared(part)
        found += _host_calls(part)
    found += _unknown_flags(sources, musa=is_musa(parts))
    if not sources.is_python_module:
        return found
    if not sources.name.isidentifier():
        message = f"the module name {sources.name!r} is no C++ identifier"
        found.append(Diagnostic(tool="g++", severity="error", message=message))
    if sources.functions is None:
        found += _no_module(sources, parts)
    return found


def _error(tool: str, message: str, part: Piece, line: int) -> Diagnostic:
    lines = part.text.splitlines()
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return Diagnostic(
        tool=tool, severity="error", message=message, source=part.label, line=line, text=text
    )


def _cuda_in_cpp(part: Piece) -> list[Diagnostic]:
    """g++ compiles cpp_sources: it knows no launches and no built-in variables, with any header."""
    cuda_header = any("cuda" in header for header in part.headers)
    for index, token in enumerate(part.source.tokens):
        if token.blank or token.directive or part.source.skipped(index):
            continue
        if token.kind is Kind.LAUNCH_OPEN:
            wrong = "expected primary-expression before '<' token"
        elif token.text in _DEVICE_ONLY:
            wrong = f"'{token.text}' was not declared in this scope"
        elif token.text == "__global__" and not cuda_header:
            wrong = "'__global__' does not name a type"
        else:
            continue
        message = f"{wrong}: g++ compiles {part.label}, not nvcc"
        return [_error("g++", message, part, token.line)]
    return []


def _pybind_without_header(part: Piece, parts: Sequence[Piece]) -> list[Diagnostic]:
    headers = {h for p in parts if p.language == "cuda" for h in p.headers}
    places = module_places(part)
    if not places or any(h.startswith(_PYBIND_HEADERS) or "pybind" in h for h in headers):
        return []
    message = f"{MODULE_MACRO} is not declared: {part.label} does not include <torch/extension.h>"
    return [_error("nvcc", message, part, places[0][0])]


def _initialised_shared(part: Piece) -> list[Diagnostic]:
    return [
        _error("nvcc", "initializer not allowed for __shared__ variable", part, line)
        for line in part.source.initialised_shared()
    ]


def _no_module(sources: SourceSet, parts: Sequence[Piece]) -> list[Diagnostic]:
    """Where no module comes of the sources, stock builds them and then fails to import."""
    places = [(part, line, name) for part in parts for line, name in module_places(part)]
    if any(name in ("TORCH_EXTENSION_NAME", sources.name) for _, _, name in places):
        return []
    if any(MODULE_MACRO in part.source.all_macro_words for part in parts):
        return []
    wanted = f"dynamic module does not define module export function (PyInit_{sources.name})"
    if places:
        part, line, name = places[0]
        return [_error("ld", f"{wanted}: {MODULE_MACRO} names it {name}", part, line)]
    message = f"{wanted}: neither functions= nor {MODULE_MACRO} is there"
    return [Diagnostic(tool="ld", severity="error", message=message)]


def _unknown_flags(sources: SourceSet, *, musa: bool) -> list[Diagnostic]:
    """Options that end g++, nvcc or (for MUSA sources) mcc before they read a line."""
    found = []
    for flag in split_flags(sources.extra_cflags):
        if flag.startswith("-") and (
            not flag.startswith(_GCC_FLAGS) or flag.startswith(_NVCC_ONLY) or flag == "-Xcompiler"
        ):
            message = f"unrecognized command-line option '{flag}' in extra_cflags"
            found.append(Diagnostic(tool="g++", severity="error", message=message))
    flags = split_flags(sources.extra_cuda_cflags)
    if musa:  # mcc is a clang: it takes what g++ takes, and nothing of nvcc's own
        for flag in flags:
            if flag.startswith(_NOT_MCC):
                message = f"unknown argument: '{flag}' in the flags for mcc"
                found.append(Diagnostic(tool="mcc", severity="error", message=message))
        return found
    for before, flag in zip(["", *flags], flags, strict=False):
        known = flag.startswith(_NVCC_BUT) or not flag.startswith(_NOT_NVCC)
        if not known and before not in _NVCC_WITH_VALUE:
            message = f"Unknown option '{flag}' in extra_cuda_cflags"
            found.append(Diagnostic(tool="nvcc", severity="error", message=message))
    return found


def _host_calls(part: Piece) -> list[Diagnostic]:
    """Calls from device code of functions that were defined for the host only."""
    outline = part.source.outline
    device = {f.name for f in outline.functions if _may_run_on_device(f.words, part)}
    host = {f.name for f in outline.functions if f.body and f.global_scope} - device
    found: list[Diagnostic] = []
    for function in outline.functions:
        if function.body is None or not function.device:
            continue
        for index in range(*function.body):
            token = part.source.tokens[index]
            if token.text in host and _is_call(part, function, index):
                message = (
                    f'calling a __host__ function("{token.text}") from a '
                    f"{'__global__' if function.kernel else '__device__'} "
                    f'function("{function.name}") is not allowed'
                )
                found.append(_error("nvcc", message, part, token.line))
    return found


def _is_call(part: Piece, function: Function, index: int) -> bool:
    """Whether the name stands for the function, not for a member or for a variable of that name."""
    tokens = part.source.tokens
    name = tokens[index].text
    if tokens[index].kind is not Kind.WORD or tokens[following(tokens, index)].text != "(":
        return False
    before = tokens[previous(tokens, index)]
    if before.text in (".", "->", "::") or (before.kind is Kind.WORD and before.text != "return"):
        return False
    assert function.body is not None
    return all(
        tokens[following(tokens, i)].text == "("
        for i in range(function.parameters[0], function.body[1])
        if tokens[i].text == name
    )


def _may_run_on_device(words: Iterable[str], part: Piece) -> bool:
    """By a qualifier, by constexpr, or by a macro that may stand for one."""
    for word in words:
        if word in ("__device__", "__global__", "constexpr", "consteval"):
            return True
        if (word.isupper() and len(word) > 1) or "__device__" in part.source.macro_words(word):
            return True
    return False
